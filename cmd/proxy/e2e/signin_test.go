package e2e

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// A person has a folder for tokens, and a browser that writes down what it is asked to show.
type person struct {
	dir  string
	env  []string
	tabs int
	web  *http.Client
}

func newPerson(t *testing.T) *person {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs the browser of Linux desktops")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$1\" >> '" + filepath.Join(dir, "shown") + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	return &person{
		dir: dir, web: &http.Client{Jar: jar, Timeout: patience},
		env: append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DISPLAY=:0", "SSH_CONNECTION=", "DBUS_SESSION_BUS_ADDRESS=autolaunch:", "DRAGOMAN_CREDENTIALS="+filepath.Join(dir, "tokens")),
	}
}

// nextTab waits for the next address that the browser is asked to show.
func (p *person) nextTab(ctx context.Context) (string, error) {
	for ; ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(p.dir, "shown"))
		if all := strings.Fields(string(text)); len(all) > p.tabs {
			p.tabs++
			return all[p.tabs-1], nil
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("no tab has opened: %w", ctx.Err())
		}
	}
}

// formField is a field of the forms of oidc-provider that has a value already.
var formField = regexp.MustCompile(`<input[^>]* name="(\w+)" value="([^"]*)"`)

// agree opens the page at address and fills in what the pages of oidc-provider ask, until the browser is back at the
// proxy, or the page says that the login on a device is done.
func (p *person) agree(address string) error {
	res, err := p.web.Get(address)
	for range 6 {
		if err != nil {
			return err
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		text := string(page)
		switch {
		case strings.Contains(text, "dragoman has the answer"), strings.Contains(text, "Sign-in Success"):
			return nil
		case res.StatusCode != http.StatusOK || err != nil:
			return fmt.Errorf("%s: %d %v %.300s", res.Request.URL.Path, res.StatusCode, err, text)
		}
		form := url.Values{"prompt": {"consent"}}
		if strings.Contains(text, `name="login"`) {
			form = url.Values{"prompt": {"login"}, "login": {"someone"}, "password": {"any"}}
		}
		for _, field := range formField.FindAllStringSubmatch(text, -1) {
			form.Set(field[1], field[2])
		}
		_, action, ok := strings.Cut(text, `action="`)
		action, _, _ = strings.Cut(action, `"`)
		to, bad := res.Request.URL.Parse(action)
		if !ok || bad != nil {
			return fmt.Errorf("a page without a form: %.300s", text)
		}
		if res, err = p.web.PostForm(to.String(), form); err != nil {
			return err
		}
	}
	return fmt.Errorf("no end of pages")
}

// loginOnADevice begins a login with a code, which the person enters. The returned function waits for the command.
func (p *person) loginOnADevice(proxy dragoman, at string) (wait func() error, err error) {
	cmd := exec.Command(proxy.args("login", endpoint{})[0], "login", "--device", at)
	cmd.Env = p.env
	notes, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	said, lines := "", bufio.NewScanner(notes)
	for lines.Scan() {
		said += lines.Text() + "\n"
		if page, ok := strings.CutPrefix(lines.Text(), "or open "); ok {
			go func() { _, _ = io.Copy(io.Discard, notes) }()
			return cmd.Wait, p.agree(page)
		}
	}
	return nil, fmt.Errorf("%w: no code: %s", cmd.Wait(), said)
}

// shim connects a client to a server by the local command, in which the person logs in as often as it is asked.
func (p *person) shim(ctx context.Context, proxy dragoman, at string, log *output, flags ...string) (*mcp.ClientSession, error) {
	args := proxy.args("stdio", endpoint{over: streamable, url: at}, flags...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stderr = p.env, log
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil)
	return client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
}

// whoami calls a tool and returns its text.
func whoami(ctx context.Context, s *mcp.ClientSession, tool string) (string, error) {
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// TestShimLogsInAtPublishedServers checks that the local command logs in at the servers of the TypeScript SDK, one of which
// refuses tokens for another audience, and that another process needs no login after it.
func TestShimLogsInAtPublishedServers(t *testing.T) {
	testset.Need(t, testset.Peers)
	m := nodePeers(t)
	proxy := build(t)
	for _, mode := range []string{"own", "apart"} {
		t.Run(mode+" authorization server", func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			port := freePort(t)
			at := "http://127.0.0.1:" + port + "/mcp"
			defer guardedServer(t, m, port, at, mode)()
			p, log := newPerson(t), &output{}
			agreed := make(chan error, 1)
			go func() {
				address, err := p.nextTab(ctx)
				if err == nil {
					err = p.agree(address)
				}
				agreed <- err
			}()
			var clients []string
			for range 2 {
				s, err := p.shim(ctx, proxy, at, log)
				if err != nil {
					t.Fatalf("%v\n%s", err, log)
				}
				text, err := whoami(ctx, s, "whoami")
				if err != nil {
					t.Errorf("%v\n%s", err, log)
				}
				clients = append(clients, text)
				s.Close()
			}
			if err := <-agreed; err != nil {
				t.Error(err)
			}
			shown, _ := os.ReadFile(filepath.Join(p.dir, "shown"))
			if clients[0] == "" || clients[0] != clients[1] || strings.Count(string(shown), "\n") != 1 {
				t.Errorf("clients %q, tabs\n%s", clients, shown)
			}
		})
	}
}

// oidcServer starts a protected server with oidc-provider as its authorization server. It returns its URL, and a file with
// the private key of the client service-with-a-key.
func oidcServer(t *testing.T) (at, keyFile string) {
	t.Helper()
	s := conformanceSuite(t)
	keyFile, public := newKeyFile(t)
	node := exec.Command(s.node, filepath.Join("conformance", "oidc.mjs"), string(s.modules), public)
	said := new(output)
	node.Stderr = said
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Process.Kill(); _ = node.Wait() })
	line := bufio.NewScanner(stdout)
	if !line.Scan() {
		t.Fatalf("the server does not listen: %s", said)
	}
	return line.Text(), keyFile
}

// newKeyFile writes a new private key to a file, and returns its public key as a JWK with the id "e2e".
func newKeyFile(t *testing.T) (path, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return path, fmt.Sprintf(`{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"e2e","x":%q,"y":%q}`, encode(point[1:33]), encode(point[33:]))
}

// TestShimLogsInAtOIDCProvider checks a login on real pages at oidc-provider: registration, PKCE, resource indicators,
// refresh tokens that rotate every 3 seconds, further scopes, and revocation; a login on another device; and serve in front of it
// as a service with a secret and with a key.
func TestShimLogsInAtOIDCProvider(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	at, keyFile := oidcServer(t)
	proxy := build(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, log := newPerson(t), &output{}
	tabs := make(chan error, 3)
	go func() {
		for range 3 { // the second one is refused, because this server registers a client for the scopes of that time
			address, err := p.nextTab(ctx)
			if err == nil {
				err = p.agree(address)
			}
			tabs <- err
		}
	}()
	s, err := p.shim(ctx, proxy, at, log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	defer s.Close()
	if err := <-tabs; err != nil {
		t.Fatal(err)
	}
	id, err := whoami(ctx, s, "whoami")
	if err != nil || !strings.HasSuffix(id, " read") {
		t.Errorf("%q, %v\n%s", id, err, log)
	}
	for range 2 { // each token expires meanwhile
		time.Sleep(3200 * time.Millisecond)
		if again, err := whoami(ctx, s, "whoami"); err != nil || again != id {
			t.Errorf("%q, %v\n%s", again, err, log)
		}
	}
	go func() {
		for range 2 {
			if err := <-tabs; err != nil {
				t.Error(err)
			}
		}
	}()
	if wrote, err := whoami(ctx, s, "write"); err != nil || !strings.HasSuffix(wrote, " read write") {
		t.Errorf("%q, %v\n%s", wrote, err, log)
	}
	out := exec.Command(proxy.args("logout", endpoint{})[0], "logout", at)
	out.Env = p.env
	if said, err := out.CombinedOutput(); err != nil || !strings.Contains(string(said), "revoked, and deleted here") {
		t.Errorf("%s %v", said, err)
	}

	loggedIn, err := p.loginOnADevice(proxy, at)
	if err != nil {
		t.Fatal(err)
	}
	for id, auth := range map[string]string{
		"service":            "client_secret: a-secret-of-the-service-0123456789",
		"service-with-a-key": fmt.Sprintf("key_file: %q, kid: e2e", keyFile),
	} {
		service := config(t, fmt.Sprintf("upstream: {auth: {type: client_credentials, client_id: %s, %s}}", id, auth))
		to := endpoint{over: streamable, url: at, stderr: &output{}}
		err := proxy.serve(ctx, streamable, to, []string{"--config", service}, func(served endpoint) error {
			s, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: served.url}, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			for range 2 {
				if text, err := whoami(ctx, s, "whoami"); err != nil || !strings.HasPrefix(text, id+" ") {
					t.Errorf("%q, %v", text, err)
				}
				time.Sleep(3200 * time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v\n%s", err, to.stderr)
		}
	}
	if err := loggedIn(); err != nil {
		t.Fatal(err)
	}
	again, err := p.shim(ctx, proxy, at, log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	defer again.Close()
	if text, err := whoami(ctx, again, "whoami"); err != nil || !strings.HasSuffix(text, " read") || text == id {
		t.Errorf("%q after %q, %v\n%s", text, id, err, log)
	}
}

// notBuilt are scenarios for grants that dragoman does not have.
var notBuilt = map[string]bool{
	"auth/enterprise-managed-authorization": true, "auth/dpop": true, "auth/dpop-nonce": true,
}

// As the first argument of the test binary: be the client of a scenario about logins, or its user's browser.
const (
	logInArg = "log-in-by-the-local-command"
	agreeArg = "agree-to-a-login"
)

// beOfALogin is the test binary as a client that starts the proxy and calls each tool once (arguments: a person's folder, the
// proxy, more flags, the URL), or as a browser (argument: the address to show).
func beOfALogin(what string, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if what == agreeArg {
		res, err := http.Get(args[0])
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	dir, proxy, flags, at := args[0], args[1], args[2:len(args)-1], args[len(args)-1]
	tokens, err := os.MkdirTemp(dir, "tokens-")
	if err != nil {
		return err
	}
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
		JWT    string `json:"valid_jwt"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	flags = append([]string{"stdio", at}, flags...)
	if given.ID != "" {
		flags = append(flags, "--oauth", "client_id="+given.ID)
	} else {
		flags = append(flags, "--oauth", "client_metadata_url=https://conformance-test.local/client-metadata.json")
	}
	if given.Secret != "" {
		flags = append(flags, "--oauth", "client_secret=${GIVEN_SECRET}")
	}
	for setting, text := range map[string]string{"key_file": given.Key, "assertion_file": given.JWT} {
		if text == "" {
			continue
		}
		file := filepath.Join(tokens, setting)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		flags = append(flags, "--oauth", setting+"="+file)
	}
	cmd := exec.Command(proxy, flags...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DISPLAY=:0", "SSH_CONNECTION=", "DBUS_SESSION_BUS_ADDRESS=autolaunch:", "GIVEN_SECRET="+given.Secret, "DRAGOMAN_CREDENTIALS="+tokens)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	tools, err := s.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	for _, tool := range tools.Tools {
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool.Name}); err != nil {
			return err
		}
	}
	return nil
}

// TestConformanceOfLogins runs the suite's scenarios about authorization with the local command as the client.
func TestConformanceOfLogins(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	suite := conformanceSuite(t)
	proxy := build(t)
	p := newPerson(t)
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s \"$1\"\n", os.Args[0], agreeArg)
	if err := os.WriteFile(filepath.Join(p.dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	listed, err := exec.Command(suite.node, suite.main, "list", "--client").CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, listed)
	}
	revisions := map[string]string{} // the newest one of each scenario
	for line := range strings.SplitSeq(string(listed), "\n") {
		name, all, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "- "), " ")
		if strings.HasPrefix(name, "auth/") && !notBuilt[name] {
			all = strings.Trim(all, "[]")
			revisions[name] = all[strings.LastIndex(all, ",")+1:]
		}
	}
	if len(revisions) < 29 {
		t.Errorf("%d scenarios", len(revisions))
	}
	command := []string{os.Args[0], logInArg, p.dir, string(proxy)}
	// Each suite is one process, which takes a second to start. "draft" is what the newest revision added.
	found := suite.clients(t, command, "--suite", "auth", "--spec-version", newest)
	maps.Copy(found, suite.clients(t, command, "--suite", "draft", "--spec-version", newest))
	maps.DeleteFunc(found, func(name string, _ map[string]string) bool { return revisions[name] == "" }) // not about logins
	alone := func(name string) map[string]string {
		own := command
		for part, kind := range map[string]string{"client-credentials": "client_credentials", "jwt-bearer": "jwt_bearer"} {
			if strings.Contains(name, part) {
				own = append([]string{"env", "DRAGOMAN_UPSTREAM_AUTH_TYPE=" + kind}, command...)
			}
		}
		return suite.client(t, name, revisions[name], own)
	}
	for name, revision := range revisions {
		if revision != newest || strings.Contains(name, "client-credentials") || strings.Contains(name, "jwt-bearer") {
			found[name] = alone(name)
		}
	}
	names := slices.Sorted(maps.Keys(revisions))
	untilFine(t, names, found, unexpected(unmetLogins), alone)
	judge(t, names, found, unmetLogins)
	t.Logf("%d scenarios; checks by status:\n%s", len(found), lines(found, names))
}

// unmetLogins are the checks that do not pass, and the reason.
var unmetLogins = map[string]string{}
