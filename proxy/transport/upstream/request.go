package upstream

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// kind is the purpose of an exchange.
type kind uint8

const (
	call   kind = iota // POST of a request
	notice             // POST of a notification or a response
	listen             // GET
	end                // DELETE
	join               // GET of HTTP+SSE, which begins a session
	post               // POST of HTTP+SSE, of any message
	kinds
)

// standing reports whether the response is a stream that lasts as long as the session
// and may be quiet for hours.
func (k kind) standing() bool { return k == listen || k == join }

// request has the data for the head of one request.
type request struct {
	kind                     kind
	target                   string // path and query; "" for those of the URL
	id, version, lastEventID string
	header                   []mcp.Header
	content                  []byte
	repeats                  bool          // as in Outgoing
	plain                    bool          // of a standing stream: no coding but identity is acceptable
	jar                      *jar          // the cookies of the session; nil for none
	told                     *[]mcp.Header // as in Outgoing

	firstByte, silence time.Duration // 0 for those of the server
	deadline           time.Time     // for the response's head, even if firstByte ends later; zero for none
}

// heads has the parts of a request's head that are always the same.
type heads struct {
	origin string // precedes each target, for a proxy only
	target string // path and query of the URL
	fixed  [kinds]struct{ method, rest string }
	plain  string   // in the place of rest of a standing stream that must not be compressed
	own    []string // names of the headers from the configuration
	cookie string   // that of them which holds cookies; "" for none
	secure bool     // requests may carry cookies that are for secure connections
}

// newHeads makes the heads of requests to u. via is the proxy that reads the requests,
// or nil if none does.
func newHeads(u *url.URL, header []mcp.Header, via *webProxy) (heads, error) {
	var own strings.Builder
	h := heads{target: u.RequestURI(), secure: u.Scheme == "https"}
	if via != nil {
		// https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2
		h.origin = u.Scheme + "://" + u.Host
		own.WriteString(via.authorization())
	}
	agent := "User-Agent: " + mcp.UserAgent() + "\r\n"
	for _, f := range header {
		if err := checkHeader(f); err != nil {
			return heads{}, err
		}
		if strings.EqualFold(f.Name, "User-Agent") {
			agent = ""
		}
		h.own = append(h.own, f.Name)
		if isCookie(f.Name) { // which is one header, with those of the server
			h.cookie = f.Value
			continue
		}
		own.WriteString(f.Name + ": " + f.Value + "\r\n")
	}
	// The server is often on the same machine, and what decodes an answer takes memory.
	const identity = "Accept-Encoding: identity"
	common := " HTTP/1.1\r\nHost: " + u.Host + "\r\n" + agent + identity + "\r\n" + own.String()
	message := common + "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
	events := common + "Accept: text/event-stream\r\n"
	h.plain = strings.Replace(events, identity, identity+", *;q=0", 1) // which means the same, and some servers understand only this
	h.fixed = [kinds]struct{ method, rest string }{
		call:   {"POST ", message},
		notice: {"POST ", message},
		listen: {"GET ", events},
		end:    {"DELETE ", common},
		join:   {"GET ", events},
		post:   {"POST ", message},
	}
	return h, nil
}

// append appends the head of r to dst. keeps says which cookies of r's jar are sent; nil for none. The error is a *HeaderError.
func (h *heads) append(dst []byte, r request, keeps func(name string) bool) ([]byte, error) {
	dst = append(dst, h.fixed[r.kind].method...)
	dst = append(dst, h.origin...)
	dst = append(dst, cmp.Or(r.target, h.target)...)
	if r.plain {
		dst = append(dst, h.plain...)
	} else {
		dst = append(dst, h.fixed[r.kind].rest...)
	}
	var err error
	field := func(name, value string) {
		if !validValue(value) && err == nil {
			err = &HeaderError{name, "value with a byte that no header may have"}
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	own := func(name, value string) {
		if value != "" {
			field(name, value)
		}
	}
	own("Mcp-Session-Id", r.id)
	own("MCP-Protocol-Version", r.version)
	own("Last-Event-ID", r.lastEventID)
	cookie := h.cookie
	for _, f := range r.header {
		if h.has(f.Name) {
			continue
		}
		if bad := checkHeader(f); bad != nil {
			return dst, bad
		}
		if isCookie(f.Name) {
			cookie = joinCookies(cookie, f.Value)
			continue
		}
		field(f.Name, f.Value)
	}
	dst = r.jar.append(dst, cookie, cmp.Or(r.target, h.target), h.secure, keeps)
	if r.kind == call || r.kind == notice || r.kind == post {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.content)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...), err
}

func isCookie(name string) bool {
	return len(name) == len("Cookie") && strings.EqualFold(name, "Cookie")
}

// joinCookies returns the value of one Cookie header in place of two.
func joinCookies(one, other string) string {
	if one == "" || other == "" {
		return one + other
	}
	return one + "; " + other
}

func (h *heads) has(name string) bool {
	for _, own := range h.own {
		if strings.EqualFold(own, name) {
			return true
		}
	}
	return false
}

// checkHeader returns a *HeaderError for a header that is malformed, or that callers
// may not set.
func checkHeader(f mcp.Header) error {
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
		if len(f.Name) == len(ours) && strings.EqualFold(f.Name, ours) {
			return &HeaderError{f.Name, "belongs to the connection or to the protocol"}
		}
	}
	return nil
}

// reserved are the headers that belong to one connection, and those that describe a
// message.
var reserved = [...]string{
	"TE", "Host", "Accept", "Expect", "Trailer", "Upgrade", "Connection", "Keep-Alive", "Content-Type", "Content-Length",
	"Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Accept-Encoding", "Content-Encoding", "Transfer-Encoding",
	"Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID",
}

func tokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// validValue reports whether a value can be part of a head without ending it.
func validValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
