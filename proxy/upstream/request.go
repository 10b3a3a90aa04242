package upstream

import (
	"net/url"
	"strconv"
	"strings"
)

// kind is what an exchange is for.
type kind uint8

const (
	call   kind = iota // POST of a request
	notice             // POST of a notification or a response
	listen             // GET
	end                // DELETE
	kinds
)

// request is what the head of one request is made from.
type request struct {
	kind                     kind
	id, version, lastEventID string
	header                   []Header
	length                   int
}

// heads is the part of a request's head that is always the same, by kind.
type heads struct {
	fixed [kinds]string
	own   []string // names of the headers in it that come from the configuration
}

func newHeads(u *url.URL, header []Header) (heads, error) {
	var own strings.Builder
	h := heads{}
	agent := "User-Agent: dragoman\r\n"
	for _, f := range header {
		if err := checkHeader(f); err != nil {
			return heads{}, err
		}
		if strings.EqualFold(f.Name, "User-Agent") {
			agent = ""
		}
		h.own = append(h.own, f.Name)
		own.WriteString(f.Name + ": " + f.Value + "\r\n")
	}
	// A compressed answer could not be bounded by what comes over the wire, and
	// would be of no use on the way to a client next door.
	common := " " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n" + agent + "Accept-Encoding: identity\r\n" + own.String()
	post := "POST" + common + "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
	h.fixed = [kinds]string{
		call:   post,
		notice: post,
		listen: "GET" + common + "Accept: text/event-stream\r\n",
		end:    "DELETE" + common,
	}
	return h, nil
}

// append appends the head of r to dst. Its error is a *HeaderError.
func (h *heads) append(dst []byte, r request) ([]byte, error) {
	dst = append(dst, h.fixed[r.kind]...)
	var err error
	field := func(name, value string) {
		if value == "" {
			return
		}
		if !validValue(value) && err == nil {
			err = &HeaderError{name, "value with a byte that no header may have"}
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	field("Mcp-Session-Id", r.id)
	field("MCP-Protocol-Version", r.version)
	field("Last-Event-ID", r.lastEventID)
	for _, f := range r.header {
		if h.has(f.Name) {
			continue
		}
		if bad := checkHeader(f); bad != nil {
			return dst, bad
		}
		field(f.Name, f.Value)
	}
	if r.kind == call || r.kind == notice {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(r.length), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...), err
}

func (h *heads) has(name string) bool {
	for _, own := range h.own {
		if strings.EqualFold(own, name) {
			return true
		}
	}
	return false
}

// checkHeader returns a *HeaderError for a header that is malformed, or that is
// not the caller's to set.
func checkHeader(f Header) error {
	if f.Name == "" {
		return &HeaderError{f.Name, "no name"}
	}
	for i := range len(f.Name) {
		if !tokenByte(f.Name[i]) {
			return &HeaderError{f.Name, "name with a byte that no header may have"}
		}
	}
	if !validValue(f.Value) {
		return &HeaderError{f.Name, "value with a byte that no header may have"}
	}
	for _, ours := range reserved {
		if strings.EqualFold(f.Name, ours) {
			return &HeaderError{f.Name, "belongs to the connection or to the protocol"}
		}
	}
	return nil
}

// reserved are the headers of one hop, and those that say what a message is.
var reserved = [...]string{
	"TE", "Host", "Accept", "Expect", "Trailer", "Upgrade", "Connection", "Keep-Alive", "Content-Type", "Content-Length",
	"Proxy-Connection", "Accept-Encoding", "Content-Encoding", "Transfer-Encoding",
	"Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID",
}

func tokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// validValue reports whether a value can stand in a head without ending it.
func validValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
