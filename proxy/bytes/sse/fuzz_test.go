package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
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

// halting is a source whose every second read is interrupted.
type halting struct {
	src  io.Reader
	halt bool
}

func (h *halting) Read(p []byte) (int, error) {
	if h.halt = !h.halt; h.halt {
		return 0, ErrInterrupted
	}
	return h.src.Read(p)
}

// readOn returns what readAll does, and goes on after each interruption.
func readOn(r *Reader) (got []string, err error) {
	for {
		more, err := readAll(r)
		if got = append(got, more...); err != ErrInterrupted {
			return got, err
		}
	}
}

// FuzzReader checks that events that come in any pieces are parsed as the slow reader
// below parses them, which follows the specification on the whole stream.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"", "data: a\n\n", "data: a\r\rdata: b\r\n\r\n", "id: 1\ndata\n\n", "\xef\xbb\xbfdata: a\n\n", "\xef\xbb",
		"data: a\nid: 77777\ndata: bbbbbbbb\n\n", "data\ndata\ndata\n\n", ":\n\n:", "retry: 0\n\nretry: 12\n\n",
		"retry: 99999999999999999999\n\n", "id: \x00\n\n", "event: x\n\n", "data: a\n\r", "\r\n\n\r", "a:\r\ndata:b\r\n\r\n",
		"data: " + strings.Repeat("x", 100) + "\n\n", strings.Repeat("data\r", 20) + "\r", strings.Repeat(":\n", 50),
		"event: y\nevent\ndata: 1\n\n", "data:\x00\xff\n\n",
	} {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte(s), []byte{1, 0, 3})
	}
	f.Fuzz(func(t *testing.T, in, sizes []byte) {
		const limit = 64
		whole, wholeErr := readAll(NewReader(bytes.NewReader(in), limit))
		got, err := readAll(NewReader(&cut{data: in, sizes: sizes}, limit))
		if fmt.Sprint(got) != fmt.Sprint(whole) || fmt.Sprint(err) != fmt.Sprint(wholeErr) {
			t.Errorf("%q cut by %v\n got   %v, %v\n whole %v, %v", in, sizes, got, err, whole, wholeErr)
		}
		got, err = readOn(NewReader(&halting{src: &cut{data: in, sizes: sizes}}, limit))
		if fmt.Sprint(got) != fmt.Sprint(whole) || fmt.Sprint(err) != fmt.Sprint(wholeErr) {
			t.Errorf("%q cut by %v and interrupted\n got   %v, %v\n whole %v, %v", in, sizes, got, err, whole, wholeErr)
		}
		var large *TooLargeError
		want := slowly(string(in))
		if errors.As(err, &large) && len(got) <= len(want) {
			want = want[:len(got)]
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q\n got  %v\n want %v", in, got, want)
		}
	})
}

func slowly(in string) (got []string) {
	in = strings.TrimPrefix(in, byteOrderMark)
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	lines := strings.Split(in, "\n")
	var e Event
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if e.HasID || e.Data != nil || e.Retry > 0 {
				got = append(got, show(e))
			}
			e = Event{}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			if e.Data != nil {
				value = string(e.Data) + "\n" + value
			}
			e.Data = append([]byte{}, value...)
		case "event":
			e.Name = []byte(value)
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID, e.HasID = []byte(value), true
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				ms, err := strconv.ParseInt(value, 10, 32)
				e.Retry = min(time.Duration(ms)*time.Millisecond, maxRetry)
				if err != nil {
					e.Retry = maxRetry
				}
			}
		}
	}
	return got
}

// FuzzAppend checks that the appended event is read back as it was, except for the
// white space around its data and the line breaks in it, that it has one data line, and
// that nothing in it makes a second event.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("1"), true, []byte("message"), []byte("{}"), int64(0))
	f.Add([]byte(" 1"), true, []byte(" x"), []byte("a\nb\r\nc\r"), int64(15))
	f.Add([]byte(""), true, []byte(""), []byte(""), int64(1))
	f.Add([]byte("1\n\ndata: x"), true, []byte("\r"), []byte("\r\n"), int64(-1))
	f.Add([]byte("\x00"), false, []byte("\x00"), []byte("\x00"), int64(1<<40))
	f.Fuzz(func(t *testing.T, id []byte, hasID bool, name, data []byte, retry int64) {
		in := Event{ID: id, HasID: hasID, Name: name, Data: data, Retry: time.Duration(retry%1e9) * time.Millisecond}
		out := Append(nil, in)
		if SingleLine(data) && len(data) > 0 {
			if parts := string(AppendHead(nil, in)) + string(data) + Tail; parts != string(out) {
				t.Errorf("in parts %q, whole %q", parts, out)
			}
		}
		r := NewReader(bytes.NewReader(out), len(out)+1)
		e, err := r.Next()
		if err != nil {
			if err == io.EOF && len(out) == 0 {
				return
			}
			t.Fatalf("%q: %v", out, err)
		}
		want := in
		if hasBreak(id) || bytes.IndexByte(id, 0) >= 0 {
			want.HasID = false
		}
		if hasBreak(name) {
			want.Name = nil
		}
		want.Retry = min(max(want.Retry, 0), maxRetry)
		want.Data = []byte(strings.NewReplacer("\r", " ", "\n", " ").Replace(strings.Trim(string(data), " \t\r\n")))
		if n := strings.Count("\n"+string(out), "\ndata: "); n != 1 {
			t.Errorf("%q has %d data lines", out, n)
		}
		if got := show(e); got != show(want) {
			t.Errorf("%q\n got  %s\n want %s", out, got, show(want))
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%q holds more than one event: %v", out, err)
		}
	})
}
