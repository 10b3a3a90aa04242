package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/redact"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const secret = "planted-secret-1"

func options(t *testing.T) Options {
	t.Helper()
	r, err := redact.New(redact.Options{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		File: filepath.Join(t.TempDir(), "r.jsonl"), Version: "1.2.3", Configuration: "abc", closeFor: time.Minute,
		Redact: func() *redact.Redactor { return r },
		Failed: func(err error) { t.Errorf("the recording ended: %v", err) },
	}
}

func message(raw string) Event {
	return Event{Raw: []byte(raw), Line: Line{
		Kind: Message, TS: time.Date(2026, 11, 22, 3, 8, 57, 430e6, time.UTC), Edge: ServerEdge, Direction: ServerToClient,
		Transport: "stdio", Rev: "2025-11-25", Session: "9f21c0d2aabbccdd", Call: 4711, Method: "tools/list",
	}}
}

func create1(t *testing.T, o Options) *Writer {
	t.Helper()
	w, err := Create(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// readAll returns the lines of a recording behind its header, and checks the header.
func readAll(t *testing.T, name string) (all []Line) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader(f)
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

func TestWhatIsWrittenIsRead(t *testing.T) {
	o := options(t)
	w := create1(t, o)
	e := message("{\"jsonrpc\":\"2.0\",\n\"id\":1,\"result\":{\"tools\":[]}}")
	e.Edge, e.Changes, e.Timing = ClientEdge, []byte(`[{"rule":"C01"}]`), &Timing{0.1, 0.25, 38}
	e.Header = [][2]string{{"Mcp-Method", "tools/list"}, {"Authorization", "Bearer x"}}
	w.Add(Event{Line: Line{Kind: Open, Session: "s", Client: "c 1", ServerRev: "2025-11-25"}})
	w.Add(e)
	w.Add(Event{Line: Line{Kind: Stderr, Text: "listening, password=" + secret}})
	w.Add(message("no JSON"))
	long := message(`{"a":"` + strings.Repeat("b", MaxPayload) + `"}`)
	w.Add(long)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(o.File)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"seq":2,"ts":"2026-11-22T03:08:57.430Z","edge":"client","direction":"server-to-client","transport":"stdio","kind":"message",` +
		`"rev":"2025-11-25","session":"9f21c0d2aabbccdd","call":4711,"method":"tools/list","headers":{"Mcp-Method":"tools/list"},` +
		`"payload":{"jsonrpc":"2.0","id":1,"result":{"tools":[]}},"changes":[{"rule":"C01"}],"timing":{"client":0.100,"proxy":0.250,"server":38.000}}`
	if got := strings.Split(string(data), "\n")[2]; got != want {
		t.Errorf("\n got  %s\n want %s", got, want)
	}
	all := readAll(t, o.File)
	if len(all) != 5 {
		t.Fatalf("%d lines: %s", len(all), data)
	}
	switch cut := all[4]; {
	case all[0].Kind != Open || all[0].Client != "c 1" || all[0].Seq != 1:
		t.Errorf("open: %+v", all[0])
	case string(all[1].Payload) != `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}` || *all[1].Timing != *e.Timing || !all[1].TS.Equal(e.TS):
		t.Errorf("message: %+v", all[1])
	case all[2].Text != "listening, password=[redacted]":
		t.Errorf("stderr: %+v", all[2])
	case all[3].Text != "no JSON" || all[3].Payload != nil:
		t.Errorf("text: %+v", all[3])
	case cut.Payload != nil || len(cut.Text) != Beginning || cut.Size != len(long.Raw) || len(cut.SHA256) != 64:
		t.Errorf("cut: %d bytes of text, size %d, %q", len(cut.Text), cut.Size, cut.SHA256)
	}
}

func TestOnlyItsOwnerReadsTheFileAndNoFileIsReplaced(t *testing.T) {
	o := options(t)
	w := create1(t, o)
	if at, err := os.Stat(o.File); err != nil || runtime.GOOS != "windows" && at.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", at.Mode(), err)
	}
	_, err := Create(o)
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
	w := create1(t, o)
	const n = 60
	for i := range n {
		w.Add(message(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"pad":"%s"}}`, i, strings.Repeat("x", 100))))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var last uint64
	for _, name := range []string{aside(o.File), o.File} {
		at, err := os.Stat(name)
		if err != nil || at.Size() > int64(o.MaxBytes) {
			t.Errorf("%s: %v, %v", name, at, err)
		}
		for _, l := range readAll(t, name) {
			if last > 0 && l.Seq != last+1 {
				t.Errorf("line %d follows line %d", l.Seq, last)
			}
			last = l.Seq
		}
	}
	if last != n {
		t.Errorf("the last line is %d", last)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(o.File), "*")); len(names) != 2 {
		t.Errorf("files %v", names)
	}
}

// fakeFile is a file that writes only when it is allowed to, and has room for so many bytes.
type fakeFile struct {
	mu      sync.Mutex
	allowed chan struct{}
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

// TestEventsThatTheDiskIsTooSlowForAreDroppedAndCounted: Add returns although nothing is written, and the file says where how
// many events are missing.
func TestEventsThatTheDiskIsTooSlowForAreDroppedAndCounted(t *testing.T) {
	o := options(t)
	f := &fakeFile{allowed: make(chan struct{}, 1), room: 1 << 30}
	f.allowed <- struct{}{} // for the header
	o.create = func(string) (file, error) { return f, nil }
	w := create1(t, o)
	big := `{"pad":"` + strings.Repeat("x", 1<<20-100) + `"}`
	for range 20 {
		w.Add(message(big))
	}
	dropped := w.Dropped()
	if dropped < 20-8 || dropped > 20-7 {
		t.Errorf("%d of 20 events were dropped", dropped)
	}
	close(f.allowed)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(f.data.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var messages, missing uint64
	var last Line
	for {
		l, err := r.Next()
		if err != nil {
			break
		}
		if last = l; l.Kind == Gap {
			missing += l.Dropped
		} else {
			messages++
		}
	}
	if last.Kind != Gap || missing != dropped || messages+missing != 20 {
		t.Errorf("%d messages, and gaps of %d, for %d that were dropped; the last line is %s", messages, missing, dropped, last.Kind)
	}
}

// TestAFullDiskEndsTheRecordingAndNothingElse: it is said once, the line that was cut is removed, and Add and Close return.
func TestAFullDiskEndsTheRecordingAndNothingElse(t *testing.T) {
	o := options(t)
	f := &fakeFile{allowed: make(chan struct{}), room: 600}
	close(f.allowed)
	o.create = func(string) (file, error) { return f, nil }
	failed := make(chan error, 8)
	o.Failed = func(err error) { failed <- err }
	w := create1(t, o)
	w.Add(message(`{"jsonrpc":"2.0","id":1,"result":{"pad":"` + strings.Repeat("x", 600) + `"}}`))
	if err := <-failed; !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), o.File) {
		t.Errorf("the error is %v", err)
	}
	for range 10 {
		w.Add(message(`{}`))
	}
	if err := w.Close(); err != nil || !w.Ended() || w.Dropped() < 10 || len(failed) > 0 {
		t.Errorf("close: %v; ended %v, dropped %d, further errors %d", err, w.Ended(), w.Dropped(), len(failed))
	}
	if left := f.data.Bytes()[:f.cutTo]; !wire.Valid(left) {
		t.Errorf("left: %q", left)
	}
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
	var got []string
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, fmt.Sprint(l.Seq))
	}
	if want := "line 2: not a line of a recording|line 3: not a line of a recording|3|line 5: not a line of a recording"; strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
}

// FuzzParse checks that a line that is read and written is read as the same line.
func FuzzParse(f *testing.F) {
	e := message(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	e.Payload = e.Raw
	f.Add(e.Line.Append(nil))
	f.Add([]byte(`{"kind":"gap","dropped":17}`))
	f.Add([]byte(`{"kind":"open","ts":"2026-11-22T03:08:57.430Z","headers":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, ok := Parse(raw)
		if !ok || l.Format < 0 || l.Size < 0 || l.TS.Year() > 9999 {
			return
		}
		once := l.Append(nil)
		if bytes.Count(once, []byte("\n")) > 1+bytes.Count(l.Payload, []byte("\n"))+bytes.Count(l.Changes, []byte("\n"))+bytes.Count(l.Notes, []byte("\n")) {
			t.Fatalf("more than one line: %q", once)
		}
		again, ok := Parse(once)
		if !ok || !bytes.Equal(again.Append(nil), once) {
			t.Errorf("%q\n became %q", once, again.Append(nil))
		}
	})
}
