package oauth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// waits makes the account's clock go on instead of waiting, and notes how long it would have waited. after is called for each wait.
func waits(a *Account, after func(n int)) *[]time.Duration {
	all, passed := new([]time.Duration), time.Duration(0)
	a.now = func() time.Time { return time.Now().Add(passed) }
	a.sleep = func(ctx context.Context, d time.Duration) error {
		*all, passed = append(*all, d), passed+d
		if after != nil {
			after(len(*all))
		}
		return ctx.Err()
	}
	return all
}

// TestSignInOnADevice: codes, waits, and the tokens of it.
func TestSignInOnADevice(t *testing.T) {
	for name, c := range map[string]struct {
		o      oauthtest.Options
		change func(*Config)
		want   []time.Duration // the waits; the person agrees in the third one
	}{
		"no interval":      {want: []time.Duration{5, 5, 5}},
		"interval":         {o: oauthtest.Options{DeviceInterval: 2}, want: []time.Duration{2, 2, 2}},
		"slower":           {o: oauthtest.Options{DeviceInterval: 2, DeviceSlow: 2}, want: []time.Duration{2, 7, 12}},
		"endless interval": {o: oauthtest.Options{DeviceInterval: 1e6}, want: []time.Duration{60, 60, 60}},
		"failure":          {o: oauthtest.Options{PollStatus: 503}, want: []time.Duration{5, 10, 10}},
		"known client":     {o: oauthtest.Options{NoDCR: true, Clients: map[string]string{"known": "s3cret"}}, change: func(c *Config) { c.ClientID, c.ClientSecret = "known", "s3cret" }, want: []time.Duration{5, 5, 5}},
		"document":         {o: oauthtest.Options{CIMD: true}, change: func(c *Config) { c.ClientMetadataURL = "https://client.example/m.json" }, want: []time.Duration{5, 5, 5}},
		"no PKCE":          {o: oauthtest.Options{NoPKCE: true}, want: []time.Duration{5, 5, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Device, c.o.Scopes = true, []string{"read"}
			s := oauthtest.New(t, c.o)
			a := logged(t, s, t.TempDir(), c.change, watched(t))
			var code DeviceCode
			got := waits(a, func(n int) {
				if n == 3 {
					s.EnterCode(code.Code, true)
				}
			})
			if err := a.SignInOnDevice(t.Context(), func(d DeviceCode) { code = d }); err != nil {
				t.Fatal(err)
			}
			if code.Page != s.Issuer+"/device" || code.Link != code.Page+"?user_code="+code.Code {
				t.Errorf("%+v", code)
			}
			for i := range c.want {
				c.want[i] *= time.Second
			}
			a.now = time.Now
			if !slices.Equal(*got, c.want) {
				t.Errorf("waited %v, want %v", *got, c.want)
			}
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Error(status, err)
			}
			s.RevokeAccess()
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Error("after a refresh:", status, err)
			}
			for _, f := range s.TokenForms() {
				if f.Get("resource") != s.URL {
					t.Error("no resource:", f)
				}
			}
			if f := s.TokenForms()[0]; f.Get("scope") != "read" || s.Counts().Authorizations != 0 || !a.HasDevice() {
				t.Error(f, s.Counts())
			}
		})
	}
}

// TestDeviceFails: what people are told, word for word.
func TestDeviceFails(t *testing.T) {
	for name, c := range map[string]struct {
		o      oauthtest.Options
		change func(*Config)
		each   func(*oauthtest.Server, DeviceCode) // in each wait
		want   string
	}{
		"no device flow": {o: oauthtest.Options{DevicePage: "-"}, want: "AS ASHOST has no device flow; run dragoman login SERVER"},
		"declined":       {each: func(s *oauthtest.Server, d DeviceCode) { s.EnterCode(d.Code, false) }, want: `AS refused: access_denied "the person has declined"`},
		"too late":       {o: oauthtest.Options{DeviceLife: 4 * time.Second}, want: "the code was not used in time; run dragoman login --device SERVER"},
		"expired there": {each: func(s *oauthtest.Server, _ DeviceCode) {
			s.Change(func(o *oauthtest.Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } })
		}, want: "the code was not used in time; run dragoman login --device SERVER"},
		"failures": {o: oauthtest.Options{DeviceLife: 12 * time.Second, PollStatus: 503}, want: "the code was not used in time; run dragoman login --device SERVER (AS ASHOST: answered 503)"},
		"resource": {o: oauthtest.Options{NoResource: true},
			want: `AS ASHOST: refused: invalid_target "unknown resource"; if it knows the server by another name or takes no resource: --oauth resource=NAME or --oauth resource=none`},
		"scopes":      {o: oauthtest.Options{Deny: "invalid_scope"}, want: `AS ASHOST: refused: invalid_scope "unknown scope"`},
		"script":      {o: oauthtest.Options{DevicePage: "javascript:alert(1)"}, want: `AS ASHOST: verification_uri: "javascript:alert(1)" is not an absolute URL without user and fragment`},
		"plain http":  {o: oauthtest.Options{DevicePage: "http://as.example/device"}, want: `AS ASHOST: verification_uri: "http://as.example/device" is not an https URL`},
		"no clients":  {o: oauthtest.Options{NoDCR: true}, want: "AS registers no clients by itself: register one for the device flow and pass --oauth client_id=…"},
		"forgotten":   {o: oauthtest.Options{Clients: map[string]string{"known": "a"}}, change: func(c *Config) { c.ClientID, c.ClientSecret = "known", "canary-b" }, want: `AS ASHOST: refused: invalid_client "unknown client or wrong secret"`},
		"no metadata": {o: oauthtest.Options{NoASM: true}, want: `AS "ISSUER" has no metadata: tried ISSUER/.well-known/oauth-authorization-server and ISSUER/.well-known/openid-configuration: answered 404`},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Device = c.o.DevicePage != "-"
			s := oauthtest.New(t, c.o)
			a := logged(t, s, t.TempDir(), c.change, watched(t))
			var code DeviceCode
			waits(a, func(n int) {
				if n > 20 {
					t.Fatal("no end to the requests")
				}
				if c.each != nil {
					c.each(s, code)
				}
			})
			err := a.SignInOnDevice(t.Context(), func(d DeviceCode) { code = d })
			if err == nil || err.Error() != addressed(s, c.want) {
				t.Errorf("got  %v\nwant %s", err, addressed(s, c.want))
			}
		})
	}
}

// TestDeviceInTime: the person has as long as the caller says.
func TestDeviceInTime(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{Device: true, DeviceInterval: 1})
	a := accountOf(t, s, "", nil)
	peertest.Within(t, 200*time.Millisecond, func(limit time.Duration) error { // there is a code within it
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		err := a.SignInOnDevice(ctx, func(DeviceCode) {})
		if want := "the code was not used in time; run dragoman login --device " + s.URL; err == nil || err.Error() != want {
			return fmt.Errorf("got  %w\nwant %s", err, want)
		}
		return nil
	})
}

// TestDeviceAndBrowserShareAnAccount: a registration for devices is good for the browser, one for the browser is not good for devices,
// and one that the authorization server has forgotten is replaced.
func TestDeviceAndBrowserShareAnAccount(t *testing.T) {
	s, dir := oauthtest.New(t, oauthtest.Options{Device: true}), t.TempDir()
	onDevice := func() error {
		a := accountOf(t, s, dir, nil)
		var code DeviceCode
		waits(a, func(int) { s.EnterCode(code.Code, true) })
		return a.SignInOnDevice(t.Context(), func(d DeviceCode) { code = d })
	}
	inBrowser := func() error { return accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}) }
	for i, step := range []struct {
		signIn        func() error
		registrations int
	}{{inBrowser, 1}, {onDevice, 2}, {inBrowser, 2}, {onDevice, 2}} {
		if err := step.signIn(); err != nil || s.Counts().Registrations != step.registrations {
			t.Fatal(i, err, s.Counts())
		}
	}
	s.ForgetClients()
	if err := onDevice(); err != nil || s.Counts().Registrations != 3 {
		t.Error(err, s.Counts())
	}
	asked := s.Registrations()[2]["grant_types"]
	if list, _ := asked.([]any); !slices.Contains(list, any(deviceGrant)) || !slices.Contains(list, any("refresh_token")) {
		t.Error(asked)
	}
}

// TestDeviceIsOffered: where no browser can be opened, the error names the device flow if there is one.
func TestDeviceIsOffered(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{Device: true})
	peertest.Within(t, 300*time.Millisecond, func(limit time.Duration) error { // the server's metadata come within it
		a := accountOf(t, s, t.TempDir(), func(c *Config) { c.Wait = limit })
		a.Interactive(func(string) error { return context.Canceled })
		_, err := call(t, a, s)
		begin, end := "sign-in needed for "+s.URL+": open "+s.Issuer+"/authorize?", ", or run: dragoman login --device "+s.URL
		if err == nil || !strings.HasPrefix(err.Error(), begin) || !strings.HasSuffix(err.Error(), end) {
			return fmt.Errorf("got  %w\nwant %s…%s", err, begin, end)
		}
		return nil
	})
}
