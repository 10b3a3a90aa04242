package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/redact"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const planted = "planted-secret-1"

func options(t *testing.T) Options {
	t.Helper()
	return Options{File: filepath.Join(t.TempDir(), "r.jsonl"), Version: "1.2.3", Configuration: "abc"}
}

func start(t *testing.T, o *observe.Observer, options Options, failed func(error)) *Recorder {
	t.Helper()
	safe, err := redact.New(redact.Options{Secrets: secret.Known{Configured: secret.NewSet(planted)}})
	if err != nil {
		t.Fatal(err)
	}
	if failed == nil {
		failed = func(err error) { t.Errorf("the recording ended: %v", err) }
	}
	r, err := Start(o, options, func() observe.Redactor { return safe }, failed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func end(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.close(time.Minute); err != nil {
		t.Fatal(err)
	}
}

// readAll returns the lines of a recording behind its header, and checks the header.
func readAll(t *testing.T, name string) []Line {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return readText(t, data)
}

func readText(t *testing.T, text []byte) (all []Line) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); h.Version != "1.2.3" || h.Configuration != "abc" || h.Format != Format {
		t.Errorf("header %+v", h)
	}
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

var peers = observe.Peers{
	Session: "9f21c0d2aabbccdd", Principal: "aaaabbbbccccdddd", Client: "c 1", Server: "s 2", ClientRevision: "2024-11-05", ServerRevision: "2025-11-25",
	ClientTransport: "http", ServerTransport: "stdio",
}

func whole(raw string) observe.Copy { return observe.Copy{Raw: []byte(raw), Size: len(raw)} }

// aCall lets a call pass: a list of tools that loses a title.
func aCall(t *testing.T, o *observe.Observer) {
	t.Helper()
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const ask, answer, left = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{\"tools\":[{\"name\":\"t\",\"title\":\"T\",\"inputSchema\":{\"type\":\"object\"}}],\"note\":\"" + planted + "\"}}",
		"{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{\"tools\":[{\"name\":\"t\",\"inputSchema\":{\"type\":\"object\"}}],\"note\":\"" + planted + "\"}}"
	c := o.Begin(&peers, whole(ask), false)
	c.Came(observe.Message{
		Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: whole(ask),
		Header: []mcp.Header{{Name: "Mcp-Method", Value: "tools/list"}, {Name: "Authorization", Value: "Bearer " + planted}},
	})
	c.Went(observe.ServerEdge, observe.ToServer, []byte(ask))
	from := c.Came(observe.Message{
		Edge: observe.ServerEdge, Direction: observe.ToClient, Method: "tools/list", Copy: whole(answer), Losses: []wire.Loss{{Rule: "C01", What: "title", Count: 3, Lost: 2}},
		Why: observe.Why{Translator: table.Between(translate.Lookup("2025-11-25"), translate.Lookup("2024-11-05")), Known: translate.Known{Method: wire.ToolsList}},
	})
	c.Note(observe.Note{By: observe.Cache, What: "kept", Detail: "with password=" + planted, TokensBefore: 9, TokensAfter: 5})
	c.Add(observe.Message{
		Edge: observe.ClientEdge, Direction: observe.ToClient, Method: "tools/list", Copy: whole(left), From: from, Status: 200})
	c.End("ok", "")
}

func TestACallIsRecordedWithoutSecrets(t *testing.T) {
	var o observe.Observer
	options := options(t)
	r := start(t, &o, options, nil)
	o.Session(observe.Session{Peers: peers})
	aCall(t, &o)
	o.Stderr("listening, " + planted)
	o.Session(observe.Session{Peers: peers, Ended: true, Why: "idle"})
	end(t, r)
	text, err := os.ReadFile(options.File)
	if err != nil || bytes.Contains(text, []byte(planted)) || bytes.Contains(text, []byte("Authorization")) {
		t.Fatalf("%v: %s", err, text)
	}
	all := readText(t, text)
	var kinds []Kind
	for _, l := range all {
		kinds = append(kinds, l.Kind)
	}
	if want := []Kind{Open, Message, Message, Message, Note, Message, End, Stderr, Close}; !slices.Equal(kinds, want) {
		t.Fatalf("kinds %v\n%s", kinds, text)
	}
	switch out := all[5]; {
	case all[0].Peers.Client != "c 1" || all[0].Peers.ServerRev != "2025-11-25" || all[0].Session != peers.Session:
		t.Errorf("open: %+v", all[0])
	case all[1].Edge != ClientEdge || all[1].Direction != ClientToServer || all[1].Transport != "http" || all[1].Rev != "2024-11-05" || all[1].Headers["Mcp-Method"] != "tools/list":
		t.Errorf("the request: %+v", all[1])
	case all[2].From != all[1].Seq || all[2].Edge != ServerEdge || all[2].Call != all[1].Call:
		t.Errorf("the request to the server: %+v", all[2])
	case !strings.Contains(string(all[3].Losses), `"C01"`):
		t.Errorf("the answer: %s", text)
	case out.From != all[3].Seq || !strings.Contains(string(out.Changes), `"before":"result.tools[0].title"`) || out.Timing == nil || out.HTTP != 200:
		t.Errorf("the answer to the client: %+v\n%s", out, out.Changes)
	case string(out.Payload) != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"note":"[redacted]"}}`:
		t.Errorf("its payload: %s", out.Payload)
	case all[4].Did.By != observe.Cache || all[4].Did.Detail != "with password=[redacted]" || all[4].Did.TokensAfter != 5:
		t.Errorf("note: %+v", all[4].Did)
	case all[6].Status != "ok" || all[6].Timing == nil || all[8].Cause != "idle":
		t.Errorf("end: %+v, close: %+v", all[6], all[8])
	}
}

// TestLinesHaveTheMembersOfTraces: other programs read seq, direction, transport, kind and payload.
func TestLinesHaveTheMembersOfTraces(t *testing.T) {
	l := Line{
		Kind: Message, Seq: 12, TS: time.Date(2026, 11, 22, 3, 8, 57, 430e6, time.UTC), Edge: ServerEdge, Direction: ServerToClient,
		Transport: "stdio", Rev: "2025-11-25", Session: "9f21c0d2aabbccdd", Call: 4711, Method: "tools/list", Payload: []byte("{}"),
	}
	const want = `{"seq":12,"ts":"2026-11-22T03:08:57.430Z","edge":"server","direction":"server-to-client","transport":"stdio","kind":"message",` +
		`"rev":"2025-11-25","session":"9f21c0d2aabbccdd","call":4711,"method":"tools/list","payload":{}}` + "\n"
	if got := string(l.Append(nil)); got != want {
		t.Errorf("\n got  %s\n want %s", got, want)
	}
}

func TestLongMessagesAndTextsThatAreNoMessages(t *testing.T) {
	var o observe.Observer
	options := options(t)
	r := start(t, &o, options, nil)
	c := o.Begin(&peers, whole("no JSON"), false)
	c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: whole("no JSON, " + planted)})
	cut := observe.Copy{Raw: []byte(`{"jsonrpc":"2.0","id":1,"result":{"a":"` + planted[:10]), Size: 2 << 20, Cut: true, SHA256: strings.Repeat("ab", 32)}
	c.Add(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: cut})
	end(t, r)
	all := readAll(t, options.File)
	if l := all[1]; l.Text != "no JSON, [redacted]" || l.Payload != nil || l.SHA256 != "" {
		t.Errorf("text: %+v", l)
	}
	if l := all[2]; l.Payload != nil || l.Size != 2<<20 || l.SHA256 != cut.SHA256 || !strings.HasSuffix(l.Text, `"a":"[cut]"}}`) {
		t.Errorf("cut: %+v", l)
	}
}

// events collects what a reader gets.
type events struct {
	all   []string
	calls []*observe.Call
	last  *observe.Message
}

func (e *events) add(format string, args ...any) { e.all = append(e.all, fmt.Sprintf(format, args...)) }

func (e *events) Message(m *observe.Message) {
	from := uint64(0)
	if m.From != nil {
		from = m.From.Seq
	}
	e.add("%d %s %s %s %s %s from %d size %d headers %v lost %v", m.Seq, m.Edge, m.Direction, m.Kind, m.Method, m.Raw, from, m.Size, m.Header, m.Losses)
	e.calls, e.last = append(e.calls, m.Call), m
}
func (e *events) Note(n *observe.Note) { e.add("note %s %s %d", n.By, n.What, n.TokensBefore) }
func (e *events) End(n *observe.End)   { e.add("end %s", n.Status) }
func (e *events) Session(s *observe.Session) {
	e.add("session %v %+v", s.Ended, s.Peers)
}
func (e *events) Stderr(s *observe.Stderr) { e.add("stderr %s", s.Text) }
func (e *events) Gap(n uint64)             { e.add("gap %d", n) }

// TestARecordingPlaysWhatHappened: a reader gets of the file what it got of the calls, but for secrets.
func TestARecordingPlaysWhatHappened(t *testing.T) {
	var o observe.Observer
	options := options(t)
	var live, played events
	r := start(t, &o, options, nil)
	detach := o.Attach("live", &live)
	o.Session(observe.Session{Peers: peers})
	aCall(t, &o)
	o.Stderr("listening")
	detach()
	end(t, r)
	file, closer, err := OpenFile(options.File)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	if skipped, err := Play(file, &played); skipped != 0 || err != nil {
		t.Fatal(skipped, err)
	}
	if len(played.all) != len(live.all) {
		t.Fatalf("played %q\nlive %q", played.all, live.all)
	}
	safe := strings.NewReplacer(planted, "[redacted]", "\n", "", "{Authorization Bearer [redacted]}", "", "{Mcp-Method tools/list} ", "{Mcp-Method tools/list}", " LEVEL", "")
	for i, want := range live.all {
		want = safe.Replace(safe.Replace(want))
		if got := played.all[i]; got != want && !strings.Contains(want, "lost [{C01") {
			t.Errorf("\n played %s\n live   %s", got, want)
		}
	}
	if e, err := played.last.From.Explain(); err != nil || len(e.Changes) != 1 || e.Changes[0].Rule != "C01" {
		t.Errorf("the changes are %+v, %v", e, err)
	}
	c := played.last.Call
	if c.N != 1 || c.Method != "tools/list" || c.ID != "1" || *c.Peers != peers || c.Kind != wire.Request || c.Server || slices.ContainsFunc(played.calls, func(other *observe.Call) bool { return other != c }) {
		t.Errorf("the call is %+v", c)
	}
}

func TestOnlyItsOwnerReadsTheFileAndNoFileIsReplaced(t *testing.T) {
	o := options(t)
	w, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := os.Stat(o.File); err != nil || runtime.GOOS != "windows" && at.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", at.Mode(), err)
	}
	_, err = Create(o)
	var exists *ExistsError
	if !errors.As(err, &exists) || exists.File != o.File {
		t.Errorf("a file that exists: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(o.File, aside(o.File)); err != nil {
		t.Fatal(err)
	}
	if _, err = Create(o); !errors.As(err, &exists) || exists.File != aside(o.File) {
		t.Errorf("a file that would be replaced later: %v", err)
	}
}

func TestFullFilesArePutAside(t *testing.T) {
	o := options(t)
	o.MaxBytes = 4 << 10
	w, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	for i := range n {
		if err := w.Write(&Line{Kind: Message, Seq: uint64(i + 1), Payload: []byte(`"` + strings.Repeat("x", 100) + `"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{aside(o.File), o.File} {
		if at, err := os.Stat(name); err != nil || at.Size() > int64(o.MaxBytes) {
			t.Errorf("%s: %v, %v", name, at, err)
		}
		readAll(t, name)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(o.File), "*")); len(names) != 2 {
		t.Errorf("files %v", names)
	}
	r, closer, err := OpenFile(o.File)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	last, headers := uint64(0), 0
	for {
		l, err := r.Next()
		if err != nil {
			break
		}
		switch {
		case l.Kind == Header:
			headers++
			continue
		case last > 0 && l.Seq != last+1:
			t.Errorf("line %d follows line %d", l.Seq, last)
		}
		last = l.Seq
	}
	if last != n || headers != 1 {
		t.Errorf("the last line is %d, and there are %d further headers", last, headers)
	}
}

// fakeFile is a file that writes only when it is allowed to, and has room for so many bytes.
type fakeFile struct {
	allowed chan struct{}
	mu      sync.Mutex
	room    int
	data    bytes.Buffer
	cutTo   int64
}

func (f *fakeFile) Write(p []byte) (int, error) {
	<-f.allowed
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(len(p), f.room)
	f.room -= n
	f.data.Write(p[:n])
	if n < len(p) {
		return n, &os.PathError{Op: "write", Path: "fake", Err: syscall.ENOSPC}
	}
	return n, nil
}

func (f *fakeFile) Truncate(size int64) error {
	f.cutTo = size
	return nil
}

func (f *fakeFile) Close() error { return nil }

// TestASlowDiskStopsNoCall: calls go on although nothing is written, and the file says how many events are missing.
func TestASlowDiskStopsNoCall(t *testing.T) {
	var lost int
	o := observe.Observer{Lost: func(string) { lost++ }}
	options := options(t)
	f := &fakeFile{allowed: make(chan struct{}, 1), room: 1 << 30}
	f.allowed <- struct{}{} // for the header
	options.create = func(string) (file, error) { return f, nil }
	r := start(t, &o, options, nil)
	big := `{"pad":"` + strings.Repeat("x", 1<<20-100) + `"}`
	for range 20 {
		o.Begin(&peers, whole(big), false).Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: whole(big)})
	}
	if err := r.close(0); err == nil {
		t.Error("Close waits for ever, or says nothing")
	}
	close(f.allowed)
	r.detach()
	var missing uint64
	messages := 0
	for _, l := range readText(t, f.data.Bytes()) {
		switch missing += l.Dropped; l.Kind {
		case Message:
			messages++
		}
	}
	if missing == 0 || int(missing) != lost || messages+lost != 20 {
		t.Errorf("%d messages, and gaps of %d for %d that were lost", messages, missing, lost)
	}
}

// TestAFullDiskEndsTheRecordingAndNothingElse: it is said once, the line that was cut is removed, and calls go on.
func TestAFullDiskEndsTheRecordingAndNothingElse(t *testing.T) {
	var o observe.Observer
	options := options(t)
	f := &fakeFile{allowed: make(chan struct{}), room: 700}
	close(f.allowed)
	options.create = func(string) (file, error) { return f, nil }
	failed := make(chan error, 8)
	r := start(t, &o, options, func(err error) { failed <- err })
	for range 10 {
		aCall(t, &o)
	}
	if err := <-failed; !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), options.File) {
		t.Errorf("the error is %v", err)
	}
	end(t, r)
	if !r.Ended() || len(failed) > 0 {
		t.Errorf("ended %v, further errors %d", r.Ended(), len(failed))
	}
	readText(t, f.data.Bytes()[:f.cutTo])
}

// TestTheDeviceThatIsAlwaysFull: the kernel's own ENOSPC.
func TestTheDeviceThatIsAlwaysFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full: ", err)
	}
	o := options(t)
	o.create = func(string) (file, error) { return full, nil }
	if _, err := Create(o); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatIsNoRecordingIsRefused(t *testing.T) {
	for in, want := range map[string]string{
		"":                                ErrNoRecording.Error(),
		"{}\n":                            ErrNoRecording.Error(),
		`{"jsonrpc":"2.0","id":1}` + "\n": ErrNoRecording.Error(),
		`{"kind":"message"}` + "\n":       ErrNoRecording.Error(),
		`{"kind":"header","format":2,"version":"9.0"}`: "the recording has format 2, and this dragoman reads up to 1: use dragoman 9.0",
	} {
		if _, err := NewReader(strings.NewReader(in)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// TestALineThatWasCutHidesNoOther: a process may be killed while it writes.
func TestALineThatWasCutHidesNoOther(t *testing.T) {
	const in = `{"kind":"header","format":1}
{"kind":"message","seq":1,"payload":{"a
{"kind":"later kind","seq":2}
{"kind":"message","seq":3,"later member":1}
{"kind":"mess`
	r, err := NewReader(strings.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	var e events
	if skipped, err := Play(r, &e); skipped != 3 || err != nil || len(e.all) != 1 || !strings.HasPrefix(e.all[0], "3 ") {
		t.Errorf("skipped %d, %v, and got %q", skipped, err, e.all)
	}
}

// FuzzParse checks that a line that is read and written is read as the same line, and that every recording can be played.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"message","seq":1,"edge":"server","direction":"server-to-client","payload":{"jsonrpc":"2.0","id":1,"result":{}},"losses":[{}]}`))
	f.Add([]byte(`{"kind":"message","seq":1,"from":1,"changes":[{"rule":"C01"}],"text":"{\"id\":1","sha256":"a"}`))
	f.Add([]byte(`{"kind":"gap","dropped":17}`))
	f.Add([]byte(`{"kind":"open","ts":"2026-11-22T03:08:57.430Z","headers":{"a":"b"},"peers":{"client":"c"}}`))
	f.Add([]byte(`{"kind":"note","did":{"by":"cache"}}`))
	f.Add([]byte(`{"kind":"end","status":"ok","timing":{"client":1}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, ok := Parse(raw)
		if !ok || l.Format < 0 || l.Size < 0 || l.HTTP < 0 || l.TS.Year() > 9999 {
			return
		}
		once := l.Append(nil)
		again, ok := Parse(once)
		if !ok || !bytes.Equal(again.Append(nil), once) {
			t.Errorf("%q\n became %q", once, again.Append(nil))
		}
		r, err := NewReader(io.MultiReader(strings.NewReader(`{"kind":"header","format":1}`+"\n"), bytes.NewReader(once), bytes.NewReader(once)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Play(r, &events{}); err != nil {
			t.Error(err)
		}
	})
}

// TestNoCutMessageShowsASecret plants secrets and numbers of several lengths at every place around each cut: of messages over 1 MiB, and of
// those over 4 KiB while much passes.
func TestNoCutMessageShowsASecret(t *testing.T) {
	for _, at := range []struct {
		name      string
		cut, size int
		bounds    observe.Bounds
	}{
		{"much at once", 4 << 10, 6 << 10, observe.Bounds{Queue: 64 << 20, Long: 1}},
		{"a long message", 64 << 10, 1<<20 + 1, observe.Bounds{Queue: 64 << 20}},
	} {
		t.Run(at.name, func(t *testing.T) {
			lengths := []int{6, 40}
			if at.size > 1<<20 { // it takes long to pass
				lengths = lengths[1:]
			}
			for _, length := range lengths {
				text, number := strings.Repeat("zq9", length)[:length], strings.Repeat("7319", length)[:length]
				safe, err := redact.New(redact.Options{Secrets: secret.Known{Configured: secret.NewSet(text)}})
				if err != nil {
					t.Fatal(err)
				}
				var o observe.Observer
				var shown strings.Builder
				ring := observe.NewRing(safe)
				encoder := NewEncoder(func() observe.Redactor { return safe }, func(l *Line) { shown.Write(l.Append(nil)) })
				detach, done := o.AttachWithin(at.bounds, "recording", encoder), o.AttachWithin(at.bounds, "page", ring)
				step := 1
				parts := []string{`"text":"%s"`, `"credentials":{"a":{"pin":%d}}`, `"text":"{\"credentials\":{\"pin\":%d}}"`, `"text":"a %s"`, `"%s":1`}
				if at.size > 1<<20 {
					step, parts = 1+length/4, parts[:3]
				}
				for before := at.cut - length - 20; before <= at.cut+1; before += step {
					for _, part := range parts {
						part = strings.NewReplacer("%s", text, "%d", number).Replace(part)
						for _, message := range []string{`{"jsonrpc":"2.0","id":1,"result":{"pad":"PAD",` + part + `,"more":"MORE"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"pad":"PAD",` + strings.ReplaceAll(part, `"text"`, `"message"`) + `,"more":"MORE"}}`} {
							pad := max(0, before-strings.Index(message, "PAD")-strings.Index(part, text[:3]))
							message = strings.Replace(message, "PAD", strings.Repeat("x", pad), 1)
							message = strings.Replace(message, "MORE", strings.Repeat("y", max(0, at.size+len("MORE")-len(message))), 1)
							c := o.Begin(&peers, whole(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`), false)
							c.Came(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Method: "tools/call", Copy: o.Keep([]byte(message))})
							c.Went(observe.ClientEdge, observe.ToClient, []byte(message))
							c.End("failed", "")
						}
					}
				}
				detach()
				done()
				ring.Each(0, func(row observe.Row, _ []*observe.Message) bool {
					d, _ := ring.Detail(row.N)
					call, err := json.Marshal([]any{row, d})
					if err != nil {
						t.Error(err)
					}
					shown.Write(call)
					return true
				})
				all := shown.String()
				if n := strings.Count(all, "[cut]"); n < 50 {
					t.Errorf("%d messages were cut", n)
				}
				for _, hidden := range []string{"zq9z", "7319"} {
					if at := strings.Index(all, hidden); at >= 0 {
						t.Fatalf("%d bytes: …%s", length, all[max(0, at-300):min(len(all), at+100)])
					}
				}
			}
		})
	}
}
