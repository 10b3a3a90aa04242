package lines

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// cut delivers data in pieces whose lengths are those in sizes, again and again.
type cut struct {
	data, sizes []byte
	n           int
}

func (c *cut) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	size := len(c.data)
	if len(c.sizes) > 0 {
		size = 1 + int(c.sizes[c.n%len(c.sizes)])
		c.n++
	}
	n := copy(p[:min(size, len(p))], c.data)
	c.data = c.data[n:]
	return n, nil
}

// FuzzReader checks that lines that come in any pieces are read as the slow and simple
// reader below splits them.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"", "\n", "\r\n", "{}\n", "{}\r\n{}", "\r\r\n", "\xef\xbb\xbf", "\xef\xbb\xbf{}\n", "\xef\xbb",
		"123456789\n{}\n", "12345678\r", "123456789\r", "             \n", "\xef\xbb\xbf12345678\r\n",
		"\xef\xbb\xbf123456789\r\n1", "1234567890123\r", "\x00\n\xff\n",
	} {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte(s), []byte{1, 0, 3})
	}
	f.Fuzz(func(t *testing.T, in, sizes []byte) {
		const limit = 8
		got := readAll(t, NewReader(&cut{data: in, sizes: sizes}, limit))
		want := slowly(in, limit)
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q cut by %v\n got  %q\n want %q", in, sizes, got, want)
		}
	})
}

func slowly(in []byte, limit int) (got []string) {
	for _, line := range bytes.Split(bytes.TrimPrefix(in, []byte(byteOrderMark)), []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case len(line) > limit:
			got = append(got, fmt.Sprintf("!%d", len(line)))
		case len(bytes.Trim(line, " \t\r")) > 0:
			got = append(got, string(bytes.Trim(line, " \t\r")))
		}
	}
	return got
}

// FuzzAppend checks that everything appended is one line, with the same bytes except
// for the white space around it and line breaks.
func FuzzAppend(f *testing.F) {
	for _, s := range []string{"{}", "{\n}", "\r\n", "{\"a\":\r1}\n\n", "x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := Append(nil, in)
		in = bytes.Trim(in, " \t\r\n")
		if len(out) != len(in)+1 || bytes.IndexByte(out, '\n') != len(in) || bytes.IndexByte(out, '\r') >= 0 {
			t.Fatalf("%q became %q", in, out)
		}
		for i, c := range in {
			if out[i] != c && (c != '\n' && c != '\r' || out[i] != ' ') {
				t.Fatalf("%q became %q", in, out)
			}
		}
	})
}
