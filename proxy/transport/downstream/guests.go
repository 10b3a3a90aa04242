package downstream

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
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

// isAddress reports whether host, with a port or without, is an IP address. A browser sends no address for a name, so that an attacker
// cannot rebind a name to it.
func isAddress(host string) bool {
	name, ok := hostName(host)
	_, err := netip.ParseAddr(name)
	return ok && err == nil
}

// isOriginOf reports whether origin is that of pages at host.
func isOriginOf(host, origin string) bool {
	scheme, at, _ := strings.Cut(strings.ToLower(origin), "://")
	return (scheme == "http" || scheme == "https") && strings.EqualFold(at, host)
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

// tokenList has the hashes of the valid tokens. They have equal length, so that they
// can be compared in constant time.
type tokenList [][sha256.Size]byte

func newTokenList(tokens []string) tokenList {
	var l tokenList
	for _, t := range tokens {
		l = append(l, sha256.Sum256([]byte(t)))
	}
	return l
}

// has reports whether a token is valid, and returns its hash.
func (l tokenList) has(token []byte) (sum [sha256.Size]byte, ok bool) {
	sum = sha256.Sum256(token)
	found := 0
	for i := range l {
		found |= subtle.ConstantTimeCompare(l[i][:], sum[:])
	}
	return sum, found == 1 && len(token) > 0
}

// within reports whether the value of a header, or a part of it behind a comma, is a valid token, with a scheme before it or not.
func (l tokenList) within(value []byte) bool {
	parts := append([][]byte{value}, bytes.Split(value, []byte{','})...)
	return slices.ContainsFunc(parts, func(part []byte) bool {
		part = bytes.TrimSpace(part)
		_, behind, _ := bytes.Cut(part, []byte{' '})
		_, whole := l.has(part)
		_, token := l.has(bytes.TrimSpace(behind))
		return whole || token
	})
}

// pages are the origins of the web pages that may call dragoman. See
// https://fetch.spec.whatwg.org/#http-cors-protocol.
type pages []string

// has reports whether pages of this origin may call.
func (p pages) has(origin []byte) bool {
	return slices.ContainsFunc(p, func(s string) bool { return s == "*" || strings.EqualFold(s, string(origin)) })
}

// pageReads are the headers of responses that pages may read in any case.
const pageReads = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"

// Renewable is the part of an HTTPConfig that can be changed while connections are
// open.
type Renewable struct {
	AllowedHosts []string
	Tokens       []string
	TokenHeader  string
	Pages        []string
	PageHeaders  []string
	PageReads    []string
	Once         []string
	Heartbeat    time.Duration
}

// guests says which requests are admitted.
type guests struct {
	hosts  hostList
	tokens tokenList
	pages  pages

	tokenHeader string   // that may hold a token, too; "" for none
	pageHeaders []string // that pages may send, too
	pageReads   string   // names of the headers that they may read
	once        []string // headers that may occur only once
}

// Renew replaces these parts of the configuration by r, for every request from now on,
// on open connections as well. A stream that was opened with a token goes on if the
// token is removed, and its next heartbeat still comes at the old time. Renew may be
// called at any time.
func (h *HTTP) Renew(r Renewable) {
	g := &guests{hosts: newHostList(r.AllowedHosts), tokens: newTokenList(r.Tokens), tokenHeader: r.TokenHeader, pages: r.Pages, pageHeaders: r.PageHeaders, pageReads: strings.Join(append([]string{pageReads}, r.PageReads...), ", "), once: r.Once}
	if r.TokenHeader != "" {
		g.pageHeaders, g.once = append(slices.Clip(r.PageHeaders), r.TokenHeader), append(slices.Clip(r.Once), r.TokenHeader)
	}
	h.guests.Store(g)
	h.heartbeat.ns.Store(int64(r.Heartbeat))
}

// heartbeat is how long a stream may be silent before a comment is sent; 0 for ever.
type heartbeat struct{ ns atomic.Int64 }

func (b *heartbeat) after() time.Duration { return time.Duration(b.ns.Load()) }

// GuestOf returns the [Request.Guest] of requests with a token.
func GuestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
