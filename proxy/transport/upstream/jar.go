package upstream

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
)

// What is kept of the cookies of one session: RFC 6265 asks user agents for 50 cookies of a host and 4096 bytes of each, and most
// servers refuse a head with more than 8 KiB of them.
const (
	maxCookies     = 50
	maxCookie      = 4 << 10 // bytes of one
	maxCookieBytes = 8 << 10 // bytes of all
)

// IsBalancerCookie reports whether a load balancer finds the server of a session again by a cookie of this name. Such a cookie says
// nothing of the user.
func IsBalancerCookie(name string) bool {
	switch name {
	case "GCLB", "__cf_bm", "__cflb", "SERVERID", "route":
		return true
	}
	return strings.HasPrefix(name, "AWSALB") || strings.HasPrefix(name, "ARRAffinity")
}

// A cookie is what a server has set.
type cookie struct {
	name, value string
	domain      string    // "" for the server's host alone
	path        string    // begins with /
	expires     time.Time // zero for the end of the session
	secure      bool
}

func (c *cookie) size() int { return len(c.name) + len(c.value) + len(c.domain) + len(c.path) }

func (c *cookie) expired(now time.Time) bool { return !c.expires.IsZero() && !now.Before(c.expires) }

// goesTo reports whether the cookie is sent with a request for this path.
func (c *cookie) goesTo(path string) bool {
	rest, ok := strings.CutPrefix(path, c.path)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(c.path, "/"))
}

// A jar has the cookies of one session with a server, for that server alone. A balancer sets its cookie with each response, so
// the cookie that was set longest ago goes first if there are too many.
//
// See https://www.rfc-editor.org/rfc/rfc6265#section-5.
type jar struct {
	some atomic.Bool // there are cookies

	mu     sync.Mutex
	list   []cookie // in the order in which they were set last
	counts *large.Holding
	posts  string // path and query for messages over HTTP+SSE; "" for those of the URL
}

// set keeps c in place of the same one from before, or removes that if c has expired. Without memory for all, none is kept.
func (j *jar) set(c cookie, memory *large.Memory) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = slices.DeleteFunc(j.list, func(o cookie) bool {
		return o.expired(now) || o.name == c.name && o.domain == c.domain && o.path == c.path
	})
	if !c.expired(now) {
		j.list = append(j.list, c)
	}
	size := 0
	for i := range j.list {
		size += j.list[i].size()
	}
	for len(j.list) > maxCookies || size > maxCookieBytes {
		size -= j.list[0].size()
		j.list = slices.Delete(j.list, 0, 1)
	}
	if j.counts == nil {
		j.counts = memory.Holding()
	}
	if j.counts.Resize(size) != nil {
		j.list = nil
		j.counts.Resize(0) //nolint:errcheck // less always fits
	}
	j.some.Store(len(j.list) > 0)
}

// append appends the Cookie header of a request for target, if there is anything to send: given, which the caller sends, and behind it
// those cookies that keeps allows and given does not name. j and keeps may be nil.
func (j *jar) append(dst []byte, given, target string, secure bool, keeps func(name string) bool) []byte {
	const name = "Cookie: "
	own := j != nil && keeps != nil && j.some.Load()
	if given == "" && !own {
		return dst
	}
	begin := len(dst)
	dst = append(append(dst, name...), given...)
	if own {
		now := time.Now()
		path, _, _ := strings.Cut(target, "?")
		j.mu.Lock()
		for i := range j.list {
			c := &j.list[i]
			if c.expired(now) || c.secure && !secure || !c.goesTo(path) || !keeps(c.name) || hasCookie(given, c.name) {
				continue
			}
			if len(dst) > begin+len(name) {
				dst = append(dst, "; "...)
			}
			dst = append(append(append(dst, c.name...), '='), c.value...)
		}
		j.mu.Unlock()
	}
	if len(dst) == begin+len(name) {
		return dst[:begin]
	}
	return append(dst, "\r\n"...)
}

// hasCookie reports whether the value of a Cookie header names a cookie.
func hasCookie(header, name string) bool {
	for pair := range strings.SplitSeq(header, ";") {
		if is, _, _ := strings.Cut(pair, "="); strings.TrimSpace(is) == name {
			return true
		}
	}
	return false
}

// postTo says where messages over HTTP+SSE go.
func (j *jar) postTo(target string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.posts = target
}

// target returns path and query of a message over HTTP+SSE.
func (j *jar) target() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.posts
}

// The fields of a cookie in the text of a jar are separated by fieldEnd, cookies by cookieEnd. No cookie has these bytes.
const (
	fieldEnd  = "\x00"
	cookieEnd = "\n"
)

// text returns the cookies as a text of at most max bytes, for add. Those of balancers come first, and of the others as many as there is
// room for.
func (j *jar) text(max int) string {
	if !j.some.Load() {
		return ""
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var out strings.Builder
	for _, balancers := range []bool{true, false} {
		for i := range j.list {
			c := &j.list[i]
			if IsBalancerCookie(c.name) != balancers || c.expired(time.Now()) {
				continue
			}
			expires, secure := "", ""
			if !c.expires.IsZero() {
				expires = strconv.FormatInt(c.expires.Unix(), 36)
			}
			if c.secure {
				secure = "s"
			}
			text := strings.Join([]string{c.name, c.value, c.domain, c.path, expires, secure}, fieldEnd)
			if out.Len() > 0 {
				text = cookieEnd + text
			}
			if out.Len()+len(text) <= max {
				out.WriteString(text)
			}
		}
	}
	return out.String()
}

// add adds the cookies of a text. secret is called with each of them.
func (j *jar) add(text string, memory *large.Memory, secret func(name, value string)) {
	for line := range strings.SplitSeq(strings.Clone(text), cookieEnd) {
		f := strings.Split(line, fieldEnd)
		if len(f) != 6 {
			continue
		}
		c := cookie{name: f[0], value: f[1], domain: f[2], path: f[3], secure: f[5] != ""}
		if n, err := strconv.ParseInt(f[4], 36, 64); err == nil {
			c.expires = time.Unix(n, 0)
		}
		secret(c.name, c.value)
		j.set(c, memory)
	}
}
