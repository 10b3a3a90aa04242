package downstream

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/samehead"
)

// checkPeer checks the Host and Origin of a request. Values that were allowed on a
// connection are not checked again there.
func (h *HTTP) checkPeer(header *fasthttp.RequestHeader, c *conn) *refusal {
	g := h.guests.Load()
	if c.guests != g { // what was allowed may no longer be
		c.guests, c.host, c.origin = g, "", ""
	}
	host := header.Host()
	switch {
	case len(host) > 0 && string(c.host) == string(host):
	case c.onSocket() && (len(host) > 0 || !header.IsHTTP11()): // no name leads there, so none can be rebound
		c.host = recent(host)
	case len(host) == 0:
		return noHost
	case g.hosts.allowsHost(string(host), c.LocalAddr()), h.cfg.Exposed && isAddress(string(host)):
		c.host, c.origin = recent(host), ""
	default:
		return badHost.naming(host)
	}
	origin := header.Peek(fasthttp.HeaderOrigin) // checkOnce refuses a second one
	switch {
	case len(origin) == 0 && len(header.PeekAll(fasthttp.HeaderOrigin)) == 0:
	case string(c.origin) == string(origin) && len(origin) > 0:
	case g.hosts.allowsOrigin(string(origin), c.LocalAddr()), g.pages.has(origin),
		h.cfg.Exposed && isAddress(string(host)) && isOriginOf(string(host), string(origin)):
		c.origin = recent(origin)
	default:
		return badOrigin.naming(origin)
	}
	return nil
}

// onSocket reports whether a connection came in at a unix socket.
func (c *conn) onSocket() bool {
	_, is := c.LocalAddr().(*net.UnixAddr)
	return is
}

// once are headers on which dragoman acts, with those whose names begin with mcpPrefix and those of the configuration. Readers differ
// in which of two they take, so that a request with two could be checked by one and served by the other. fasthttp refuses a second
// Host, Content-Length and Transfer-Encoding.
var once = [...]string{
	fasthttp.HeaderAuthorization, sessionHeader, "MCP-Protocol-Version", "Last-Event-ID", tokenHeader,
	fasthttp.HeaderOrigin, fasthttp.HeaderContentType, fasthttp.HeaderContentEncoding,
}

const mcpPrefix = "Mcp-"

// twice returns the name of a header on which dragoman acts and that occurs twice in a head, or "" if there is none. fields are the
// lines of the head.
func (h *HTTP) twice(fields []byte) string {
	var room [16][]byte
	var more [8]string
	further, names := append(append(more[:0], h.cfg.Principal()), h.guests.Load().once...), room[:0]
	for line := range bytes.Lines(fields) {
		if name, _, ok := bytes.Cut(line, []byte{':'}); ok && onceName(name, further) != "" {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, compareNames)
	for i := 1; i < len(names); i++ {
		if bytes.EqualFold(names[i-1], names[i]) {
			return onceName(names[i-1], further)
		}
	}
	return ""
}

// checkOnce refuses a request in which a header occurs twice that may occur only once. If that repeats a part of the message, the
// handler refuses the request, since the response names the message.
func (h *HTTP) checkOnce(ctx *fasthttp.RequestCtx, c *conn, path []byte) *refusal {
	name := h.twice(ctx.Request.Header.RawHeaders())
	if c.twice = ""; name == "" {
		return nil
	}
	if ofMessage := len(name) > len(mcpPrefix) && strings.EqualFold(name[:len(mcpPrefix)], mcpPrefix) && name != sessionHeader; !ofMessage || !ctx.IsPost() || string(path) != h.cfg.Path {
		return saidTwice.with(name)
	}
	c.twice = name
	return nil
}

// onceName returns how to spell the name of a header that may occur only once, or "" if it may occur more often.
func onceName(name []byte, further []string) string {
	is := func(s string) bool { return len(s) == len(name) && strings.EqualFold(s, string(name)) }
	if i := slices.IndexFunc(once[:], is); i >= 0 {
		return once[i]
	}
	if i := slices.IndexFunc(further, is); i >= 0 {
		return further[i]
	}
	if len(name) > len(mcpPrefix) && strings.EqualFold(string(name[:len(mcpPrefix)]), mcpPrefix) {
		return string(name[:min(len(name), maxShown)])
	}
	return ""
}

// compareNames compares names of headers without case.
func compareNames(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Compare(lower(a[i]), lower(b[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// checkFraming refuses a request for which two readers may find different headers or different ends, and closes the
// connection after the response. fasthttp accepts a coding that has not been one since RFC 7230, a length beside chunks,
// names with a space, and a head that ends in LF LF if there is a CRLF CRLF in what follows. It also does not see that a client closes the connection after the request, unless the header says
// "close" and nothing else. See https://www.rfc-editor.org/rfc/rfc9112#section-6.3 and sections 5.1 and 9.6 there.
func checkFraming(ctx *fasthttp.RequestCtx) (r *refusal) {
	header := &ctx.Request.Header
	inChunks := header.ContentLength() == -1
	if raw := header.RawHeaders(); len(raw) > 0 && !bytes.HasSuffix(raw, []byte("\r\n\r\n")) {
		ctx.SetConnectionClose()
		return badEnd
	}
	for line := range bytes.Lines(header.RawHeaders()) {
		name, value, ok := bytes.Cut(line, []byte{':'})
		switch {
		case !ok || bytes.HasPrefix(name, []byte{' '}) || bytes.HasPrefix(name, []byte{'\t'}): // the end, or more of the value before it
		case bytes.IndexByte(name, ' ') >= 0:
			r = badName
		case inChunks && strings.EqualFold(string(name), fasthttp.HeaderContentLength):
			r = twoLengths
		case !inChunks && strings.EqualFold(string(name), fasthttp.HeaderTransferEncoding):
			r = badCoding
		case strings.EqualFold(string(name), fasthttp.HeaderConnection) && samehead.Lists(value, "close"):
			ctx.SetConnectionClose()
		}
		if r != nil {
			ctx.SetConnectionClose()
			return r
		}
	}
	return nil
}

// checkPost checks the type of a POST's body and the types that its client accepts.
func checkPost(header *fasthttp.RequestHeader, c *conn) *refusal {
	if r := checkContent(header); r != nil {
		return r
	}
	accept := header.Peek(fasthttp.HeaderAccept)
	if string(c.accept) == string(accept) && len(accept) > 0 {
		return nil
	}
	fields := header.PeekAll(fasthttp.HeaderAccept)
	if !admits(fields, "application", "json") || !admits(fields, "text", "event-stream") {
		return badAccept
	}
	if len(fields) == 1 {
		c.accept = recent(accept)
	}
	return nil
}

func checkContent(header *fasthttp.RequestHeader) *refusal {
	mediaType, _, _ := bytes.Cut(header.ContentType(), []byte{';'})
	if !strings.EqualFold(string(bytes.TrimSpace(mediaType)), "application/json") {
		return badType
	}
	encoding := header.ContentEncoding()
	if len(encoding) > 0 && !strings.EqualFold(string(encoding), "identity") {
		return badEncoding
	}
	return nil
}

func checkGet(header *fasthttp.RequestHeader) *refusal {
	if !admits(header.PeekAll(fasthttp.HeaderAccept), "text", "event-stream") {
		return badListen
	}
	return nil
}

// admits reports whether the Accept headers admit a media type. No header
// admits everything; of several ranges the most specific one decides.
//
// See https://www.rfc-editor.org/rfc/rfc9110#section-12.5.1.
func admits(fields [][]byte, major, minor string) bool {
	best, good := bestRange(fields, major, minor)
	return best == noRange || good
}

// names reports whether the Accept headers admit a media type by its name. A range such as */* does not name it.
func names(fields [][]byte, major, minor string) bool {
	best, good := bestRange(fields, major, minor)
	return best == named && good
}

const (
	noRange = -2 // there is no media range at all
	named   = 2  // the range is the media type itself
)

// bestRange returns how specific the range of the Accept headers is that decides about a media type, and whether it admits it.
func bestRange(fields [][]byte, major, minor string) (best int, good bool) {
	best = noRange
	for _, field := range fields {
		for len(field) > 0 {
			var item []byte
			item, field, _ = bytes.Cut(field, []byte{','})
			mediaRange, params, _ := bytes.Cut(item, []byte{';'})
			a, b, _ := bytes.Cut(bytes.TrimSpace(mediaRange), []byte{'/'})
			if len(a) == 0 {
				continue
			}
			best = max(best, -1)
			rank := -1
			switch {
			case bytes.EqualFold(a, []byte(major)) && bytes.EqualFold(b, []byte(minor)):
				rank = named
			case bytes.EqualFold(a, []byte(major)) && string(b) == "*":
				rank = 1
			case string(a) == "*" && string(b) == "*":
				rank = 0
			}
			switch wanted := !refused(params); {
			case rank > best:
				best, good = rank, wanted
			case rank == best && rank >= 0:
				good = good || wanted
			}
		}
	}
	return best, good
}

// refused reports whether the parameters of a media range hold a weight of 0.
func refused(params []byte) bool {
	for len(params) > 0 {
		var param []byte
		param, params, _ = bytes.Cut(params, []byte{';'})
		name, value, _ := bytes.Cut(param, []byte{'='})
		if strings.EqualFold(string(bytes.TrimSpace(name)), "q") {
			value = bytes.TrimSpace(value)
			return len(value) > 0 && len(bytes.Trim(value, "0.")) == 0
		}
	}
	return false
}

// badRequest answers what fasthttp could not read as a request. It does not send err,
// which may quote a header.
func (h *HTTP) badRequest(ctx *fasthttp.RequestCtx, err error) {
	r := h.unread(err)
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger = r.status != fasthttp.StatusRequestTimeout
	}
	refuse(ctx, r, h.cfg.WithoutID)
}

// unread returns the refusal of a request that could not be read because of err.
func (h *HTTP) unread(err error) *refusal {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	switch {
	case errors.As(err, &small):
		return headersTooLarge.with(h.cfg.MaxHeader)
	case errors.As(err, &timeout) && timeout.Timeout():
		return tooSlow.with(h.cfg.ReadTimeout)
	case errors.Is(err, errBareEnd):
		return badEnd
	case errors.Is(err, errTLS):
		return spokeTLS
	}
	return notHTTP
}

// checkToken checks the token of a request, if one is needed, and asks the client for one in the response.
//
// See https://www.rfc-editor.org/rfc/rfc6750 for both headers.
func (h *HTTP) checkToken(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	r := h.readToken(&ctx.Request.Header, c)
	if r != nil && r.status == fasthttp.StatusUnauthorized {
		challenge := "Bearer"
		if r == badToken {
			challenge = `Bearer error="invalid_token"`
		}
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, challenge)
	}
	return r
}

// readToken stores the hash of a request's token in c, if one is needed. A token in
// Authorization, as Bearer or bare, is for the listener and not for the server: readToken removes it. Beside
// another one it would reach the server, so that readToken refuses it.
func (h *HTTP) readToken(header *fasthttp.RequestHeader, c *conn) *refusal {
	g := h.guests.Load()
	c.guest, c.known = [sha256.Size]byte{}, len(g.tokens) > 0
	if !c.known {
		return nil
	}
	var ok bool
	var own []byte
	n, authorization := 0, header.Peek(fasthttp.HeaderAuthorization)
	for _, name := range [...]string{tokenHeader, g.tokenHeader} {
		if name == "" {
			break
		}
		if all := header.PeekAll(name); len(all) > 0 {
			own, n = all[0], n+len(all)
		}
	}
	if n > 0 {
		switch c.guest, ok = g.tokens.has(own); {
		case n > 1:
			return tokenTwice
		case !ok:
			return badToken
		case g.tokens.within(authorization):
			return tokenTwice
		}
		header.Del(g.tokenHeader)
		return nil
	}
	if len(header.PeekAll(fasthttp.HeaderAuthorization)) == 0 {
		return noToken.with(cmp.Or(g.tokenHeader, tokenHeader))
	}
	scheme, token, _ := bytes.Cut(authorization, []byte{' '})
	if !strings.EqualFold(string(scheme), "Bearer") {
		token = authorization
	}
	if c.guest, ok = g.tokens.has(bytes.TrimSpace(token)); !ok {
		return badToken
	}
	header.Del(fasthttp.HeaderAuthorization)
	return nil
}

// guestName identifies the token of the current request; "" if none is needed.
func (c *conn) guestName() string {
	if !c.known {
		return ""
	}
	return hex.EncodeToString(c.guest[:])
}

// dropToken removes a token of the listener from a request.
func (h *HTTP) dropToken(header *fasthttp.RequestHeader) {
	g := h.guests.Load()
	header.Del(g.tokenHeader)
	if g.tokens.within(header.Peek(fasthttp.HeaderAuthorization)) {
		header.Del(fasthttp.HeaderAuthorization)
	}
}
