package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// with returns Options whose configuration is the default, changed by change.
func with(change func(*config.Config)) Options {
	return Options{Sources: config.Sources{Flags: func(c *config.Config, _ *setting.Layers) {
		c.Listen, c.Admin.Listen = "127.0.0.1:0", ""
		change(c)
	}}}
}

func atURL(url string) Options {
	return with(func(c *config.Config) { c.Upstream.URL = url })
}

// examine runs the configuration's check and those with these names, and returns the lines of the last one as text.
func examine(t *testing.T, o Options, names ...string) []string {
	t.Helper()
	_, lines := examined(t, o, names...)
	return lines
}

func examined(t *testing.T, o Options, names ...string) (*Report, []string) {
	t.Helper()
	names = append([]string{"configuration"}, names...)
	all := slices.DeleteFunc(checks(), func(c check) bool { return !slices.Contains(names, c.name) })
	r := newExam(o).run(t.Context(), all)
	var lines []string
	for _, l := range r.Lines {
		if l.Check == names[len(names)-1] {
			lines = append(lines, textOf(l))
		} else if l.Mark == Fail && l.Check == "configuration" {
			t.Fatalf("the configuration of the test is wrong: %+v", l)
		}
	}
	return r, lines
}

// textOf returns a line as one text: "mark where: what → do".
func textOf(l Line) string {
	text := string(l.Mark) + " "
	if l.Where != "" {
		text += l.Where + ": "
	}
	text += l.What
	if l.Do != "" {
		text += " → " + l.Do
	}
	return text
}

// want compares lines with those wanted. A * at the end of a wanted line stands for any text.
func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	same := func(got, want string) bool {
		begin, open := strings.CutSuffix(want, "*")
		return got == want || open && strings.HasPrefix(got, begin)
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// fake is a server over Streamable HTTP with replies that a test changes.
type fake struct {
	*peertest.Server
	peertest.Replies
	refuse func(u *peertest.Turn) bool // answers by itself, or reports false
}

const aTool = `{"name":"echo","inputSchema":{"type":"object"}}`

func initialized(revision, capabilities string) string {
	return `{"protocolVersion":"` + revision + `","capabilities":` + capabilities + `,"serverInfo":{"name":"demo/Some Server","version":"2"}}`
}

func newFake(t *testing.T) *fake {
	f := &fake{Replies: peertest.Replies{Results: map[string]string{
		"initialize": initialized("2025-11-25", `{"tools":{}}`),
		"tools/list": `{"tools":[` + aTool + `]}`,
		"tools/call": `{"content":[{"type":"text","text":"hello"}]}`,
		"ping":       `{}`,
	}, Errors: map[string]string{}}}
	f.Server = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		if f.refuse == nil || !f.refuse(u) {
			f.Answer(u)
		}
	})
	f.Every = true
	return f
}

// serve serves h and returns its host and port.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

// serveTLS serves a fake with a certificate and returns its host and port.
func serveTLS(t *testing.T, pair ...tls.Certificate) string {
	t.Helper()
	f := newFake(t)
	f.TLS = &tls.Config{Certificates: pair}
	return strings.TrimPrefix(f.At().URL, "https://")
}

// inPlace makes h answer in the place of dragoman.
func (o *Options) inPlace(h http.Handler) {
	o.Serve = func(ctx context.Context, _ config.Config, ln net.Listener) error {
		web := &http.Server{Handler: h}
		context.AfterFunc(ctx, func() { web.Close() })
		return web.Serve(ln)
	}
}

// TestChecksAreInOrder checks that each check needs only checks before it, and that all have different names.
func TestChecksAreInOrder(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks() {
		for _, need := range c.needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which is not before it", c.name, need)
			}
		}
		if seen[c.name] || c.run == nil {
			t.Errorf("%s: twice, or without a function", c.name)
		}
		seen[c.name] = true
	}
}

func TestFailedCheckSkipsThoseThatNeedIt(t *testing.T) {
	r := Run(t.Context(), atURL("http://127.0.0.1:1/mcp"))
	marks := map[string]Mark{}
	for _, l := range r.Lines {
		marks[l.Check] = l.Mark
		if l.Mark == Skip && l.What != `not checked, because "network" failed` {
			t.Errorf("%+v", l)
		}
	}
	if r.Exit != ExitServer || marks["network"] != Fail || marks["http"] != Skip || marks["lists"] != Skip || marks["clients"] != Skip || marks["listeners"] != OK {
		t.Errorf("exit %d, %v", r.Exit, marks)
	}
	if got := r.Summary(); got != "failed: network" {
		t.Error(got)
	}
}

func TestExitIsThatOfTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam(Options{CheckTime: 300 * time.Millisecond, WholeTime: 500 * time.Millisecond})
		fail := func(_ context.Context, e *exam) { e.fail("bad", "", "") }
		r := e.run(t.Context(), []check{
			{name: "a", run: func(_ context.Context, e *exam) { e.warn("w", "", "") }},
			{name: "b", code: ExitServer, run: fail},
			{name: "c", code: ExitOurs, run: fail},
			{name: "d", needs: []string{"c"}, run: fail},
			{name: "e", needs: []string{"d", "a"}, run: fail},
			{name: "f", applies: func(*exam) bool { return false }, run: fail},
			{name: "slow", run: func(ctx context.Context, _ *exam) { <-ctx.Done() }},
			{name: "late", run: func(ctx context.Context, _ *exam) { <-ctx.Done() }},
			{name: "later", run: fail},
		})
		var got []string
		for _, l := range r.Lines {
			got = append(got, l.Check+" "+textOf(l))
		}
		want(t, got, "a warn w", "b FAIL bad", "c FAIL bad", `d skip not checked, because "c" failed`, `e skip not checked, because "c" failed`,
			"slow warn not finished within 300ms", "late warn not finished within 300ms", "later skip not checked, because the 500ms for all checks are over")
		if r.Exit != ExitServer || r.Summary() != "failed: b, c" {
			t.Errorf("%d, %s", r.Exit, r.Summary())
		}
	})
}

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := &Printer{Out: &out}
	for _, l := range []Line{
		{"a", OK, "fine", "here", ""}, {"a", Info, "shown", "", "do it"}, {"a", OK, "again", "here", ""}, {"a", OK, "elsewhere", "there", ""}, {"b", Fail, "bad", "f.yaml:3", "mend it"},
		{"c", Skip, "not checked", "", ""}, {"d", Skip, "not checked", "", ""}, {"e", Warn, "hm", "", ""}, {"f", Skip, "late", "", ""},
	} {
		p.Print(l)
	}
	p.End()
	const wanted = `a
  ok    here: fine
        shown
        → do it
  ok    again
  ok    there: elsewhere
b
  FAIL  f.yaml:3: bad
        → mend it
c, d
  skip  not checked
e
  warn  hm
f
  skip  late
`
	if out.String() != wanted {
		t.Errorf("got\n%s\nwant\n%s", out.String(), wanted)
	}
}

// TestReportHoldsNoSecret plants secrets in every part of the configuration that has some; the server repeats them wherever it can.
func TestReportHoldsNoSecret(t *testing.T) {
	const canary = "canary-0123456789"
	f := newFake(t)
	f.Results["initialize"] = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"` + canary + `":{}},"serverInfo":{"name":"` + canary + `","version":"Bearer ` + canary + `"}}`
	f.Results["tools/list"] = `{"tools":[{"name":"` + canary + `","inputSchema":{}},{"name":"x","inputSchema":{"$schema":"` + canary + `"}}]}`
	for _, refused := range []bool{false, true} {
		f.refuse = func(u *peertest.Turn) bool {
			if refused {
				u.Web.Header().Set("WWW-Authenticate", `Bearer realm="`+canary+`"`)
				u.Answer(http.StatusUnauthorized, canary)
			}
			return refused
		}
		addr := serve(t, f)
		r := Run(t.Context(), with(func(c *config.Config) {
			c.Upstream.URL = "http://" + addr + "/mcp?api_key=" + canary
			c.Upstream.Headers = map[string]string{"Authorization": "Bearer " + canary, "X-Key": canary}
			c.Auth.Tokens = []string{canary}
		}))
		text, err := json.Marshal(r)
		if err != nil || strings.Contains(string(text), canary) || len(r.Lines) < 5 {
			t.Errorf("%v: %s", err, text)
		}
		if refused != (r.Exit == ExitServer) {
			t.Errorf("exit %d: %s", r.Exit, text)
		}
	}
}

func TestVersionIsShown(t *testing.T) {
	o := atURL("http://127.0.0.1:1/")
	o.Version = "dragoman v1\nMCP " + translate.Latest().Name + "\n"
	e := newExam(o)
	version(t.Context(), e)
	if len(e.lines) != 3 || e.lines[0].What != "dragoman v1" || !strings.Contains(e.lines[1].What, translate.Latest().Name) || !strings.Contains(e.lines[2].What, " on ") {
		t.Errorf("%+v", e.lines)
	}
}

func replaceHost(text, addr string) string { return strings.ReplaceAll(text, "HOST", addr) }

// TestPageListsTheChecks checks that the table in docs/operations.md has every check, in the order in which they run.
func TestPageListsTheChecks(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Doctor\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows, wanted []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| .* \| (\d*) ?\|$`).FindAllStringSubmatch(section, -1) {
		if row[1] != "check" {
			rows = append(rows, row[1]+" "+row[2])
		}
	}
	for _, c := range checks() {
		code := ""
		if c.code != ExitFine {
			code = strconv.Itoa(c.code)
		}
		wanted = append(wanted, c.name+" "+code)
	}
	if !slices.Equal(rows, wanted) {
		t.Errorf("the page has %q, the code %q", rows, wanted)
	}
}
