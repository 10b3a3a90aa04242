package unpack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"
)

// writer compresses.
type writer interface {
	io.WriteCloser
	Flush() error
}

// ways are the ways in which servers compress.
var ways = map[string]struct {
	coding Coding
	to     func(io.Writer) writer
}{
	"gzip":           {Gzip, func(w io.Writer) writer { return gzip.NewWriter(w) }},
	"stored":         {Gzip, func(w io.Writer) writer { z, _ := gzip.NewWriterLevel(w, gzip.NoCompression); return z }},
	"zlib":           {Deflate, func(w io.Writer) writer { return zlib.NewWriter(w) }},
	"raw":            {Deflate, func(w io.Writer) writer { z, _ := flate.NewWriter(w, 6); return z }},
	"br":             {Brotli, func(w io.Writer) writer { return newBrotli(w, 5, 22) }},
	"br small":       {Brotli, func(w io.Writer) writer { return newBrotli(w, 9, 10) }},
	"br 8 MiB":       {Brotli, func(w io.Writer) writer { return newBrotli(w, 2, 23) }},
	"zstd":           {Zstd, func(w io.Writer) writer { return newZstd(w, zstd.WithWindowSize(1<<20)) }},
	"zstd 8 MiB":     {Zstd, func(w io.Writer) writer { return newZstd(w, zstd.WithWindowSize(8<<20)) }},
	"zstd in frames": {Zstd, func(w io.Writer) writer { return &frames{to: w} }},
}

func newBrotli(w io.Writer, level, window int) writer {
	z, err := brotli.NewWriterOptions(w, level, brotli.WriterOptions{LGWin: window})
	if err != nil {
		panic(err)
	}
	return z
}

func newZstd(w io.Writer, o ...zstd.EOption) writer {
	z, err := zstd.NewWriter(w, append(o, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		panic(err)
	}
	return z
}

// frames writes what comes between two flushes as a frame of its own, each with another window, behind one that is skipped.
type frames struct {
	to io.Writer
	b  bytes.Buffer
	n  int
}

func (f *frames) Write(p []byte) (int, error) { return f.b.Write(p) }

func (f *frames) Flush() error {
	if f.b.Len() == 0 {
		return nil
	}
	f.n++
	skipped := []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc")
	z := newZstd(nil, zstd.WithSingleSegment(f.n%2 == 0), zstd.WithEncoderCRC(f.n%3 == 0)).(*zstd.Encoder)
	_, err := f.to.Write(z.EncodeAll(f.b.Bytes(), skipped))
	f.b.Reset()
	return err
}

func (f *frames) Close() error { return f.Flush() }

// packed returns the parts in a coding, flushed behind each.
func packed(to func(io.Writer) writer, parts ...string) []byte {
	var b bytes.Buffer
	w := to(&b)
	for _, p := range parts {
		if _, err := io.WriteString(w, p); err != nil {
			panic(err)
		}
		if err := w.Flush(); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// counted counts what is held.
type counted struct {
	now, most int
	limit     int // 0 for none
}

var errFull = errors.New("full")

func (c *counted) Hold(n int) error {
	if c.limit > 0 && c.now+n > c.limit {
		return errFull
	}
	c.now += n
	c.most = max(c.most, c.now)
	return nil
}

func (c *counted) Drop(n int) { c.now -= n }

// texts are contents: small, repetitive, and such that cannot be compressed.
func texts() map[string][]string {
	noise := make([]byte, 100<<10/effort)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(noise)
	return map[string][]string{
		"one":    {`{"a":1}`},
		"parts":  {"data: 1\n\n", ": comment\n\n", "data: 2\n\n", "", "data: 3\n\n"},
		"larger": {strings.Repeat("abcdefgh ", 20_000/effort), "x", strings.Repeat("0123456789", 5_000/effort)},
		"noise":  {string(noise), "data: {}\n\n", string(noise[:1000])},
	}
}

// TestDecode reads everything in every way, as it comes: at once, byte by byte, and with a source that fails between.
func TestDecode(t *testing.T) {
	for way, c := range ways {
		for name, parts := range texts() {
			in := packed(c.to, parts...)
			for how, source := range map[string]func(io.Reader) io.Reader{
				"at once":       func(r io.Reader) io.Reader { return r },
				"byte by byte":  iotest.OneByteReader,
				"with its end":  iotest.DataErrReader,
				"halted":        func(r io.Reader) io.Reader { return &halting{r: r} },
				"halted halves": func(r io.Reader) io.Reader { return &halting{r: iotest.HalfReader(r)} },
			} {
				memory := new(counted)
				r := NewReader(source(bytes.NewReader(in)), c.coding, memory)
				got, err := readAll(r)
				if want := strings.Join(parts, ""); err != nil || got != want {
					t.Errorf("%s, %s, %s: %d bytes, want %d: %v", way, name, how, len(got), len(want), err)
				}
				if memory.now != 0 || memory.most == 0 || memory.most > 2*MaxWindow+brotliMore {
					t.Errorf("%s, %s, %s: %d bytes are held, %d were", way, name, how, memory.now, memory.most)
				}
				if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("%s, %s, %s: behind the end: %d %v", way, name, how, n, err)
				}
				r.Close()
			}
		}
	}
}

var errHalted = errors.New("halted")

// halting fails before each byte that it gives.
type halting struct {
	r    io.Reader
	next bool
}

func (h *halting) Read(p []byte) (int, error) {
	if h.next = !h.next; h.next {
		return 0, errHalted
	}
	return h.r.Read(p)
}

// readAll reads on after errHalted.
func readAll(r io.Reader) (string, error) {
	var all []byte
	buf := make([]byte, 1000)
	for {
		n, err := r.Read(buf)
		all = append(all, buf[:n]...)
		switch {
		case err == io.EOF:
			return string(all), nil
		case err != nil && err != errHalted:
			return string(all), err
		}
	}
}

// TestWhatIsFlushedComesAtOnce: what a server has flushed can be read before anything else comes.
func TestWhatIsFlushedComesAtOnce(t *testing.T) {
	for way, c := range ways {
		pipe := new(growing)
		w := c.to(pipe)
		r := NewReader(pipe, c.coding, new(counted))
		for i := range 50 {
			event := fmt.Sprintf("id: %d\ndata: {\"n\":%d,%s}\n\n", i, i, strings.Repeat(`"x":1,`, i*i))
			io.WriteString(w, event)
			w.Flush()
			got := ""
			buf := make([]byte, 4<<10)
			for {
				n, err := r.Read(buf)
				got += string(buf[:n])
				if err == errHalted {
					break
				} else if err != nil {
					t.Fatalf("%s, event %d: %v", way, i, err)
				}
			}
			if got != event {
				t.Fatalf("%s, event %d: %d bytes of %d have come", way, i, len(got), len(event))
			}
		}
		r.Close()
	}
}

// growing is a source that fails with errHalted where nothing was written yet.
type growing struct{ bytes.Buffer }

func (g *growing) Read(p []byte) (int, error) {
	if g.Len() == 0 {
		return 0, errHalted
	}
	return g.Buffer.Read(p)
}

// TestContentThatMisbehaves: it is cut off, wrong, goes on behind its end, or wants more memory than there is.
func TestContentThatMisbehaves(t *testing.T) {
	good := `{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("good ", 100/effort) + `"}}`
	for way, c := range ways {
		in := packed(c.to, good)
		read := func(in string, memory Memory) (string, error) {
			r := NewReader(strings.NewReader(in), c.coding, memory)
			defer r.Close()
			return readAll(r)
		}
		for cut := 1; cut < len(in); cut++ {
			if got, err := read(string(in[:cut]), new(counted)); err == nil && way != "zstd in frames" || !strings.HasPrefix(good, got) {
				t.Errorf("%s: cut at %d of %d: %q %v", way, cut, len(in), got, err)
			}
		}
		if got, err := read("", new(counted)); got != "" || err != nil {
			t.Errorf("%s: nothing: %q %v", way, got, err)
		}
		if _, err := read(good, new(counted)); err == nil {
			t.Errorf("%s: plain text is decoded", way)
		}
		if _, err := read(string(in)+"more text that is not compressed", new(counted)); err == nil && c.coding != Brotli { // whose decoder does not say how far it has read
			t.Errorf("%s: text behind it is not seen", way)
		}
		if _, err := read(string(in), &counted{limit: 1000}); err != errFull {
			t.Errorf("%s: without memory: %v", way, err)
		}
		if twice, err := read(string(packed(c.to, string(in))), new(counted)); twice != string(in) || err != nil {
			t.Errorf("%s: packed twice: %v", way, err)
		}
		for i := range in {
			wrong := bytes.Clone(in)
			wrong[i] ^= 1 << (i % 8)
			read(string(wrong), new(counted)) //nolint:errcheck // only brotli, and zstd without a checksum, cannot see each wrong bit
		}
		if (c.coding == Gzip || way == "zlib") && len(in) > 8 {
			wrong := bytes.Clone(in)
			wrong[len(wrong)-5] ^= 1
			if _, err := read(string(wrong), new(counted)); err == nil {
				t.Errorf("%s: a wrong checksum is not seen", way)
			}
		}
	}
}

// TestWindowsThatAreTooLarge are refused before anything is taken.
func TestWindowsThatAreTooLarge(t *testing.T) {
	text := strings.Repeat("abcdefgh ", 4<<20)
	for name, c := range map[string]struct {
		coding Coding
		in     []byte
	}{
		"br of 16 MiB":            {Brotli, packed(func(w io.Writer) writer { return newBrotli(w, 2, 24) }, "x")},
		"zstd of 16 MiB":          {Zstd, packed(func(w io.Writer) writer { return newZstd(w, zstd.WithWindowSize(16<<20)) }, text, text)},
		"zstd in one segment":     {Zstd, newZstd(nil, zstd.WithSingleSegment(true)).(*zstd.Encoder).EncodeAll([]byte(text), nil)},
		"a second frame of 1 GiB": {Zstd, append(packed(ways["zstd"].to, "x"), "\x28\xb5\x2f\xfd\x00\xa0"...)},
	} {
		memory := new(counted)
		r := NewReader(bytes.NewReader(c.in), c.coding, memory)
		got, err := readAll(r)
		if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Error(), "a window of") || len(got) > 1 || memory.now != 0 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if memory.most > 4<<20 {
			t.Errorf("%s: %d bytes were held", name, memory.most)
		}
	}
}

// TestBombs: a decoder takes no more memory than it holds, whatever comes out.
func TestBombs(t *testing.T) {
	const size = 64 << 20 / effort
	block := make([]byte, 1<<20)
	for way, c := range ways {
		if way == "stored" || way == "zstd in frames" {
			continue
		}
		var b bytes.Buffer
		w := c.to(&b)
		for range size / len(block) {
			w.Write(block)
		}
		w.Close()
		memory := new(counted)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := NewReader(&b, c.coding, memory)
		n, err := io.Copy(io.Discard, r)
		runtime.ReadMemStats(&after)
		if err != nil || n != size {
			t.Errorf("%s: %d bytes, %v", way, n, err)
		}
		took := int(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %d bytes became %d, %d KiB were held, %d KiB allocated", way, b.Cap(), n, memory.most>>10, took>>10)
		if took > 2*memory.most+1<<20 {
			t.Errorf("%s: took %d bytes, %d were held", way, took, memory.most)
		}
	}
}

// TestMoreThanMessagesHave: a few bytes do not keep the decoder busy for ever. What deflate can pack is decoded.
func TestMoreThanMessagesHave(t *testing.T) {
	const size = 4 << 20
	for _, way := range []string{"gzip", "br", "zstd"} {
		c, in := ways[way], new(bytes.Buffer)
		w := c.to(in)
		for range size >> 20 {
			w.Write(make([]byte, 1<<20))
		}
		w.Close()
		memory := new(counted)
		r := NewReader(in, c.coding, memory)
		r.given = size / 2
		n, err := io.Copy(io.Discard, r)
		if way == "gzip" {
			if err != nil || n != size {
				t.Errorf("%s: %d bytes, %v", way, n, err)
			}
		} else if !errors.Is(err, errRatio) || n > size*3/4 || memory.now != 0 {
			t.Errorf("%s: %d bytes, %v, %d are held", way, n, err, memory.now)
		}
	}
}

// TestContentIsLeftEarly: Close ends the decoder wherever it is.
func TestContentIsLeftEarly(t *testing.T) {
	before := runtime.NumGoroutine()
	for way, c := range ways {
		for at := range 20 / min(effort, 4) {
			memory := new(counted)
			r := NewReader(&halting{r: iotest.OneByteReader(bytes.NewReader(packed(c.to, strings.Repeat("text ", 1000))))}, c.coding, memory)
			for range at {
				r.Read(make([]byte, 7)) //nolint:errcheck // it may have halted
			}
			r.Close()
			r.Close()
			if _, err := r.Read(make([]byte, 1)); err == nil || memory.now != 0 {
				t.Errorf("%s: left after %d reads: %v, %d bytes are held", way, at, err, memory.now)
			}
		}
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

func TestOf(t *testing.T) {
	for encoding, want := range map[string]string{
		"": "identity", "identity": "identity", "Identity": "identity", "gzip": "gzip", "GZIP": "gzip", "x-gzip": "gzip", " gzip ": "gzip", "identity, gzip": "gzip",
		"deflate": "deflate", "br": "br", "zstd": "zstd", ",": "identity",
		"compress":                          `response with the Content-Encoding "compress", expected none, gzip, deflate, br or zstd`,
		"gzip, gzip":                        `response with the Content-Encoding "gzip, gzip": only one is decoded`,
		"br,gzip":                           `response with the Content-Encoding "br,gzip": only one is decoded`,
		"gzip;q=1":                          `response with the Content-Encoding "gzip;q=1", expected none, gzip, deflate, br or zstd`,
		strings.Repeat("x", 200):            `response with the Content-Encoding "` + strings.Repeat("x", 100) + `", expected none, gzip, deflate, br or zstd`,
		"gzip" + strings.Repeat(" ", 2_000): "gzip",
	} {
		c, err := Of([]byte(encoding))
		got := c.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.20q: %s, want %s", encoding, got, want)
		}
	}
}

// FuzzReader: whatever comes, reading ends, with no panic and no memory held, in whichever pieces it comes.
func FuzzReader(f *testing.F) {
	for _, c := range ways {
		in := packed(c.to, "text ", "text ", strings.Repeat("more ", 100))
		f.Add(uint8(c.coding), in)
		f.Add(uint8(c.coding), in[:len(in)/2])
		f.Add(uint8(c.coding), append(bytes.Clone(in), in...))
	}
	f.Fuzz(func(t *testing.T, coding uint8, in []byte) {
		c := Gzip + Coding(coding)%Zstd
		var outs [2]string
		var errs [2]error
		for i, src := range []io.Reader{bytes.NewReader(in), &halting{r: iotest.OneByteReader(bytes.NewReader(in))}} {
			memory := new(counted)
			r := NewReader(src, c, memory)
			outs[i], errs[i] = readAll(&limited{r, 1 << 20})
			r.Close()
			if memory.now != 0 {
				t.Errorf("%d bytes are held", memory.now)
			}
		}
		if (errs[0] == nil) != (errs[1] == nil) || errs[0] == nil && outs[0] != outs[1] {
			t.Errorf("at once %d bytes, %v; byte by byte %d, %v", len(outs[0]), errs[0], len(outs[1]), errs[1])
		}
	})
}

// limited ends with an error after n bytes.
type limited struct {
	r io.Reader
	n int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.n <= 0 {
		return 0, errFull
	}
	n, err := l.r.Read(p[:min(len(p), l.n)])
	l.n -= n
	return n, err
}
