package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
)

// readAll returns every line as text, and a text for every line that was too long.
func readAll(t *testing.T, r *Reader) (got []string) {
	t.Helper()
	for {
		line, err := r.Next()
		var tooLong *TooLongError
		switch {
		case err == nil:
			got = append(got, string(line))
		case errors.As(err, &tooLong):
			if tooLong.Limit != r.in.Max || tooLong.Length <= tooLong.Limit {
				t.Fatalf("nonsense in error: %+v", tooLong)
			}
			got = append(got, fmt.Sprintf("!%d", tooLong.Length))
		default:
			if err != io.EOF {
				t.Fatalf("err = %v, want EOF", err)
			}
			if _, again := r.Next(); again != io.EOF {
				t.Fatalf("after EOF: %v", again)
			}
			return got
		}
	}
}

func TestReader(t *testing.T) {
	const limit = 8
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"one line", "{}\n", []string{"{}"}},
		{"two lines", "{}\n[]\n", []string{"{}", "[]"}},
		{"last line without newline", "{}\n[]", []string{"{}", "[]"}},
		{"one carriage return is stripped", "{}\r\n", []string{"{}"}},
		{"many carriage returns", "{}\r\r\n", []string{"{}"}},
		{"carriage return inside stays", "{\r}\n", []string{"{\r}"}},
		{"blank lines are ignored", "\n\r\n \t\n{}\n\n", []string{"{}"}},
		{"white space around is trimmed", "\t {} \n", []string{"{}"}},
		{"byte order mark at the start", "\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n", []string{"{}", "\xef\xbb\xbf{}"}},
		{"byte order mark alone", "\xef\xbb\xbf\n{}\n", []string{"{}"}},
		{"as long as allowed", "12345678\n", []string{"12345678"}},
		{"as long as allowed with all trimmings", "\xef\xbb\xbf12345678\r\n", []string{"12345678"}},
		{"one byte too long", "123456789\n{}\n", []string{"!9", "{}"}},
		{"one byte too long with all trimmings", "\xef\xbb\xbf123456789\r\n{}\n", []string{"!9", "{}"}},
		{"much too long", strings.Repeat("x", 100_000) + "\r\n{}\n", []string{"!100000", "{}"}},
		{"too long at the end", "{}\n123456789012345", []string{"{}", "!15"}},
		{"too long twice", "1234567890123456\n1234567890123456\n", []string{"!16", "!16"}},
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
				got := readAll(t, NewReader(source.r, limit))
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		}
	}
}

func TestReaderLongLines(t *testing.T) {
	var in []byte
	var want []string
	for _, n := range []int{1, 4 << 10, 64 << 10, 1, 1 << 20, 3, 200_000, 4095, 4096, 4097} {
		line := strings.Repeat("x", n)
		want = append(want, line)
		in = append(append(in, line...), '\n')
	}
	r := NewReader(bytes.NewReader(in), 1<<20)
	got := readAll(t, r)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Error("long lines were changed")
	}
}

func TestReaderLetsLargeBuffersGo(t *testing.T) {
	pr, pw := io.Pipe()
	go func() {
		for _, s := range []string{strings.Repeat("x", 1<<20) + "\n", "{}\n"} {
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
	readAll(t, r)
}

func TestReaderPassesTheSourcesError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("{}\n{\"cut"), iotest.ErrReader(broken)), 100)
	if line, err := r.Next(); string(line) != "{}" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	for range 2 {
		if line, err := r.Next(); !errors.Is(err, broken) {
			t.Fatalf("got %q, %v; want the source's error", line, err)
		}
	}
	if _, err := NewReader(idle{}, 100).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("source that never delivers: %v", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReaderDoesNotAllocate(t *testing.T) {
	src := &endless{line: []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")}
	r := NewReader(src, 1<<20)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per line", n)
	}
}

// endless repeats one line.
type endless struct {
	line []byte
	off  int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.line[e.off:])
	e.off = (e.off + n) % len(e.line)
	return n, nil
}

func TestAppend(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"{}", "{}\n"},
		{"", "\n"},
		{"{\n\t\"a\": 1\r\n}\n", "{ \t\"a\": 1  }\n"},
		{"{}\n", "{}\n"},
		{" \r\n\t{} \r\n", "{}\n"},
		{`{"a":"\n\r"}`, `{"a":"\n\r"}` + "\n"},
	} {
		in := []byte(c.in)
		if got := string(Append([]byte("before\n"), in)); got != "before\n"+c.want {
			t.Errorf("Append(%q) = %q, want %q", c.in, got, c.want)
		}
		if string(in) != c.in {
			t.Errorf("message was changed to %q", in)
		}
	}
}

// calls counts the calls of Write, and lets those after the first few fail.
type calls struct {
	bytes.Buffer
	n, good int
	short   bool
}

var errFull = errors.New("full")

func (c *calls) Write(p []byte) (int, error) {
	c.n++
	if c.n > c.good {
		if c.short {
			return len(p) - 1, nil
		}
		return 0, errFull
	}
	return c.Buffer.Write(p)
}

func TestWriterWritesAMessageInOneCall(t *testing.T) {
	dst := &calls{good: 1 << 30}
	w := NewWriter(dst)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := w.WriteMessage([]byte("{\n\"a\":1}")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if want := strings.Repeat("{ \"a\":1}\n", 400); dst.String() != want || dst.n != 400 {
		t.Errorf("%d calls, wrote %q", dst.n, dst.String())
	}
}

func TestWriterStaysBrokenAfterAnError(t *testing.T) {
	for _, c := range []struct {
		short bool
		want  error
	}{{false, errFull}, {true, io.ErrShortWrite}} {
		dst := &calls{good: 1, short: c.short}
		w := NewWriter(dst)
		if err := w.WriteMessage([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.WriteMessage([]byte("{}")); !errors.Is(err, c.want) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
		}
		if dst.n != 2 {
			t.Errorf("%d writes, want none after the failed one", dst.n)
		}
	}
}

func TestWriterClosed(t *testing.T) {
	dst := &calls{good: 1}
	w := NewWriter(dst)
	w.Close()
	if err := w.WriteMessage([]byte("{}")); !errors.Is(err, ErrClosed) || dst.n != 0 {
		t.Errorf("err = %v after %d writes", err, dst.n)
	}
}

func TestWriterReleasesLargeBuffers(t *testing.T) {
	w := NewWriter(io.Discard)
	if err := w.WriteMessage(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if cap(w.buf) > keepBuffer {
		t.Errorf("buffer of %d bytes is kept", cap(w.buf))
	}
}

// TestLargeLinesAreCounted checks that a large line is counted until the next one is
// read, or until Forget.
func TestLargeLinesAreCounted(t *testing.T) {
	memory := large.NewMemory(1 << 20)
	long := strings.Repeat("a", 300<<10)
	lender := memory.Lender(t.Context(), time.Second)
	r := NewReaderIn(&lender, strings.NewReader(long+"\nshort\n"+long+"\n"), 1<<20)
	for i, want := range []string{long, "short", long} {
		line, err := r.Next()
		if err != nil || string(line) != want {
			t.Fatalf("line %d: %d bytes, %v", i, len(line), err)
		}
		if taken := memory.Budget.Taken(); i != 1 && taken < int64(len(long)) {
			t.Errorf("line %d: %d bytes are counted", i, taken)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
	if taken := memory.Budget.Taken(); taken != 0 {
		t.Errorf("at the end %d bytes are counted", taken)
	}
	r = NewReaderIn(&lender, strings.NewReader(long+"\n"), 1<<20)
	if line, err := r.Next(); err != nil || string(line) != long {
		t.Fatal(err)
	}
	r.Forget()
	if taken := memory.Budget.Taken(); taken != 0 {
		t.Errorf("forgotten, and %d bytes are counted", taken)
	}
}
