package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// signedIn is an adapter behind an OAuth server whose refresh tokens rotate, and the
// processes that serve it from one store.
type signedIn struct {
	*oauthtest.Server
	bin          dragoman
	folder, kept string
	env          []string
	said         output // of all processes
}

func newSignedIn(t *testing.T, auth string) *signedIn {
	t.Helper()
	testset.Need(t, testset.Peers)
	s := &signedIn{Server: oauthtest.New(), bin: build(t), folder: t.TempDir(), kept: filepath.Join(t.TempDir(), "kept")}
	t.Cleanup(s.Close)
	file := "---\nname: test-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: An API behind OAuth\n" +
		"auth: {type: oauth, token_url: '" + s.URL + "/token', client_id_env: ID, client_secret_env: SECRET, " + auth + "}\n" +
		"target: {base_url: '" + s.URL + "/api', transport: http, protocol: rest, serialization: json}\n" +
		"operations:\n  read:\n  - {name: get_status, maps_to: GET /status, description: Get the status}\n---\n"
	if err := os.WriteFile(filepath.Join(s.folder, "test-api-adapter.md"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	s.seed(s.Login())
	t.Cleanup(func() {
		for _, canary := range []string{"canary-client", "canary-refresh", "canary-access", "canary-code", "canary-device"} {
			for line := range strings.Lines(s.said.String()) {
				if strings.Contains(line, canary) && !strings.Contains(line, "client_id="+oauthtest.ClientID) { // the address of the login page contains it
					t.Errorf("%s shows in the log: %s", canary, line)
				}
			}
		}
	})
	return s
}

// seed sets the refresh token that processes are configured with.
func (s *signedIn) seed(token string) {
	s.env = append(os.Environ(), "ID="+oauthtest.ClientID, "SECRET="+oauthtest.ClientSecret, "SEED="+token,
		"DRAGOMAN_CREDENTIALS="+s.kept, "DBUS_SESSION_BUS_ADDRESS=autolaunch:", "DRAGOMAN_ADMIN_LISTEN=")
}

// running is one dragoman process.
type running struct {
	*exec.Cmd
	url   string
	ended chan error
	gone  chan struct{} // closed
}

func (s *signedIn) start(t *testing.T) *running {
	t.Helper()
	args := s.bin.args("serve", endpoint{}, "--adapters", s.folder, "--listen", "127.0.0.1:0", "--log-level", "debug")
	r := &running{Cmd: exec.Command(args[0], args[1:]...), ended: make(chan error, 1), gone: make(chan struct{})}
	var own output
	r.Env, r.Stderr = s.env, io.MultiWriter(&own, &s.said)
	if err := r.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.ended <- r.Wait()
		close(r.gone)
	}()
	t.Cleanup(r.kill)
	at, err := serving(t.Context(), &own, r.ended)
	if err != nil {
		t.Fatal(err, own.String())
	}
	r.url = strings.TrimSuffix(at, "/mcp") + "/adapters/test-api/read"
	return r
}

func (r *running) kill() {
	_ = r.Process.Kill()
	<-r.gone
}

// ask calls the API and returns the result, or "" if the process has ended.
func (r *running) ask() string {
	res, err := http.Post(r.url, "application/json", strings.NewReader(`{"operation":"get_status"}`))
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

const (
	signedInFine = `{"success":true,"data":"fine"}`
	seeded       = "grant: refresh_token, refresh_token_env: SEED"
)

func mustBeFine(t *testing.T, s *signedIn, r *running) {
	t.Helper()
	if got := r.ask(); got != signedInFine {
		t.Errorf("%s\n%s", got, s.said.String())
	}
}

func TestARotatedTokenSurvivesRestartAndKill(t *testing.T) {
	s := newSignedIn(t, seeded)
	for i := range 4 {
		r := s.start(t)
		mustBeFine(t, s, r)
		s.RefuseTokens()
		mustBeFine(t, s, r)
		if i%2 == 0 {
			if err := stop(r.Process, r.ended); err != nil {
				t.Error(err)
			}
		} else {
			r.kill()
		}
	}
	if n := len(s.Forms()); n != 5 || s.Reused() != 0 {
		t.Errorf("%d refreshes, %d tokens sent again", n, s.Reused())
	}
}

func TestARotatedTokenSurvivesReload(t *testing.T) {
	s := newSignedIn(t, seeded)
	r := s.start(t)
	mustBeFine(t, s, r)
	path := filepath.Join(s.folder, "test-api-adapter.md")
	text, _ := os.ReadFile(path)
	rewrite(t, path, append(text, "More words.\n"...))
	waitFor(t, func() bool { return strings.Contains(s.said.String(), "adapters changed") })
	mustBeFine(t, s, r)
	if n := len(s.Forms()); n != 1 {
		t.Errorf("%d refreshes: the access token did not survive", n)
	}
	s.RefuseTokens()
	mustBeFine(t, s, r)
	if s.Reused() != 0 {
		t.Error("a token was sent again")
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen within %v", patience)
		}
	}
}

// TestKilledBetweenAnswerAndStore ends the process when the server has created a token and
// not yet answered. That token is lost, and the old one must not be sent again.
func TestKilledBetweenAnswerAndStore(t *testing.T) {
	s := newSignedIn(t, seeded)
	r := s.start(t)
	mustBeFine(t, s, r)
	s.RefuseTokens()
	s.After(func(url.Values) { r.kill() })
	if got := r.ask(); got != "" {
		t.Error("it answered:", got)
	}
	s.After(nil)
	r = s.start(t)
	for range 3 {
		if got := r.ask(); !strings.Contains(got, `"AUTH_LOGIN_REQUIRED"`) {
			t.Error(got)
		}
	}
	if n := len(s.Forms()); n != 2 || s.Reused() != 0 {
		t.Errorf("%d requests, %d tokens sent again", n, s.Reused())
	}
	r.kill() // after which all that it has logged is there
	if said := s.said.String(); !strings.Contains(said, "the answer to the last refresh was lost") || !strings.Contains(said, "put a new refresh token into SEED") {
		t.Error(said)
	}
	s.seed(s.Login())
	mustBeFine(t, s, s.start(t))
}

// TestKilledAtAnyMoment counts how many logins survive if processes are killed while they refresh tokens.
func TestKilledAtAnyMoment(t *testing.T) {
	rounds := 20
	if os.Getenv("OAUTH_KILLS") != "" {
		fmt.Sscan(os.Getenv("OAUTH_KILLS"), &rounds)
	}
	s := newSignedIn(t, seeded)
	kept, lost, unasked, asked := 0, 0, 0, 0
	for range rounds {
		r := s.start(t)
		switch got := r.ask(); {
		case got == signedInFine:
			kept++
		case strings.Contains(got, "AUTH_LOGIN_REQUIRED"):
			lost++
			if len(s.Forms()) == asked {
				unasked++
			}
			r.kill()
			s.seed(s.Login())
			r = s.start(t)
			mustBeFine(t, s, r)
		default:
			t.Errorf("%s\n%s", got, s.said.String())
		}
		s.RefuseTokens()
		asked = len(s.Forms())
		go r.ask()
		time.Sleep(rand.N(12 * time.Millisecond))
		r.kill()
	}
	t.Logf("%d kills: %d logins lived, %d were lost with an answer, %d before the request was sent, %d tokens sent again", rounds, kept, lost-unasked, unasked, s.Reused())
	if s.Reused() != 0 {
		t.Error("a token was sent again")
	}
	if strings.Contains(s.said.String(), "damaged") {
		t.Error("the store broke")
	}
}

func TestProcessesThatShareALogin(t *testing.T) {
	s := newSignedIn(t, seeded)
	all := []*running{s.start(t), s.start(t), s.start(t)}
	for round := range 5 {
		if round > 0 {
			s.RefuseTokens()
		}
		var wg sync.WaitGroup
		for _, r := range all {
			for range 10 {
				wg.Go(func() { mustBeFine(t, s, r) })
			}
		}
		wg.Wait()
		if n := len(s.Forms()); n != round+1 {
			t.Errorf("%d refreshes in %d rounds", n, round+1)
		}
	}
	if s.Reused() != 0 {
		t.Error("a token was sent again")
	}
}

// TestAStoreOnAFullDisk checks that calls go on with the tokens in memory if they cannot be stored.
func TestAStoreOnAFullDisk(t *testing.T) {
	s := newSignedIn(t, seeded)
	if err := os.WriteFile(s.kept, nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	r := s.start(t)
	for range 3 {
		mustBeFine(t, s, r)
		s.RefuseTokens()
	}
	r.kill() // after which all that it has logged is there
	if said := s.said.String(); strings.Count(said, "tokens cannot be stored") != 1 || !strings.Contains(said, s.kept) || s.Reused() != 0 {
		t.Error(said, s.Reused())
	}
}

var loginPage = regexp.MustCompile(`http://127\.0\.0\.1:\d+/authorize\S+`)

// login runs the command dragoman adapter login, and passes its output to do.
func (s *signedIn) login(t *testing.T, do func(said *output, stdin io.Writer), flags ...string) (out string, err error) {
	t.Helper()
	return s.command(t, do, append([]string{"login", "test-api"}, flags...)...)
}

// command runs dragoman adapter, and passes its output to do.
func (s *signedIn) command(t *testing.T, do func(said *output, stdin io.Writer), more ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := s.bin.args("adapter", endpoint{}, append(more, "--adapters", s.folder)...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var own output
	var stdout bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = slices.DeleteFunc(slices.Clone(s.env), func(e string) bool { return strings.HasPrefix(e, "DISPLAY=") || strings.HasPrefix(e, "SEED=") }), &stdout, io.MultiWriter(&own, &s.said)
	stdin, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	do(&own, stdin)
	err = cmd.Wait()
	return stdout.String(), err
}

func TestLogins(t *testing.T) {
	const codes = "grant: authorization_code, authorization_url: '%[1]s/authorize', device_authorization_url: '%[1]s/device', revocation_url: '%[1]s/revoke'"
	noRedirects := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page := func(t *testing.T, said *output) string {
		waitFor(t, func() bool { return loginPage.MatchString(said.String()) })
		return loginPage.FindString(said.String())
	}
	for name, c := range map[string]struct {
		flags []string
		visit func(t *testing.T, said *output, stdin io.Writer)
	}{
		"browser": {[]string{"--no-browser"}, func(t *testing.T, said *output, _ io.Writer) {
			at := page(t, said)
			res, err := noRedirects.Get(at)
			if err != nil {
				t.Fatal(err)
			}
			back := res.Header.Get("Location")
			for _, wrong := range []string{strings.Replace(back, "state=", "state=x", 1), strings.Replace(back, "/callback", "/else", 1), strings.Split(back, "?")[0]} {
				if res, err := http.Get(wrong); err != nil || res.StatusCode != 404 {
					t.Error(wrong, err)
				}
			}
			req, _ := http.NewRequest("GET", back, nil)
			req.Host = "evil.example"
			if res, err := http.DefaultClient.Do(req); err != nil || res.StatusCode != 404 {
				t.Error("another host's page came back", err)
			}
			res, err = http.Get(back)
			if err != nil || res.StatusCode != 200 {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(res.Body)
			if strings.Contains(string(b), "canary") {
				t.Errorf("%s", b)
			}
		}},
		"paste": {[]string{"--paste"}, func(t *testing.T, said *output, stdin io.Writer) {
			res, err := noRedirects.Get(page(t, said))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(stdin, " "+res.Header.Get("Location"))
		}},
		"device": {[]string{"--device"}, func(t *testing.T, said *output, _ io.Writer) {
			waitFor(t, func() bool {
				return strings.Contains(said.String(), "Open https://as.example/device on any device and enter the code WDJB-MJHT\n")
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignedIn(t, "")
			file := filepath.Join(s.folder, "test-api-adapter.md")
			text, _ := os.ReadFile(file)
			os.WriteFile(file, bytes.Replace(text, []byte("client_secret_env: SECRET, }"), fmt.Appendf(nil, "client_secret_env: SECRET, "+codes+"}", s.URL), 1), 0o600)
			r := s.start(t)
			if got := r.ask(); !strings.Contains(got, `"AUTH_LOGIN_REQUIRED"`) || !strings.Contains(got, `"login":"dragoman adapter login test-api"`) {
				t.Error(got)
			}
			out, err := s.login(t, func(said *output, stdin io.Writer) { c.visit(t, said, stdin) }, c.flags...)
			if err != nil || out != "adapter test-api is logged in\n" {
				t.Fatal(out, err, s.said.String())
			}
			mustBeFine(t, s, r) // without a restart
			quietly := func(*output, io.Writer) {}
			if out, err := s.command(t, quietly, "login", "--list"); err != nil || !storedLogin.MatchString(out) {
				t.Error(out, err)
			}
			s.RefuseTokens()
			mustBeFine(t, s, r)
			r.kill()
			r = s.start(t)
			mustBeFine(t, s, r)
			s.EndLogins()
			if got := r.ask(); !strings.Contains(got, "PERMISSION_DENIED") && !strings.Contains(got, "AUTH_LOGIN_REQUIRED") {
				t.Error(got)
			}
			if _, err := s.login(t, func(said *output, stdin io.Writer) { c.visit(t, said, stdin) }, c.flags...); err != nil {
				t.Fatal(err, s.said.String())
			}
			mustBeFine(t, s, r)
			if out, err := s.command(t, quietly, "logout", "test-api"); err != nil || out != "the tokens of adapter test-api are revoked, and deleted here\n" {
				t.Error(out, err)
			}
			if got := r.ask(); !strings.Contains(got, `"AUTH_LOGIN_REQUIRED"`) {
				t.Error(got)
			}
		})
	}
}

var storedLogin = regexp.MustCompile(`^ADAPTER +SERVER +LOGIN +TOKEN UNTIL\ntest-api +127\.0\.0\.1:\d+ +logged in +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n$`)
