package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
)

// TestCommandsUseAStoredLogin: what a person has signed in to is asked as that person, by every command that asks a server, and doctor
// says whose login that is and where else it holds.
func TestCommandsUseAStoredLogin(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, false), oauthtest.New(t, oauthtest.Options{})
	give := "401 Unauthorized\n        → dragoman login " + s.URL + ", "
	out, notes, err := d.run("doctor", "--listen", "127.0.0.1:0", s.URL)
	if err == nil || !strings.Contains(out, give) {
		t.Errorf("before: %v\n%s%s", err, out, notes)
	}
	if err := d.signIn(s); err != nil {
		t.Fatal(err)
	}
	used := "http\n  ok    " + s.URL + ": answers over Streamable HTTP\n  ok    upstream.auth: the login of dragoman login is used, and the server accepts it\n" +
		"        → dragoman stdio uses it too; for dragoman serve write upstream.auth: {type: login}\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"doctor", "--listen", "127.0.0.1:0"}, used},
		{[]string{"doctor", "--listen", "127.0.0.1:0"}, "\nfine"},
		{[]string{"probe"}, "clients of 2025-06-18 get everything"},
		{[]string{"footprint"}, "  echo\n"},
	} {
		out, notes, err := d.run(append(c.args, s.URL)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%q: %v; want %q in\n%s%s", c.args, err, c.want, out, notes)
		}
		if c.args[0] != "doctor" && notes != "" {
			t.Errorf("%q: %s", c.args, notes)
		}
		if strings.Contains(out+notes, "canary") { // as all tokens of oauthtest
			t.Errorf("%q shows the token", c.args)
		}
	}
	if out, _, _ := d.run("doctor", "--listen", "127.0.0.1:0", s.URL, "--header", "Authorization: Bearer another"); strings.Contains(out, "dragoman login is used") {
		t.Errorf("with a header:\n%s", out)
	}
	open := filepath.Join(d.dir, "open.yaml")
	write(t, open, "listen: 0.0.0.0:0\nadmin: {listen: \"\"}\ncors: {origins: [\"*\"]}\n") // which serve may only without a credential of its own
	if out, _, err := d.run("doctor", "--config", open, s.URL); err != nil || !strings.Contains(out, used) {
		t.Errorf("a listener for all: %v\n%s", err, out)
	}
	if out, _, _ := d.run("probe", s.URL, "--profile", "other"); !strings.Contains(out, "the server requires a login") {
		t.Errorf("another profile:\n%s", out)
	}
	s.RevokeAll()
	want := fmt.Sprintf("sign-in for %[1]s has ended (invalid_grant); run dragoman login %[1]s", s.URL)
	for _, args := range [][]string{{"doctor", "--listen", "127.0.0.1:0", s.URL}, {"probe", s.URL}, {"footprint", s.URL}} {
		out, notes, err := d.run(args...)
		if exitCode := fmt.Sprint(err); exitCode != "exit status 3" || !strings.Contains(out+notes, want) {
			t.Errorf("%q after its end: %v; want %q in\n%s%s", args, err, want, out, notes)
		}
	}
}
