package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// A desk is a machine with a person: a directory for tokens, and a browser that writes down what it is asked
// to show.
type desk struct {
	t     *testing.T
	dir   string
	shown string // file with the addresses that the browser was started with, one a line
	env   []string
}

func newDesk(t *testing.T, browser bool) *desk {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs the browser of Linux desktops")
	}
	d := &desk{t: t, dir: t.TempDir()}
	d.shown = filepath.Join(d.dir, "shown")
	script := "#!/bin/sh\nprintf '%s\\n' \"$1\" >> '" + d.shown + "'\n{ echo \"$@\"; env; } >> '" + d.shown + ".seen'\necho noise on stdout\n"
	if err := os.WriteFile(filepath.Join(d.dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = []string{
		beDragoman + "=1", "HOME=" + d.dir, "PATH=" + d.dir + ":" + os.Getenv("PATH"), "DRAGOMAN_LOG_LEVEL=debug", "DBUS_SESSION_BUS_ADDRESS=autolaunch:",
		"DRAGOMAN_CREDENTIALS=" + filepath.Join(d.dir, "tokens"),
	}
	if browser {
		d.env = append(d.env, "DISPLAY=:0")
	}
	return d
}

// tabs returns the addresses that the browser was asked to show so far.
func (d *desk) tabs() []string {
	text, _ := os.ReadFile(d.shown)
	return strings.Fields(string(text))
}

// nextTab waits for the tab with number n.
func (d *desk) nextTab(n int) string {
	d.t.Helper()
	var all []string
	peertest.Eventually(d.t, "a tab opens", func() bool { all = d.tabs(); return len(all) > n })
	return all[n]
}

// run runs a command of dragoman to its end.
func (d *desk) run(args ...string) (stdout, stderr string, err error) {
	var out, notes bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, &out, &notes
	err = cmd.Run()
	return out.String(), notes.String(), err
}

// signIn signs in with dragoman login, whose link a person opens.
func (d *desk) signIn(s *oauthtest.Server, args ...string) error {
	d.t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"login", s.URL, "--no-browser"}, args...)...)
	cmd.Env = d.env
	notes, err := cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			if _, err := s.Visit(address); err != nil {
				d.t.Error(err)
			}
		}
	}
	return cmd.Wait()
}

// A shim is dragoman stdio as a client runs it.
type shim struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stdout bytes.Buffer
	notes  syncBuffer
	id     int
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (d *desk) shim(server string, args ...string) *shim {
	d.t.Helper()
	s := &shim{t: d.t, cmd: exec.Command(os.Args[0], append([]string{"stdio", "--upstream", server}, args...)...)}
	s.cmd.Env, s.cmd.Stderr = d.env, &s.notes
	in, err := s.cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewScanner(io.TeeReader(out, &s.stdout))
	if err := s.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	return s
}

// call sends a request and returns the response.
func (s *shim) call(method, params string) gjson.Result {
	s.id++
	fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", s.id, method, params)
	for s.out.Scan() {
		if r := gjson.Parse(s.out.Text()); r.Get("id").Int() == int64(s.id) {
			return r
		}
	}
	s.t.Errorf("%s: no answer: %v\n%s", method, s.out.Err(), s.notes.String())
	return gjson.Result{}
}

func (s *shim) initialize() gjson.Result {
	r := s.call("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	if r.Get("result").Exists() {
		fmt.Fprintln(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return r
}

// refused sends a request until a page for the sign-in is known, which a busy machine may need more than one wait for, and returns what
// the client is told.
func (s *shim) refused(request func() gjson.Result) (said string) {
	s.t.Helper()
	peertest.Eventually(s.t, "a page for the sign-in is known", func() bool {
		said = request().Get("error.message").Str
		return !strings.Contains(said, ": run dragoman login ")
	})
	return said
}

func (s *shim) echo() gjson.Result {
	return s.call("tools/call", `{"name":"echo","arguments":{"text":"hello"}}`)
}

// TestFiveShimsSignIn: shims that start together open one tab and register once, and all have their session
// after the sign-in.
func TestFiveShimsSignIn(t *testing.T) {
	d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{})
	var all sync.WaitGroup
	for range 5 {
		sh := d.shim(s.URL)
		all.Go(func() {
			if r := sh.initialize(); !r.Get("result.serverInfo").Exists() {
				t.Error(r.Raw, sh.notes.String())
			}
			if r := sh.echo(); r.Get("result.content.0.text").Str != "hello" {
				t.Error(r.Raw)
			}
		})
	}
	if _, err := s.Visit(d.nextTab(0)); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if c := s.Counts(); len(d.tabs()) != 1 || c.Registrations != 1 || c.Authorizations != 1 || c.Codes != 1 {
		t.Error(len(d.tabs()), "tabs", c)
	}
}

// TestShimWithoutABrowser: initialize fails with the link, and a session works after a sign-in in a terminal,
// whether it began before or not.
func TestShimWithoutABrowser(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, false), oauthtest.New(t, oauthtest.Options{})
	sh := d.shim(s.URL, "--oauth", "wait=1s")
	link := regexp.MustCompile(`^sign-in needed for (\S+): open (\S+), or run: dragoman login --paste (\S+)$`)
	said := sh.refused(sh.initialize)
	m := link.FindStringSubmatch(said)
	if m == nil || m[1] != s.URL || m[3] != s.URL || !strings.HasPrefix(m[2], s.Issuer+"/authorize?") {
		t.Fatalf("%q\n%s", said, sh.notes.String())
	}
	if err := d.signIn(s); err != nil {
		t.Fatal(err)
	}
	if r := sh.initialize(); !r.Get("result").Exists() {
		t.Error(r.Raw)
	}
	s.RevokeAll() // the sign-in is over, and the session is not
	want := "sign-in for " + s.URL + " has ended (invalid_grant); run dragoman login " + s.URL
	if r := sh.echo(); r.Get("error.message").Str != want {
		t.Error(r.Raw)
	}
	if err := d.signIn(s); err != nil {
		t.Fatal(err)
	}
	if r := sh.echo(); r.Get("result.content.0.text").Str != "hello" {
		t.Error(r.Raw)
	}
}

// TestShimOfAModernClient: a client without a handshake gets the same message, and is served after the sign-in.
func TestShimOfAModernClient(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, false), oauthtest.New(t, oauthtest.Options{})
	sh := d.shim(s.URL, "--oauth", "wait=1s")
	list := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`
	if said := sh.refused(func() gjson.Result { return sh.call("tools/list", list) }); !strings.HasPrefix(said, "sign-in needed for "+s.URL+": open ") {
		t.Errorf("%q\n%s", said, sh.notes.String())
	}
	if err := d.signIn(s); err != nil {
		t.Fatal(err)
	}
	if r := sh.call("tools/list", list); r.Get("result.tools.0.name").Str != "echo" {
		t.Error(r.Raw, sh.notes.String())
	}
}

// TestShimSaysWhyNoSignInIsPossible: what a client is told where no sign-in can help.
func TestShimSaysWhyNoSignInIsPossible(t *testing.T) {
	s := oauthtest.New(t, oauthtest.Options{})
	nowhere := oauthtest.New(t, oauthtest.Options{NoPRM: true})
	for name, c := range map[string]struct {
		server string
		args   []string
		want   string
	}{
		"own header":      {s.URL, []string{"--header", "Authorization: Bearer canary-own"}, s.URL + ` refused the token given by --header (401): "unknown or revoked token"`},
		"never":           {s.URL, []string{"--login", "never"}, s.URL + " wants a token: --header 'Authorization: Bearer ${TOKEN}', or --login auto"},
		"nowhere to go":   {nowhere.URL, nil, nowhere.URL + " wants a token and does not say where to get one: give it with --header 'Authorization: Bearer ${TOKEN}'"},
		"a known client":  {s.URL, []string{"--oauth", "client_id=unknown", "--oauth", "client_secret=canary-secret", "--oauth", "issuer=" + nowhere.Issuer + "/x"}, `AS "` + nowhere.Issuer + `/x" has no metadata: tried ` + nowhere.Issuer + `/.well-known/oauth-authorization-server/x, ` + nowhere.Issuer + `/.well-known/openid-configuration/x and ` + nowhere.Issuer + `/x/.well-known/openid-configuration: answered 404`},
		"no registration": {oauthtest.New(t, oauthtest.Options{NoDCR: true}).URL, []string{"--oauth", "redirect_uri=http://127.0.0.1:7/callback"}, "AS registers no clients by itself: register one with redirect URI http://127.0.0.1:7/callback and pass --oauth client_id=…"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, true)
			sh := d.shim(c.server, c.args...)
			r := sh.initialize()
			if got := r.Get("error.message").Str; got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			sh.in.Close()
			sh.cmd.Wait()
			if all := sh.notes.String() + sh.stdout.String(); strings.Contains(all, "canary-") || len(d.tabs()) > 0 {
				t.Error(d.tabs(), all)
			}
		})
	}
}

// TestSignInGoesOnAfterStdinIsClosed: a sign-in goes on for a while after the client has closed stdin, and ends with SIGTERM.
func TestSignInGoesOnAfterStdinIsClosed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*shim)
		done bool
	}{
		"stdin closed": {func(sh *shim) { sh.in.Close() }, true},
		"SIGTERM":      {func(sh *shim) { sh.cmd.Process.Signal(syscall.SIGTERM) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{})
			sh := d.shim(s.URL, "--oauth", "wait=1s")
			want := "sign-in needed for " + s.URL + ": finish it in the browser, then start this server again (or run: dragoman login " + s.URL + ")"
			if got := sh.refused(sh.initialize); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			page := d.nextTab(0)
			c.end(sh)
			ended := make(chan error, 1)
			go func() { ended <- sh.cmd.Wait() }()
			wait := patience
			if c.done {
				wait = 2 * time.Second
			}
			select {
			case err := <-ended:
				if c.done {
					t.Fatal("ended with the sign-in under way:", err)
				}
				if _, err := s.Visit(page); err == nil {
					t.Error("something still listens")
				}
				return
			case <-time.After(wait):
				if !c.done {
					t.Fatal("has not ended")
				}
			}
			if _, err := s.Visit(page); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if r := d.shim(s.URL).initialize(); !r.Get("result").Exists() || len(d.tabs()) != 1 {
				t.Error(r.Raw)
			}
		})
	}
}

// TestLoginCommands: sign in, list, sign out, each with what it prints.
func TestLoginCommands(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, false), oauthtest.New(t, oauthtest.Options{Scopes: []string{"read"}})
	if err := d.signIn(s, "--profile", "work"); err != nil {
		t.Fatal(err)
	}
	out, _, err := d.run("login", "--list")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 2 {
		t.Fatal(out, err)
	}
	if f := strings.Fields(lines[1]); len(f) < 9 || f[0] != s.URL || f[1] != "work" || f[2] != s.Issuer || f[4] != "read" || !strings.HasSuffix(lines[1], "plain file") {
		t.Error(lines[1])
	}
	if r := d.shim(s.URL, "--oauth", "wait=1s").initialize(); r.Get("result").Exists() {
		t.Error("another profile has the tokens")
	}
	if r := d.shim(s.URL, "--profile", "work").initialize(); !r.Get("result").Exists() {
		t.Error(r.Raw)
	}
	out, _, err = d.run("logout", s.URL, "--profile", "work")
	if want := "the tokens for " + s.URL + " are revoked, and deleted here\n"; out != want || err != nil || s.Counts().Revocations != 1 {
		t.Errorf("%q, %v", out, err)
	}
	out, _, err = d.run("logout", s.URL)
	if want := "the tokens for " + s.URL + " are not stored: there was nothing to delete\n"; out != want || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if err := d.signIn(s); err != nil {
		t.Fatal(err)
	}
	if out, _, err = d.run("logout", "--all"); err != nil || !strings.Contains(out, "revoked, and deleted here") {
		t.Errorf("%q, %v", out, err)
	}
	if out, _, err = d.run("login", "--list"); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%q, %v", out, err)
	}
	for _, args := range [][]string{{"login"}, {"login", s.URL, "--oauth", "nonsense=1"}, {"login", "ftp://x"}, {"stdio", s.URL, "--login", "maybe"}, {"login", s.URL, "--oauth", "params.state=1"}} {
		_, notes, err := d.run(args...)
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != exitUsage {
			t.Error(args, err, notes)
		}
	}
}

// TestLoginByPasting: the browser is on another machine, and its last address is pasted.
func TestLoginByPasting(t *testing.T) {
	d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{})
	cmd := exec.Command(os.Args[0], "login", s.URL, "--paste")
	cmd.Env = d.env
	in, _ := cmd.StdinPipe()
	notes, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			at, err := s.Redirect(address)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(in, at)
		}
	}
	if err := cmd.Wait(); err != nil || len(d.tabs()) != 0 {
		t.Error(err, d.tabs())
	}
}

// TestLoginOnADevice: the code and the page are printed as plain text, and nothing else of the sign-in is. A login without a browser
// offers it.
func TestLoginOnADevice(t *testing.T) {
	t.Parallel()
	d, s := newDesk(t, false), oauthtest.New(t, oauthtest.Options{Device: true, DeviceInterval: 1})
	cmd := exec.Command(os.Args[0], "login", "--device", s.URL)
	cmd.Env = d.env
	notes, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`^Open ` + regexp.QuoteMeta(s.Issuer) + `/device on any device and enter the code (\S+)$`)
	var said []string
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		said = append(said, lines.Text())
		if m := code.FindStringSubmatch(lines.Text()); m != nil && !s.EnterCode(m[1], true) {
			t.Error("unknown code", m[1])
		}
	}
	err := cmd.Wait()
	all := strings.Join(said, "\n")
	if err != nil || !strings.Contains(all, "\nor open "+s.Issuer+"/device?user_code=") || strings.Contains(all, "canary-") || len(d.tabs()) != 0 {
		t.Errorf("%v, tabs %v\n%s", err, d.tabs(), all)
	}
	if r := d.shim(s.URL).initialize(); !r.Get("result").Exists() {
		t.Error(r.Raw)
	}
	_, notesOfOther, _ := d.run("login", oauthtest.New(t, oauthtest.Options{}).URL, "--device")
	if !strings.Contains(notesOfOther, "has no device flow; run dragoman login http") {
		t.Error(notesOfOther)
	}

	cmd = exec.Command(os.Args[0], "login", s.URL)
	cmd.Env = d.env
	notes, _ = cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	offer := "  dragoman login --device " + s.URL
	for lines := bufio.NewScanner(notes); lines.Scan(); {
		if lines.Text() == offer {
			offer = ""
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if cmd.Wait(); offer != "" {
		t.Error("no device flow is offered")
	}
}

// TestShimShowsNoSecret: neither the log at debug level, nor what the client reads, nor the arguments and the
// environment of the browser hold a code, a token, a verifier or a secret.
func TestShimShowsNoSecret(t *testing.T) {
	d, s := newDesk(t, true), oauthtest.New(t, oauthtest.Options{Clients: map[string]string{"known": "canary-client-secret"}})
	d.env = append(d.env, "SECRET=canary-client-secret")
	sh := d.shim(s.URL, "--oauth", "client_id=known", "--oauth", "client_secret=${SECRET}", "--oauth", "wait=20s")
	opened := make(chan error)
	go func() {
		_, err := s.Visit(d.nextTab(0))
		opened <- err
	}()
	if r := sh.initialize(); !r.Get("result").Exists() {
		t.Fatal(r.Raw, sh.notes.String())
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	sh.echo()
	s.RevokeAccess()
	sh.echo()
	s.RevokeAll()
	sh.echo()
	sh.in.Close()
	sh.cmd.Wait()
	seen, _ := os.ReadFile(d.shown + ".seen")
	list, _, _ := d.run("login", "--list")
	told := map[string]string{"log": sh.notes.String(), "client": sh.stdout.String(), "list": list}
	argv, _, _ := strings.Cut(string(seen), "\n")
	told["arguments"] = argv
	for _, form := range s.TokenForms() {
		if v := form.Get("code_verifier"); v != "" {
			told["arguments"] = strings.ReplaceAll(told["arguments"], v, "canary-verifier")
		}
	}
	for what, text := range told {
		if i := strings.Index(text, "canary-"); i >= 0 {
			t.Errorf("%s: …%.200s", what, text[max(0, i-100):])
		}
	}
	if len(sh.notes.String()) == 0 || len(s.TokenForms()) < 2 || argv == "" {
		t.Error("too little has happened")
	}
}

// TestMistakesOfASignInNameTheirFlag: also those of a setting for which there are two flags.
func TestMistakesOfASignInNameTheirFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--profile", "a\nb"}, "--profile: upstream.auth.profile: must have no line breaks"},
		{[]string{"--oauth", "profile=a\nb"}, "--oauth: upstream.auth.profile: must have no line breaks"},
		{[]string{"--oauth", "profile=fine", "--profile", "a\nb"}, "--profile: upstream.auth.profile: must have no line breaks"},
		{[]string{"--oauth", "client_id=a\nb", "--profile", "fine"}, "--oauth: upstream.auth.client_id: must have no line breaks"},
		{[]string{"--oauth", "issuer=x", "--profile", "fine"}, `--oauth: upstream.auth.issuer: "x" is not an https URL`},
	} {
		_, _, err := run(t.Context(), "", append([]string{"stdio", "http://127.0.0.1:1/mcp"}, c.args...)...)
		if err == nil || err.Error() != c.want || exitCode(err) != exitUsage {
			t.Errorf("%q: %v, exit code %d; want %s", c.args, err, exitCode(err), c.want)
		}
	}
}
