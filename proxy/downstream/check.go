package downstream

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// hostList has the hosts and origins that a request may name.
type hostList struct {
	any            bool
	hosts, origins map[string]struct{}
}

func newHostList(allowed []string) hostList {
	l := hostList{hosts: make(map[string]struct{}), origins: make(map[string]struct{})}
	for _, s := range allowed {
		s = strings.ToLower(s)
		switch {
		case s == "*":
			l.any = true
		case strings.Contains(s, "://"):
			l.origins[s] = struct{}{}
		default:
			l.hosts[s] = struct{}{}
		}
	}
	return l
}

// allowsHost reports whether a request may name host, which is "name", "name:port" or
// has an address in place of the name. local is the address at which the connection
// came in.
//
// In an attack by DNS rebinding, the browser sends the attacker's name; addresses
// cannot be rebound.
func (l *hostList) allowsHost(host string, local net.Addr) bool {
	if l.any {
		return true
	}
	name, ok := hostName(host)
	if !ok {
		return false
	}
	name = strings.ToLower(name)
	if _, ok := l.hosts[name]; ok || name == "localhost" {
		return true
	}
	if _, ok := l.hosts[strings.ToLower(host)]; ok {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if addr.Unmap().IsLoopback() {
		return true
	}
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.AddrPort().Addr().Unmap().WithZone("") == addr.Unmap()
}

// allowsOrigin reports whether a request may come from origin, which is "scheme://host"
// or "scheme://host:port".
func (l *hostList) allowsOrigin(origin string, local net.Addr) bool {
	if l.any {
		return true
	}
	origin = strings.ToLower(origin)
	if _, ok := l.origins[origin]; ok {
		return true
	}
	scheme, host, ok := strings.Cut(origin, "://")
	return ok && (scheme == "http" || scheme == "https") && l.allowsHost(host, local)
}

// hostName returns host without the port, and without the brackets of an IPv6 address.
func hostName(host string) (name string, ok bool) {
	var port string
	if inner, found := strings.CutPrefix(host, "["); found {
		if name, port, ok = strings.Cut(inner, "]"); !ok {
			return "", false
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		name, port = host[:i], host[i:]
	} else {
		name = host
	}
	if port == "" {
		return name, name != ""
	}
	return name, name != "" && len(port) > 1 && port[0] == ':' && strings.Trim(port[1:], "0123456789") == ""
}

// checkPeer checks the Host and Origin of a request. Values that were allowed on a
// connection are not checked again there.
func (h *HTTP) checkPeer(header *fasthttp.RequestHeader, c *conn) *refusal {
	g := h.guests.Load()
	if c.guests != g { // what was allowed may no longer be
		c.guests, c.host, c.origin = g, "", ""
	}
	host := header.Host()
	switch {
	case len(host) == 0:
		return noHost
	case string(c.host) == string(host):
	case g.hosts.allowsHost(string(host), c.LocalAddr()):
		c.host = recent(host)
	default:
		return badHost
	}
	origin := header.Peek(fasthttp.HeaderOrigin)
	if origins := header.PeekAll(fasthttp.HeaderOrigin); len(origins) > 1 {
		return saidTwice.with(fasthttp.HeaderOrigin)
	}
	switch {
	case len(origin) == 0 && len(header.PeekAll(fasthttp.HeaderOrigin)) == 0:
	case string(c.origin) == string(origin) && len(origin) > 0:
	case g.hosts.allowsOrigin(string(origin), c.LocalAddr()), g.pages.has(origin):
		c.origin = recent(origin)
	default:
		return badOrigin
	}
	return nil
}

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// once are the headers of which the server might read another occurrence than dragoman
// does. The headers that repeat a message of a revision without sessions are checked
// together with the message.
var once = [...]string{fasthttp.HeaderAuthorization, sessionHeader, "Last-Event-Id", fasthttp.HeaderContentEncoding}

// checkOnce refuses a request in which one of these headers occurs twice.
func (h *HTTP) checkOnce(header *fasthttp.RequestHeader) *refusal {
	for _, name := range once {
		if len(header.PeekAll(name)) > 1 {
			return saidTwice.with(name)
		}
	}
	if name := h.onceName(); name != "" && len(header.PeekAll(name)) > 1 {
		return saidTwice.with(name)
	}
	return nil
}

// onceName returns the name of a further header that may occur only once, or "".
func (h *HTTP) onceName() string {
	if h.cfg.Once == nil {
		return ""
	}
	return h.cfg.Once()
}

// checkFraming refuses a request for which two readers may find different ends, and
// closes the connection after the response. See
// https://www.rfc-editor.org/rfc/rfc9112#section-6.3.
func checkFraming(ctx *fasthttp.RequestCtx) *refusal {
	header := &ctx.Request.Header
	if header.ContentLength() != -1 { // no chunks: fasthttp keeps no length beside them
		return nil
	}
	for line := range bytes.Lines(header.RawHeaders()) {
		if name, _, ok := bytes.Cut(line, []byte{':'}); ok && strings.EqualFold(string(name), fasthttp.HeaderContentLength) {
			ctx.SetConnectionClose()
			return twoLengths
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
	silent := true
	best, good := -1, false
	for _, field := range fields {
		for len(field) > 0 {
			var item []byte
			item, field, _ = bytes.Cut(field, []byte{','})
			mediaRange, params, _ := bytes.Cut(item, []byte{';'})
			a, b, _ := bytes.Cut(bytes.TrimSpace(mediaRange), []byte{'/'})
			if len(a) == 0 {
				continue
			}
			silent = false
			rank := -1
			switch {
			case bytes.EqualFold(a, []byte(major)) && bytes.EqualFold(b, []byte(minor)):
				rank = 2
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
	return silent || good
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
	var timeout net.Error
	switch {
	case isType[*fasthttp.ErrSmallBuffer](err):
		return headersTooLarge.with(h.cfg.MaxHeader)
	case errors.As(err, &timeout) && timeout.Timeout():
		return tooSlow.with(h.cfg.ReadTimeout)
	}
	return notHTTP
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
