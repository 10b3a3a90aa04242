package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tidwall/gjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/observe/redact"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const token = "0123456789abcdef0123456789abcdef"

// served is a handler behind a listener, and what it observes.
type served struct {
	*Handler
	t    testing.TB
	seen *observe.Observer
	url  string

	mu       sync.Mutex
	watchers []Watcher
}

func serve(t testing.TB, change func(*Options)) *served {
	t.Helper()
	r, err := redact.New(redact.Options{Secrets: secret.Known{Configured: secret.NewSet("configured-secret")}})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, seen: &observe.Observer{}}
	o := Options{
		Ring: observe.NewRing(r), Observer: s.seen, Token: token, Redactor: r, Version: "0.3.0", Replica: "7f3a", Started: time.Now(), Payloads: "masked",
		Files:      fstest.MapFS{"page.html": {Data: []byte(strings.Repeat("<!doctype html>", 50))}, "feed.js": {Data: []byte("export {}")}},
		AllowsHost: func(host string, _ net.Addr) bool { return !strings.HasPrefix(host, "evil") },
		Endpoint:   func() string { return "http://127.0.0.1:8808/mcp" },
		Watching: func(w Watcher) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.watchers = append(s.watchers, w)
		},
	}
	if change != nil {
		change(&o)
	}
	if s.Handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln = smallBuffers{ln}
	server := &fasthttp.Server{Handler: s.Serve, WriteTimeout: time.Minute, NoDefaultServerHeader: true, Logger: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		s.Handler.Close()
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	s.url = "http://" + ln.Addr().String()
	return s
}

// smallBuffers is a listener whose system keeps little for a peer that does not read.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// get sends a request with the headers, "Name: value".
func (s *served) get(path string, header ...string) *http.Response {
	s.t.Helper()
	return s.send(context.Background(), "GET", path, header...)
}

func (s *served) send(ctx context.Context, method, path string, header ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const authorized = "Authorization: Bearer " + token

// call carries one call, with argument as the argument of a tool and in its result.
func (s *served) call(argument string) {
	request := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + argument + `"}}}`
	response := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + argument + `"}]}}`
	p := observe.Peers{Session: "9f21c0d200000000", Client: "cursor 0.41", ClientRevision: "2024-11-05", ServerRevision: "2025-11-25", ClientTransport: "http", ServerTransport: "stdio"}
	first := s.seen.Keep([]byte(request)) // the call begins when its first message came
	c := s.seen.Begin(&p, first, false)
	c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: first, Header: []mcp.Header{
		{Name: "Authorization", Value: "Bearer planted-secret-1"}, {Name: "Mcp-Session-Id", Value: "planted-secret-2"}, {Name: "Cookie", Value: "planted-secret-3"},
	}})
	c.Went(observe.ServerEdge, observe.ToServer, []byte(request))
	c.Came(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Method: "tools/call", Copy: s.seen.Keep([]byte(response))})
	c.Went(observe.ClientEdge, observe.ToClient, []byte(response))
	c.End("ok", "")
}

func TestWhoMayLook(t *testing.T) {
	s := serve(t, nil)
	for name, c := range map[string]struct {
		path   string
		header []string
		status int
	}{
		"page without a token":      {"/inspect/", nil, 200},
		"file of the page":          {"/inspect/feed.js", nil, 200},
		"another file":              {"/inspect/other.js", nil, 404},
		"above":                     {"/inspect/../etc/passwd", nil, 404},
		"state without a token":     {"/inspect/state", nil, 401},
		"feed without a token":      {"/inspect/feed", nil, 401},
		"export without a token":    {"/inspect/export", nil, 401},
		"search without a token":    {"/inspect/search?q=a", nil, 401},
		"call without a token":      {"/inspect/calls/1", nil, 401},
		"message without a token":   {"/inspect/calls/1/1", nil, 401},
		"wrong token":               {"/inspect/state", []string{"Authorization: Bearer " + token + "0"}, 401},
		"token in the query":        {"/inspect/state?token=" + token, nil, 401},
		"another scheme":            {"/inspect/state", []string{"Authorization: Basic " + token}, 401},
		"token":                     {"/inspect/state", []string{authorized}, 200},
		"unknown call":              {"/inspect/calls/99", []string{authorized}, 404},
		"no number":                 {"/inspect/calls/x", []string{authorized}, 404},
		"unknown message":           {"/inspect/calls/1/99", []string{authorized}, 404},
		"no number of a message":    {"/inspect/calls/1/", []string{authorized}, 404},
		"rebound name":              {"/inspect/state", []string{authorized, "Host: evil.example"}, 403},
		"rebound name, page":        {"/inspect/", []string{"Host: evil.example"}, 403},
		"page of another origin":    {"/inspect/state", []string{authorized, "Sec-Fetch-Site: cross-site"}, 403},
		"page of another port":      {"/inspect/state", []string{authorized, "Sec-Fetch-Site: same-site"}, 403},
		"page of the same origin":   {"/inspect/state", []string{authorized, "Sec-Fetch-Site: same-origin"}, 200},
		"address typed by a person": {"/inspect/", []string{"Sec-Fetch-Site: none"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.get(c.path, c.header...)
			if r.StatusCode != c.status {
				t.Errorf("%d, want %d: %s", r.StatusCode, c.status, body(t, r))
			}
			h := r.Header
			if !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("Cross-Origin-Opener-Policy") != "same-origin" {
				t.Errorf("%v", h)
			}
			for name := range h {
				if strings.HasPrefix(name, "Access-Control") || name == "Set-Cookie" {
					t.Errorf("%s is sent", name)
				}
			}
		})
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "HEAD"} {
		if r := s.send(context.Background(), method, "/inspect/state", authorized); r.StatusCode != 405 || r.Header.Get("Allow") != "GET" {
			t.Errorf("%s: %d", method, r.StatusCode)
		}
	}
}

func TestFilesAreCompressedAndKept(t *testing.T) {
	s := serve(t, nil)
	r := s.get("/inspect/", "Accept-Encoding: gzip")
	if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Content-Type") != "text/html; charset=utf-8" || r.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%v", r.Header)
	}
	if r := s.get("/inspect/", "If-None-Match: "+r.Header.Get("Etag")); r.StatusCode != 304 {
		t.Errorf("%d", r.StatusCode)
	}
	if r := s.get("/inspect/feed.js", "Accept-Encoding: identity"); body(t, r) != "export {}" || r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%v", r.Header)
	}
}

// stream reads a feed.
type stream struct {
	t    testing.TB
	in   *bufio.Scanner
	stop context.CancelFunc
}

func (s *served) watch(query string) *stream {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s.t.Cleanup(stop)
	r := s.send(ctx, "GET", "/inspect/feed"+query, authorized)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" || r.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("%d %v", r.StatusCode, r.Header)
	}
	in := bufio.NewScanner(r.Body)
	in.Buffer(nil, 16<<20)
	return &stream{s.t, in, stop}
}

// next returns the data of the next event with this name.
func (f *stream) next(name string) gjson.Result {
	f.t.Helper()
	for f.in.Scan() {
		if f.in.Text() == "event: "+name && f.in.Scan() {
			return gjson.Parse(strings.TrimPrefix(f.in.Text(), "data: "))
		}
	}
	f.t.Fatalf("the feed has ended before %s: %v", name, f.in.Err())
	return gjson.Result{}
}

func TestFeed(t *testing.T) {
	s := serve(t, nil)
	if s.seen.Watched() {
		t.Fatal("watched before there is a watcher")
	}
	f := s.watch("")
	if h := f.next("hello"); h.Get("version").Str != "0.3.0" || h.Get("replica").Str != "7f3a" || h.Get("payloads").Str != "masked" || h.Get("last").Int() != 0 {
		t.Errorf("%s", h)
	}
	s.call("a")
	rows := f.next("rows").Get("rows")
	for rows.Get("#").Int() == 0 || rows.Get("0.status").Str != "ok" {
		rows = f.next("rows").Get("rows")
	}
	if row := rows.Get("0"); row.Get("n").Int() != 1 || row.Get("tool").Str != "echo" || row.Get("client").Str != "cursor 0.41" || row.Get("messages").Int() != 4 {
		t.Errorf("%s", row)
	}
	if st := f.next("stats"); st.Get("watchers").Int() != 1 || st.Get("calls").Int() != 1 || st.Get("sessions.0.calls").Int() != 1 || st.Get("ring.rows").Int() != 1 {
		t.Errorf("%s", st)
	}
}

// TestResume opens a feed as a page does that was hidden, or that is still open after dragoman was started again.
func TestResume(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true })
	for range 3 {
		s.call("a")
	}
	peertest.Eventually(t, "three calls are kept", func() bool { _, last := s.o.Ring.Bounds(); return last == 3 && s.o.Ring.Totals().Ring.Rows == 3 })
	numbers := func(query string) (all []int64) {
		f := s.watch(query)
		defer f.stop()
		for _, row := range f.next("rows").Get("rows").Array() {
			all = append(all, row.Get("n").Int())
		}
		return all
	}
	for query, want := range map[string][]int64{
		"":                                      {1, 2, 3},
		"?after=0":                              {1, 2, 3},
		"?after=3":                              {3},
		"?after=4711":                           {1, 2, 3}, // of an earlier process
		"?after=3&started=2020-01-01T00:00:00Z": {1, 2, 3},
		"?after=x":                              {1, 2, 3},
	} {
		if got := numbers(query); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

func TestNinthWatcherIsRefused(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := serve(t, nil)
	var feeds []*stream
	for range maxWatchers {
		f := s.watch("")
		f.next("hello")
		feeds = append(feeds, f)
	}
	r := s.get("/inspect/feed", authorized)
	if text := body(t, r); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || !strings.Contains(text, "8 pages are open") {
		t.Errorf("%d %s", r.StatusCode, text)
	}
	feeds[0].stop()
	peertest.Eventually(t, "one watcher has left", func() bool { return s.stats(&Live{}).Watchers == maxWatchers-1 })
	s.watch("").next("hello")
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.watchers); n != maxWatchers+2 || !strings.HasPrefix(s.watchers[0].Address, "127.0.0.1:") {
		t.Errorf("%d lines about watchers", n)
	}
}

// TestWatcherThatDoesNotRead checks that it is cut off, and that no call waits for it.
func TestWatcherThatDoesNotRead(t *testing.T) {
	s := serve(t, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /inspect/feed HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n\r\n", authorized)
	peertest.Eventually(t, "calls are watched", s.seen.Watched)
	deadline := time.Now().Add(time.Minute)
	cut := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.watchers) == 2 && s.watchers[1].Ended && s.watchers[1].Why != ""
	}
	for !cut() { // each tick sends the rows that have changed since the last one
		if time.Now().After(deadline) {
			t.Fatal("it was not cut off")
		}
		s.call(strings.Repeat("x", 100))
	}
	peertest.Eventually(t, "it is not counted any more", func() bool { return s.stats(&Live{}).Watchers == 0 })
}

// TestPlantedSecrets searches all that a watcher can read.
func TestPlantedSecrets(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true })
	f := s.watch("")
	s.call("configured-secret")
	s.call(`{\"password\":\"planted-secret-4\",\"harmless\":\"needle\"}`)
	peertest.Eventually(t, "both calls are kept", func() bool { return s.o.Ring.Totals().Sessions != nil && s.o.Ring.Totals().Ring.Rows == 2 })
	peertest.Eventually(t, "all messages of the call are kept", func() bool { d, _ := s.o.Ring.Detail(2); return len(d.Messages) == 4 })
	all := f.next("rows").Raw + f.next("stats").Raw
	for _, path := range []string{"calls/1", "calls/2", "state", "export", "export?q=needle"} {
		r := s.get("/inspect/"+path, authorized)
		text := body(t, r)
		if r.StatusCode != 200 || path != "state" && path != "calls/1" && !strings.Contains(text, "needle") {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
		all += text
	}
	for _, secret := range []string{"configured-secret", "planted-secret"} {
		if at := strings.Index(all, secret); at >= 0 {
			t.Errorf("%s is shown: %s", secret, all[max(0, at-200):at+40])
		}
	}
	if text := body(t, s.get("/inspect/export?q=planted-secret-4", authorized)); strings.Contains(text, "needle") {
		t.Error("a secret can be searched for")
	}
}

func TestExportIsARecording(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true; o.Export = ExportHeader{"0.3.0", func() string { return "ab12" }} })
	s.call("first")
	s.call("second")
	peertest.Eventually(t, "all messages of the call are kept", func() bool { d, _ := s.o.Ring.Detail(2); return len(d.Messages) == 4 })
	r := s.get("/inspect/export?q=SECOND", authorized)
	if !strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment; ") {
		t.Errorf("%v", r.Header)
	}
	in, err := recording.NewReader(strings.NewReader(body(t, r)))
	if err != nil {
		t.Fatal(err)
	}
	if h := in.Header(); h.Version != "0.3.0" || h.Configuration != "ab12" {
		t.Errorf("%+v", h)
	}
	var kinds []string
	for {
		l, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind != recording.Message {
			continue
		}
		if l.Call != 2 || l.Session != "9f21c0d200000000" || !json.Valid(l.Payload) || l.TS.IsZero() {
			t.Errorf("%+v", l)
		}
		kinds = append(kinds, l.Edge+" "+l.Direction+" "+l.Transport+" "+l.Rev+" "+l.Method)
	}
	want := []string{
		"client client-to-server http 2024-11-05 tools/call", "server client-to-server stdio 2025-11-25 tools/call",
		"server server-to-client stdio 2025-11-25 tools/call", "client server-to-client http 2024-11-05 tools/call",
	}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("%q", kinds)
	}
}

// TestAnExportShowsTheSameRowsAgain: who talks, and how the call has ended, is in the file.
func TestAnExportShowsTheSameRowsAgain(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true })
	s.call("first")
	peertest.Eventually(t, "the call has ended", func() bool { d, _ := s.o.Ring.Detail(1); return d.Row.Status == "ok" })
	in, err := recording.NewReader(strings.NewReader(body(t, s.get("/inspect/export", authorized))))
	if err != nil {
		t.Fatal(err)
	}
	again := observe.NewRing(redact.AsIs())
	if skipped, err := recording.Play(in, again); skipped > 0 || err != nil {
		t.Fatal(skipped, err)
	}
	want, _ := s.o.Ring.Detail(1)
	got, ok := again.Detail(1)
	if !ok || !reflect.DeepEqual(got.Row, want.Row) || len(got.Messages) != len(want.Messages) || string(got.Messages[0].Payload) != string(want.Messages[0].Payload) {
		t.Errorf("\n got  %+v\n want %+v", got.Row, want.Row)
	}
}

// TestSearch filters as the page does: all calls first, and then those that have changed since.
func TestSearch(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true })
	s.call("first configured-secret")
	s.call("Second")
	peertest.Eventually(t, "the call has ended", func() bool { d, _ := s.o.Ring.Detail(2); return len(d.Messages) == 4 && d.Row.Status == "ok" })
	search := func(query string) gjson.Result {
		return gjson.Parse(body(t, s.get("/inspect/search?"+query, authorized)))
	}
	for query, want := range map[string]string{
		"q=": "[1,2]", "q=second": "[2]", "q=tool:echo%20-second": "[1]", "q=configured-secret": "[]", "q=status:failed": "[]", "q=cursor": "[]", "q=client:cursor": "[1,2]",
	} {
		if found := search(query); found.Get("fit").Raw != want || found.Get("not").Raw != "[]" {
			t.Errorf("%s: %s, want %s", query, found, want)
		}
	}
	until := search("q=second").Get("until").Raw
	if found := search("q=second&since=" + until); found.Get("fit").Raw != "[]" || found.Get("until").Raw != until {
		t.Errorf("nothing has changed: %s", found)
	}
	s.call("the second one")
	s.call("third")
	peertest.Eventually(t, "the call has ended", func() bool { d, _ := s.o.Ring.Detail(4); return d.Row.Status == "ok" })
	if found := search("q=second&since=" + until); found.Get("fit").Raw != "[3]" || found.Get("not").Raw != "[4]" {
		t.Errorf("after two more calls: %s", found)
	}
}

// TestMessagesBesideEachOther asks for what the page shows of a message.
func TestMessagesBesideEachOther(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true })
	s.call("one configured-secret")
	peertest.Eventually(t, "all messages of the call are kept", func() bool { d, _ := s.o.Ring.Detail(1); return len(d.Messages) == 4 })
	d, _ := s.o.Ring.Detail(1)
	for i := range d.Messages {
		text := body(t, s.get(fmt.Sprintf("/inspect/calls/1/%d", d.Messages[i].Seq), authorized))
		if lines := gjson.Get(text, "lines"); lines.Get("#").Int() < 5 || lines.Get("0.l.0").Str != "{" || strings.Contains(text, "configured-secret") || gjson.Get(text, "two").Bool() {
			t.Errorf("message %d: %s", i, text)
		}
	}
}

func TestCallHasACommand(t *testing.T) {
	s := serve(t, func(o *Options) { o.Keep = true })
	s.call("it's")
	peertest.Eventually(t, "all messages of the call are kept", func() bool { d, _ := s.o.Ring.Detail(1); return len(d.Messages) == 4 })
	got := gjson.Get(body(t, s.get("/inspect/calls/1", authorized)), "curl").Str
	if !strings.HasPrefix(got, "curl -sS http://127.0.0.1:8808/mcp \\\n") || !strings.Contains(got, `"Authorization: Bearer $TOKEN"`) || !strings.Contains(got, `"text":"it'\''s"`) {
		t.Errorf("%s", got)
	}
}

// TestRingIsFilledOnlyWhileSomebodyWatches ends the time for which it is filled on.
func TestRingIsFilledOnlyWhileSomebodyWatches(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := serve(t, nil)
	f := s.watch("")
	f.next("hello")
	f.stop()
	peertest.Eventually(t, "no watcher is left", func() bool { return s.stats(&Live{}).Watchers == 0 })
	if !s.seen.Watched() {
		t.Error("a page that is loaded again would miss calls")
	}
	s.rest()
	if s.seen.Watched() {
		t.Error("watched without a watcher")
	}
	s.watch("").next("hello")
	s.rest()
	if !s.seen.Watched() {
		t.Error("not watched with a watcher")
	}
}

func TestSessionsThatEndedUnseenAreNotListed(t *testing.T) {
	live := map[string]LiveSession{"a": {Streams: 2, Open: 1}, "c": {Peers: observe.Peers{Session: "c", ClientRevision: "2024-11-05", Bridged: true}}}
	r, _ := redact.New(redact.Options{})
	got := merged([]observe.SessionRow{{Session: "a", Calls: 5}, {Session: "b"}, {Client: "modern"}}, live, r)
	if len(got) != 3 || got[0].Calls != 5 || got[0].Streams != 2 || got[1].Client != "modern" || got[2].Session != "c" || got[2].Era != "bridge" {
		t.Errorf("%+v", got)
	}
}

// TestCurlHasHeadersInOrder: the command for one call is the same each time.
func TestCurlHasHeadersInOrder(t *testing.T) {
	h := &Handler{o: Options{Endpoint: func() string { return "http://127.0.0.1:8808/mcp" }}}
	d := observe.Detail{Messages: []observe.MessageView{{
		Edge: "client", Payload: []byte(`{}`),
		Headers: map[string]string{"Mcp-Param-C": "3", "Mcp-Method": "tools/call", "Mcp-Param-A": "1", "Mcp-Param-B": "2"},
	}}}
	const want = "-H 'Mcp-Method: tools/call' \\\n  -H 'Mcp-Param-A: 1' \\\n  -H 'Mcp-Param-B: 2' \\\n  -H 'Mcp-Param-C: 3' \\\n"
	for range 20 {
		if got := h.curl(&d); !strings.Contains(got, want) {
			t.Fatal(got)
		}
	}
}
