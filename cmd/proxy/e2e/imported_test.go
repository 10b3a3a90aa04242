package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// violations counts what a judge finds wrong in requests. It passes requests on to the judge.
type violations struct {
	*httptest.Server
	mu     sync.Mutex
	wrong  []string
	status map[int]int
}

// judgedBy starts a proxy in front of a judge. fault returns what a response says about its request, "" for nothing.
func judgedBy(t *testing.T, base string, fault func(*http.Response) string) *violations {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	v := &violations{status: map[int]int{}}
	p := httputil.NewSingleHostReverseProxy(to)
	p.ModifyResponse = func(res *http.Response) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.status[res.StatusCode]++
		if f := fault(res); f != "" {
			v.wrong = append(v.wrong, res.Request.Method+" "+res.Request.URL.RequestURI()+": "+f)
		}
		return nil
	}
	v.Server = httptest.NewServer(p)
	t.Cleanup(v.Close)
	return v
}

// calls imports a document for the server at base, and sends the request of each operation's example there. It
// returns how many operations there are and how many requests were sent.
func calls(t *testing.T, name string, data []byte, base string, split openapi.Split) (operations, sent int) {
	t.Helper()
	d, err := openapi.Read(name, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(openapi.Options{Name: "judged", Split: split, Server: base, Deprecated: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range in.Findings {
		if f.Class == openapi.Dropped {
			t.Logf("dropped: %s: %s", f.Operation, f.What)
		}
	}
	for _, f := range in.Files {
		path := filepath.Join(t.TempDir(), f.FileName())
		if err := os.WriteFile(path, f.Front(), 0o600); err != nil {
			t.Fatal(err)
		}
		rt, err := adapterrt.New(adapterrt.Options{Getenv: func(string) (string, bool) { return "sk_test_123", true }, TrustOverrides: map[string]string{f.Name: "official"}})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := rt.Load([]string{path}); err != nil {
			t.Fatal(problems)
		}
		operations += f.Operations
		for _, draft := range f.Drafts {
			req := &adapterrt.Request{Body: []byte(draft.Request), Ask: func(context.Context, string) (bool, error) { return true, nil }}
			if r := rt.Dispatch(t.Context(), adapterrt.Endpoint{}, req); r.Call.Status == 0 {
				t.Logf("%s is not sent: %.300s", draft.Operation, r.JSON())
				continue
			}
			sent++
		}
		rt.Close()
	}
	return operations + in.Dropped, sent
}

func TestStripeAcceptsImportedOperations(t *testing.T) {
	base, document := stripeMock(t)
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	v := judgedBy(t, base, func(res *http.Response) string {
		if res.StatusCode < 400 {
			return ""
		}
		body, _ := io.ReadAll(res.Body)
		res.Body = io.NopCloser(strings.NewReader(string(body)))
		return string(body)
	})
	operations, sent := calls(t, "spec3.json", data, v.URL, openapi.SplitPath)
	t.Logf("%d operations, %d sent, %d refused, statuses %v", operations, sent, len(v.wrong), v.status)
	for _, w := range v.wrong {
		t.Logf("%.500s", w)
	}
	if operations != 594 || sent < 593 || len(v.wrong) > 1 {
		t.Error("at least 593 of 594 must be accepted")
	}
}

// stripeMock starts stripe-mock. It returns its URL and the path of Stripe's document.
func stripeMock(t *testing.T) (base, document string) {
	t.Helper()
	testset.Need(t, testset.Judges)
	bin := t.TempDir()
	const module = "github.com/stripe/stripe-mock@v0.203.0"
	install := exec.Command("go", "install", module)
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("stripe-mock cannot be had here: %v\n%s", err, out)
	}
	at, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	mock := exec.CommandContext(ctx, filepath.Join(bin, "stripe-mock"), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	stdout, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = mock.Wait() })
	for lines := bufio.NewScanner(stdout); base == "" && lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "Listening for HTTP at address: "); ok {
			base = "http://" + address
		}
	}
	if base == "" {
		t.Fatal("stripe-mock ended before it listened")
	}
	go io.Copy(io.Discard, stdout) // ends with the process
	return base, filepath.Join(strings.TrimSpace(string(at)), filepath.FromSlash(module), "embedded", "openapi", "spec3.json")
}

// prism starts Prism with a document and returns its URL.
func prism(t *testing.T, m modules, document string) string {
	t.Helper()
	port := freePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", filepath.Join(string(m), "@stoplight", "prism-cli", "dist", "index.js"), "mock", "--multiprocess", "false", "-h", "127.0.0.1", "-p", port, document)
	out := new(output)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	base := "http://127.0.0.1:" + port
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		res, err := http.Get(base + "/")
		if err == nil {
			res.Body.Close()
			return base
		}
		if time.Since(begun) > patience {
			t.Fatalf("Prism does not listen: %v\n%s", err, out)
		}
	}
}

// requestFaults returns what Prism finds wrong in a request.
func requestFaults(res *http.Response) string {
	var list []struct {
		Location []string
		Message  string
	}
	_ = json.Unmarshal([]byte(res.Header.Get("Sl-Violations")), &list)
	var out []string
	for _, v := range list {
		if len(v.Location) > 0 && v.Location[0] == "request" {
			out = append(out, strings.Join(v.Location, ".")+": "+v.Message)
		}
	}
	if res.StatusCode == http.StatusUnprocessableEntity || res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusBadRequest {
		body, _ := io.ReadAll(res.Body)
		res.Body = io.NopCloser(strings.NewReader(string(body)))
		if text := string(body); strings.Contains(text, "stoplight.io/prism/errors") {
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

// judgeSimplifies is where the judge, which is made for adapters by hand, is wrong: of the variants of a body it reads one, and
// of paths that differ only in the names of placeholders, too.
var judgeSimplifies = regexp.MustCompile(`: (?:there is no \w+ /(?:users/\{username\}|orgs/\{org\})/attestations/\{\w+\}|data_type cannot be (?:text|number|date|single_select)|status cannot be completed|labels \[\] is of type object, not string)$`)

// TestImportedOperationsAgreeWithGitHub compares what was imported with what another reader finds in the document.
func TestImportedOperationsAgreeWithGitHub(t *testing.T) {
	m := judges(t)
	doc := document(t, m)
	data, err := os.ReadFile(filepath.Join(string(m), "@octokit", "openapi", "generated", "api.github.com.json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapi.Read("api.github.com.json", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(openapi.Options{Name: "judged", Split: openapi.SplitTag, Deprecated: true})
	if err != nil {
		t.Fatal(err)
	}
	operations := in.Dropped
	for _, f := range in.Files {
		a, problems := adapterrt.Parse(f.FileName(), f.Front(), &adapterrt.Options{})
		if a == nil {
			t.Fatal(problems)
		}
		operations += len(a.Operations)
		for _, p := range disagreements(doc, a) {
			if !judgeSimplifies.MatchString(p) {
				t.Error(f.FileName(), p)
			}
		}
	}
	all := 0
	for _, methods := range within(doc, "paths").(map[string]any) {
		for method := range methods.(map[string]any) {
			switch method {
			case "get", "post", "put", "patch", "delete":
				all++
			}
		}
	}
	if operations != all {
		t.Errorf("%d operations, the document has %d", operations, all)
	}
}

func TestGitHubAcceptsImportedOperations(t *testing.T) {
	m := judges(t)
	document := filepath.Join(string(m), "@octokit", "openapi", "generated", "api.github.com.json")
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	v := judgedBy(t, prism(t, m, document), requestFaults)
	operations, sent := calls(t, "api.github.com.json", data, v.URL, openapi.SplitTag)
	t.Logf("%d operations, %d sent, %d refused, statuses %v", operations, sent, len(v.wrong), v.status)
	for _, w := range v.wrong {
		t.Errorf("%.600s", w)
	}
	if operations != 1223 || sent*1000 < operations*995 {
		t.Error("at least 99.5 % must be sent")
	}
}
