package samehead

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func any([]byte, []byte) bool { return true }

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, head string
		length     int
		ok         bool
	}{
		{"a length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n", 12, true},
		{"any case, spaces around", "POST / HTTP/1.1\r\ncontent-LENGTH:  12 \r\nHost: h\r\n\r\n", 12, true},
		{"no space", "POST / HTTP/1.1\r\nContent-Length:12\r\n\r\n", 12, true},
		{"no length", "POST / HTTP/1.1\r\nHost: h\r\n\r\n", Chunked, true},
		{"an empty value", "POST / HTTP/1.1\r\nX:\r\nContent-Length: 1\r\n\r\n", 1, true},
		{"only a line", "POST / HTTP/1.1\r\n\r\n", Chunked, true},
		{"nothing", "", 0, false},
		{"no line", "\r\n", 0, false},
		{"no empty line", "POST / HTTP/1.1\r\nHost: h\r\n", 0, false},
		{"more behind it", "POST / HTTP/1.1\r\n\r\nx", 0, false},
		{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 0, false},
		{"an empty length", "POST / HTTP/1.1\r\nContent-Length: \r\n\r\n", 0, false},
		{"a folded line", "POST / HTTP/1.1\r\nX: a\r\n b\r\n\r\n", 0, false},
		{"a bare LF", "POST / HTTP/1.1\r\nX: a\nContent-Length: 1\r\n\r\n", 0, false},
		{"a bare CR", "POST / HTTP/1.1\r\nX: a\rContent-Length: 1\r\n\r\n", 0, false},
		{"a space before the colon", "POST / HTTP/1.1\r\nContent-Length : 1\r\n\r\n", 0, false},
		{"a space in the name", "POST / HTTP/1.1\r\nContent Length: 1\r\n\r\n", 0, false},
		{"no colon", "POST / HTTP/1.1\r\nX\r\n\r\n", 0, false},
		{"no name", "POST / HTTP/1.1\r\n: x\r\n\r\n", 0, false},
		{"NUL", "POST / HTTP/1.1\r\nX: \x00\r\n\r\n", 0, false},
		{"a tab", "POST / HTTP/1.1\r\nX: \t\r\n\r\n", 0, false},
		{"another alphabet", "POST / HTTP/1.1\r\nX: é\r\n\r\n", 0, false},
	} {
		at, ok := Find([]byte(c.head), any)
		if ok != c.ok {
			t.Errorf("%s: found %v, want %v", c.name, ok, c.ok)
		} else if n, isLength := at.Length([]byte(c.head)); ok && (n != c.length || !isLength) {
			t.Errorf("%s: length %d, want %d", c.name, n, c.length)
		}
	}
	if _, ok := Find([]byte("POST / HTTP/1.1\r\nExpect: x\r\n\r\n"), func(name, value []byte) bool { return string(name)+string(value) != "Expectx" }); ok {
		t.Error("a refused header is allowed")
	}
}

func TestLengthsThatAreNotRead(t *testing.T) {
	for _, digits := range []string{"0", "00", "01", "+5", "-5", "0x5", "5a", "5,5", "5 5", "12345678", "99999999999999999999", "1_0", "５"} {
		head := fmt.Appendf(nil, "POST / HTTP/1.1\r\nContent-Length: %s\r\n\r\n", digits)
		if at, ok := Find(head, any); ok {
			if n, ok := at.Length(head); ok {
				t.Errorf("%q is %d", digits, n)
			}
		}
		var h Head
		kept := []byte("POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n")
		at, _ := Find(kept, any)
		h.Keep(kept, at)
		if size, n, ok := h.Match(head); ok {
			t.Errorf("%q matches: %d bytes, length %d", digits, size, n)
		}
	}
}

// TestHeadsThatAlwaysDifferAreSeldomKept, and one that is found again is kept from then on.
func TestHeadsThatAlwaysDifferAreSeldomKept(t *testing.T) {
	var h Head
	kept := 0
	for i := range 1000 {
		head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Request-Id: %d\r\nContent-Length: 7\r\n\r\n", i)
		at, _ := Find(head, any)
		h.Keep(head, at)
		if len(h.bytes) > 0 {
			kept++
		}
	}
	if kept > 12 {
		t.Errorf("%d of 1000 heads were kept", kept)
	}
	head := []byte("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
	at, _ := Find(head, any)
	for range 1024 {
		h.Keep(head, at)
		if _, _, ok := h.Match(head); ok {
			break
		}
	}
	h.Keep(head, at)
	if _, _, ok := h.Match(head); !ok {
		t.Error("a head that was found again is not kept")
	}
}

// parsed is what fasthttp reads in the head of a request; "" if it refuses it.
func parsed(head []byte) (said string, length int) {
	var h fasthttp.RequestHeader
	r := bufio.NewReaderSize(bytes.NewReader(head), 64<<10)
	if h.Read(r) != nil {
		return "", 0
	}
	var all []string
	for name, value := range h.All() {
		if string(name) != fasthttp.HeaderContentLength {
			all = append(all, fmt.Sprintf("%q: %q", name, value))
		}
	}
	slices.Sort(all)
	return fmt.Sprintf("%q %q %q, closes %v, %d bytes behind it\n%s", h.Method(), h.RequestURI(), h.Protocol(), h.ConnectionClose(), r.Buffered(), strings.Join(all, "\n")), h.ContentLength()
}

// FuzzMatch checks that a head which matches another one says the same for fasthttp, but for the length, and that the length
// is that which fasthttp reads. The first head is kept only under the conditions under which its users keep it.
func FuzzMatch(f *testing.F) {
	const first = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Length: 5\r\nMcp-Session-Id: a\r\n\r\n"
	for _, second := range []string{
		first, strings.Replace(first, ": 5", ": 123", 1), strings.Replace(first, ": 5", ": 05", 1), strings.Replace(first, ": 5", ": +5", 1),
		strings.Replace(first, ": 5", ": 0x5", 1), strings.Replace(first, ": 5", ": 5 5", 1), strings.Replace(first, ": 5", ": 5,5", 1),
		strings.Replace(first, ": 5", ": 99999999999999999999", 1), strings.Replace(first, ": 5", ":5", 1), strings.Replace(first, ": 5", ": 5 ", 1),
		strings.Replace(first, ": 5", ": 5\r\nContent-Length: 6", 1), strings.Replace(first, ": 5", ": 5\r\nTransfer-Encoding: chunked", 1),
		strings.Replace(first, ": 5", ": 5\r\n X", 1), strings.Replace(first, ": 5", ": 5\n", 1), strings.Replace(first, ": 5", ": 5\x00", 1),
		strings.Replace(first, "Content-Length", "content-length", 1), strings.Replace(first, "Content-Length:", "Content-Length :", 1),
		strings.Replace(first, "HTTP/1.1", "HTTP/1.0", 1), strings.Replace(first, "/mcp", "http://localhost/mcp", 1),
		strings.Replace(first, "Host: localhost\r\n", "", 1), strings.Replace(first, "Host: localhost", "Host: localhost\r\nHost: evil", 1),
		strings.Replace(first, "\r\n\r\n", "\r\n\r\n12345"+first, 1), first + "12345" + first, first[:40], "\r\n" + first,
	} {
		f.Add([]byte(first), []byte(second))
		f.Add([]byte(second), []byte(first))
	}
	f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"), []byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\n"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		at, ok := Find(one, any)
		if !ok {
			return
		}
		said, length := parsed(one)
		n, isLength := at.Length(one)
		if said == "" || !isLength || n != length {
			return
		}
		var h Head
		h.Keep(one, at)
		if size, n, ok := h.Match(one); !ok || size != len(one) || n != length {
			t.Fatalf("%q does not match itself: %d, %d, %v", one, size, n, ok)
		}
		size, n, ok := h.Match(two)
		if !ok {
			return
		}
		if also, length := parsed(two[:size]); also != said || n != length {
			t.Fatalf("%q matches %q\nsaid %s, length %d\nsays %s, length %d", two[:size], one, said, n, also, length)
		}
		if whole, length := parsed(two); whole != "" && length != n {
			t.Fatalf("%q has length %d, but %d behind %q", two, length, n, one)
		}
	})
}

func TestLists(t *testing.T) {
	for value, want := range map[string]bool{
		"close": true, "Close": true, " TE,\tclose ": true, "close,": true, ",,CLOSE": true,
		"": false, "closed": false, "keep-alive": false, "clo se": false, "close;q=1": false, "TE, x-close": false,
	} {
		if Lists([]byte(value), "close") != want {
			t.Errorf("%q: %v", value, !want)
		}
	}
}
