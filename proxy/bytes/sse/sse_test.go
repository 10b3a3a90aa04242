package sse

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// show writes an event so that all its relevant parts can be compared.
func show(e Event) string {
	id, data := "-", "-"
	if e.HasID {
		id = fmt.Sprintf("%q", e.ID)
	}
	if e.Data != nil {
		data = fmt.Sprintf("%q", e.Data)
	}
	return fmt.Sprintf("name=%q id=%s data=%s retry=%v", e.Name, id, data, e.Retry)
}

func readAll(r *Reader) (got []string, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return got, err
		}
		got = append(got, show(e))
	}
}

func data(s string) string { return show(Event{Data: []byte(s)}) }

func TestReader(t *testing.T) {
	cut := io.ErrUnexpectedEOF
	for _, c := range []struct {
		name, in string
		want     []string
		err      error
	}{
		{"empty", "", nil, io.EOF},
		{"one event", "data: {}\n\n", []string{data("{}")}, io.EOF},
		{"carriage returns", "data: a\r\rdata: b\r\r", []string{data("a"), data("b")}, io.EOF},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", []string{data("a"), data("b")}, io.EOF},
		{"mixed", "data: a\n\rdata: b\r\n\ndata: c\r\r\n", []string{data("a"), data("b"), data("c")}, io.EOF},
		{"lines are joined", "data: a\ndata: b\r\ndata:\rdata: c\n\n", []string{data("a\nb\n\nc")}, io.EOF},
		{"lines are joined across other fields", "data: a\nid: 77777\ndata: bbbbbbbb\n: c\nevent: x\nfoo: bar\ndata: c\n\n",
			[]string{show(Event{ID: []byte("77777"), HasID: true, Name: []byte("x"), Data: []byte("a\nbbbbbbbb\nc")})}, io.EOF},
		{"one space is taken off", "data:a\n\ndata:  a\n\ndata:\ta\n\n", []string{data("a"), data(" a"), data("\ta")}, io.EOF},
		{"colons in a value", "data: a: b\n\n", []string{data("a: b")}, io.EOF},
		{"empty data", "data\n\ndata:\n\ndata: \n\ndata\ndata\n\n", []string{data(""), data(""), data(""), data("\n")}, io.EOF},
		{"priming event", "id: 7\ndata:\n\n", []string{show(Event{ID: []byte("7"), HasID: true, Data: []byte{}})}, io.EOF},
		{"priming event without data", "id: 7\n\n", []string{show(Event{ID: []byte("7"), HasID: true})}, io.EOF},
		{"empty id", "id\ndata: a\n\n", []string{show(Event{HasID: true, Data: []byte("a")})}, io.EOF},
		{"last id wins", "id: 1\nid: 2\ndata: a\n\n", []string{show(Event{ID: []byte("2"), HasID: true, Data: []byte("a")})}, io.EOF},
		{"id with NUL is ignored", "id: a\x00b\ndata: a\n\n", []string{data("a")}, io.EOF},
		{"id is not carried over", "id: 1\ndata: a\n\ndata: b\n\n", []string{show(Event{ID: []byte("1"), HasID: true, Data: []byte("a")}), data("b")}, io.EOF},
		{"retry", "retry: 1500\n\n", []string{show(Event{Retry: 1500 * time.Millisecond})}, io.EOF},
		{"retry that is no number", "retry: 1s\ndata: a\n\nretry: -1\ndata: b\n\nretry\ndata: c\n\n", []string{data("a"), data("b"), data("c")}, io.EOF},
		{"retry of 400 digits", "retry: " + strings.Repeat("9", 400) + "\n\n", []string{show(Event{Retry: maxRetry})}, io.EOF},
		{"name", "event: endpoint\ndata: /m\n\ndata: a\n\n", []string{show(Event{Name: []byte("endpoint"), Data: []byte("/m")}), data("a")}, io.EOF},
		{"name alone", "event: x\n\ndata: a\n\n", []string{data("a")}, io.EOF},
		{"comments", ":\n\n: hello\n\n:data: x\ndata: a\n:\n\n", []string{data("a")}, io.EOF},
		{"unknown fields", "foo: bar\nDATA: x\n data: x\n\ndata : y\n\n", nil, io.EOF},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []string{data("a")}, io.EOF},
		{"blank lines", "\n\n\r\n\r\rdata: a\n\n\n\n", []string{data("a")}, io.EOF},
		{"end within a line", "data: a\n\ndata: b", []string{data("a")}, cut},
		{"end within an event", "data: a\n\ndata: b\n", []string{data("a")}, cut},
		{"end within an event of an id", "id: 1\n", nil, cut},
		{"end within a comment", "data: a\n\n:", []string{data("a")}, cut},
		{"end behind a comment", "data: a\n\n:\n", []string{data("a")}, io.EOF},
		{"end behind a carriage return", "data: a\r\n\r", []string{data("a")}, io.EOF},
	} {
		for _, source := range []struct {
			name string
			r    io.Reader
		}{
			{"whole", strings.NewReader(c.in)},
			{"byte by byte", iotest.OneByteReader(strings.NewReader(c.in))},
			{"error with the data", iotest.DataErrReader(strings.NewReader(c.in))},
		} {
			t.Run(c.name+"/"+source.name, func(t *testing.T) {
				r := NewReader(source.r, 1000)
				got, err := readAll(r)
				if fmt.Sprint(got) != fmt.Sprint(c.want) || err != c.err {
					t.Errorf("got  %v, %v\nwant %v, %v", got, err, c.want, c.err)
				}
				if _, again := r.Next(); again != c.err {
					t.Errorf("error is not final: %v", again)
				}
			})
		}
	}
}

func TestReaderDoesNotWaitBehindACarriageReturn(t *testing.T) {
	pr, pw := io.Pipe()
	defer pw.Close()
	go func() { _, _ = io.WriteString(pw, "data: a\r\r") }() // and no more
	if e, err := NewReader(pr, 100).Next(); err != nil || string(e.Data) != "a" {
		t.Errorf("got %s, %v", show(e), err)
	}
}

func TestReaderBoundsAnEvent(t *testing.T) {
	const limit = 100
	for _, c := range []struct {
		name, in string
		fits     bool
	}{
		{"as large as allowed", "data: " + strings.Repeat("x", limit-6) + "\n\n", true},
		{"one byte more", "data: " + strings.Repeat("x", limit-5) + "\n\n", false},
		{"many lines", strings.Repeat("data:\n", limit) + "\n", false},
		{"long comment", ":" + strings.Repeat("x", 2*limit) + "\n\n", false},
		{"many comments", strings.Repeat(":\n", limit) + "data: a\n\n", true},
		{"no end", strings.Repeat("x", 1<<20), false},
		{"long id", "id: " + strings.Repeat("x", limit) + "\n\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewReader(strings.NewReader(c.in), limit)
			_, err := r.Next()
			if c.fits {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var large *TooLargeError
			if !errors.As(err, &large) || large.Limit != limit {
				t.Fatalf("err = %v", err)
			}
			if _, err = r.Next(); err == nil {
				t.Error("there is another event")
			}
		})
	}
}

func TestReaderPassesTheSourcesError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	got, err := readAll(r)
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := NewReader(idle{}, 100).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("source that never delivers: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReaderReset(t *testing.T) {
	r := NewReader(strings.NewReader("id: 1\ndata: "+strings.Repeat("x", 1<<20)+"\n\ndata: half"), 2<<20)
	if e, err := r.Next(); err != nil || len(e.Data) != 1<<20 {
		t.Fatalf("%d bytes, %v", len(e.Data), err)
	}
	r.Reset(strings.NewReader("\xef\xbb\xbfdata: a\n\n"))
	if len(r.in.Bytes) > keepBuffer {
		t.Errorf("buffer of %d bytes is kept", len(r.in.Bytes))
	}
	got, err := readAll(r)
	if fmt.Sprint(got) != fmt.Sprint([]string{data("a")}) || err != io.EOF {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestReaderLetsLargeBuffersGo(t *testing.T) {
	pr, pw := io.Pipe()
	go func() {
		for _, s := range []string{"data: " + strings.Repeat("x", 1<<20) + "\n\n", "data: a\n\n"} {
			_, _ = io.WriteString(pw, s)
		}
		_ = pw.Close()
	}()
	r := NewReader(pr, 2<<20)
	for range 2 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.in.Bytes) > keepBuffer {
		t.Errorf("buffer of %d bytes is kept", len(r.in.Bytes))
	}
}

// TestReaderRests: a reader gives its buffer back only if nothing in it is still needed.
func TestReaderRests(t *testing.T) {
	feed := strings.NewReader("")
	r := NewReader(readFunc(func(p []byte) (int, error) {
		n, err := feed.Read(p)
		if err == io.EOF {
			err = ErrInterrupted
		}
		return n, err
	}), 1000)
	for _, c := range []struct {
		text, data string
		rests      bool
	}{
		{"", "", true},
		{"data: 1\n\n", "1", true},
		{"data: 2\n", "", false},
		{"\n", "2", true},
		{": comment\r", "", true},
		{"\ndata: 3\n\ndata: 4\n\n", "3", false},
		{"", "4", true},
		{"da", "", false},
		{"ta: 5\n\n", "5", true},
	} {
		feed.Reset(c.text)
		e, err := r.Next()
		if c.data == "" && err != ErrInterrupted || string(e.Data) != c.data {
			t.Fatalf("%q: %q, %v", c.text, e.Data, err)
		}
		if got := r.Rest(); got != c.rests || got && r.in.Bytes != nil {
			t.Errorf("after %q: rests: %v, with a buffer of %d bytes", c.text, got, len(r.in.Bytes))
		}
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	src := &endless{text: "id: 12\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"ping\"}\n\n"}
	r := NewReader(src, 1<<20)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

type endless struct {
	text string
	off  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.off:])
	e.off = (e.off + n) % len(e.text)
	return n, nil
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Event
		want string
	}{
		{"message", Event{Data: []byte("{}")}, "data: {}\n\n"},
		{"everything", Event{ID: []byte("1"), HasID: true, Name: []byte("n"), Data: []byte("d"), Retry: time.Second},
			"event: n\nid: 1\nretry: 1000\ndata: d\n\n"},
		{"newline behind the message", Event{Data: []byte("{}\n")}, "data: {}\n\n"},
		{"white space around the message", Event{Data: []byte("\r\n\t {} \r\n")}, "data: {}\n\n"},
		{"line breaks of every kind", Event{Data: []byte("[1,\n2,\r\n3,\r4,\n\n5,\r\r\n6\n]\n")},
			"data: [1, 2,  3, 4,  5,   6 ]\n\n"},
		{"nothing but white space", Event{Data: []byte(" \n")}, "data: \n\n"},
		{"priming event", Event{ID: []byte("1"), HasID: true}, "id: 1\ndata: \n\n"},
		{"empty data", Event{Data: []byte{}}, "data: \n\n"},
		{"retry alone", Event{Retry: time.Microsecond}, "retry: 1\n\n"},
		{"nothing", Event{Name: []byte("n")}, ""},
		{"smuggled fields", Event{ID: []byte("1\ndata: x"), HasID: true, Name: []byte("n\rid: 2"), Data: []byte("d")}, "data: d\n\n"},
		{"id with NUL", Event{ID: []byte("\x00"), HasID: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(Append([]byte("x"), c.e)); got != "x"+c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestHeartbeatIsNoEvent(t *testing.T) {
	got, err := readAll(NewReader(strings.NewReader(Heartbeat+"data: a\n\n"+Heartbeat), 100))
	if fmt.Sprint(got) != fmt.Sprint([]string{data("a")}) || err != io.EOF {
		t.Errorf("got %v, %v", got, err)
	}
}

// readFunc is an io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
