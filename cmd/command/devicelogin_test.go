package command

import (
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestShimWithACode: with --login device, stderr and the client have a code for another device, the same one however often the client
// asks, and the session works once a person has typed it. No browser is opened.
func TestShimWithACode(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{Device: true, DeviceInterval: 1})
	sh := d.shim(s.URL, "--login", "device", "--oauth", "wait=200ms")
	told := regexp.MustCompile(`^sign-in needed for (\S+): open (\S+) on any device and type the code (\S+), then start this server again$`)
	said := sh.refused(sh.initialize)
	m := told.FindStringSubmatch(said)
	if m == nil || m[1] != s.URL || m[2] != s.Issuer+"/device" {
		t.Fatalf("%q\n%s", said, sh.notes.String())
	}
	if again := sh.initialize().Get("error.message").Str; again != said {
		t.Errorf("then %q", again)
	}
	if notes := sh.notes.String(); !strings.Contains(notes, m[2]) || !strings.Contains(notes, m[3]) {
		t.Errorf("stderr has no code:\n%s", notes)
	}
	if !s.EnterCode(m[3], true) {
		t.Fatal("the code is not that of the authorization server")
	}
	peertest.Eventually(t, "the session begins", func() bool { return sh.initialize().Get("result").Exists() })
	if r := sh.echo(); r.Get("result.content.0.text").Str != "hello" {
		t.Error(r.Raw)
	}
	if c := s.Counts(); c.Devices != 1 || c.Authorizations != 0 || len(d.tabs()) != 0 {
		t.Errorf("%+v, tabs %v", c, d.tabs())
	}
}

// TestShimWhoseCodeIsDeclined: the client is told that the person has declined, and its next request brings another code.
func TestShimWhoseCodeIsDeclined(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{Device: true, DeviceInterval: 1})
	sh := d.shim(s.URL, "--login", "device", "--oauth", "wait=20s")
	codes := func() (all []string) {
		for _, m := range regexp.MustCompile(`"code":"([A-Z0-9]+)"`).FindAllStringSubmatch(sh.notes.String(), -1) {
			all = append(all, m[1])
		}
		return all
	}
	answered := make(chan string)
	go func() { answered <- sh.initialize().Get("error.message").Str }()
	peertest.Eventually(t, "stderr has the code", func() bool { return len(codes()) == 1 })
	s.EnterCode(codes()[0], false)
	if said := <-answered; !strings.HasPrefix(said, `AS refused: access_denied`) {
		t.Errorf("%q\n%s", said, sh.notes.String())
	}
	go func() { answered <- sh.initialize().Get("result.serverInfo.name").Str }()
	peertest.Eventually(t, "stderr has another code", func() bool {
		all := codes()
		return len(all) == 2 && s.EnterCode(all[1], true)
	})
	if name := <-answered; name == "" {
		t.Errorf("no session\n%s", sh.notes.String())
	}
}

// TestShimWithoutADeviceFlow: the client is told that the authorization server offers none, and what to do.
func TestShimWithoutADeviceFlow(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{})
	sh := d.shim(s.URL, "--login", "device")
	if said := sh.initialize().Get("error.message").Str; !strings.Contains(said, "has no device flow; leave out --login device, or run dragoman login "+s.URL) {
		t.Errorf("%q\n%s", said, sh.notes.String())
	}
}
