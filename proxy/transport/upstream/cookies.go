package upstream

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// learnCookies keeps the cookies of a response, and reports whether there are any to keep: then another response with the same head may
// be for another session.
func (x *exchange) learnCookies(head *fasthttp.ResponseHeader) (some bool) {
	if x.jar == nil || x.http.cookies == nil || head.StatusCode() == fasthttp.StatusProxyAuthRequired {
		return false
	}
	target := x.http.head.target
	if x.kind == post {
		target = x.jar.target()
	}
	for _, line := range head.Cookies() {
		name, _, _ := strings.Cut(string(line), "=")
		if !x.http.cookies(strings.TrimSpace(name)) {
			continue
		}
		some = true
		if c, ok := parseCookie(string(line), x.http.url.Hostname(), target, time.Now()); ok {
			x.http.secret(c.name, c.value)
			x.jar.set(c, x.http.memory)
		}
	}
	return some
}

// parseCookie reads the value of a Set-Cookie header in the response of host to a request for target. It returns false for what is not
// a cookie, is too large, or is not for this host.
func parseCookie(line, host, target string, now time.Time) (c cookie, ok bool) {
	pair, attributes, _ := strings.Cut(line, ";")
	name, value, ok := strings.Cut(pair, "=")
	c.name, c.value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || c.name == "" || !validValue(line) || len(pair) > maxCookie || strings.IndexFunc(c.name, func(r rune) bool { return r > '~' || !tokenByte(byte(r)) }) >= 0 {
		return c, false
	}
	c.path = defaultPath(target)
	var age *time.Time
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, value, _ := strings.Cut(attribute, "=")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "expires":
			if at, ok := cookieDate(value); ok {
				c.expires = at
			}
		case "max-age":
			if at, ok := maxAge(value, now); ok {
				age = &at
			}
		case "domain":
			c.domain = strings.ToLower(strings.TrimPrefix(value, "."))
		case "path":
			if c.path = defaultPath(target); strings.HasPrefix(value, "/") {
				c.path = value
			}
		case "secure":
			c.secure = true
		}
	}
	if age != nil {
		c.expires = *age
	}
	host = strings.ToLower(host)
	if c.domain == host {
		c.domain = ""
	}
	ok = c.domain == "" || strings.HasSuffix(host, "."+c.domain) && net.ParseIP(host) == nil
	return c, ok && len(c.domain)+len(c.path) <= maxCookie
}

// defaultPath returns the path of a cookie that names none.
//
// See https://www.rfc-editor.org/rfc/rfc6265#section-5.1.4.
func defaultPath(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if last := strings.LastIndexByte(path, '/'); last > 0 {
		return path[:last]
	}
	return "/"
}

// maxAge returns the end of a cookie with this Max-Age.
func maxAge(value string, now time.Time) (at time.Time, ok bool) {
	if digits := strings.TrimPrefix(value, "-"); digits == "" || strings.Trim(digits, "0123456789") != "" {
		return at, false
	}
	const most = 400 * 24 * 60 * 60 // s, which is longer than any session
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case value[0] == '-' || n == 0 && err == nil:
		return time.Unix(1, 0), true
	case err != nil || n > most:
		n = most
	}
	return now.Add(time.Duration(n) * time.Second), true
}

// cookieDate reads the dates that servers write.
func cookieDate(value string) (at time.Time, ok bool) {
	at, err := http.ParseTime(value)
	if err != nil {
		at, err = time.Parse("Mon, 02-Jan-2006 15:04:05 MST", value)
	}
	return at, err == nil
}

// Cookies returns the cookies of the session as a text of at most max bytes, for [HTTPSession.AddCookies]. Those of balancers come first,
// and of the others as many as there is room for. They are secrets.
func (s *HTTPSession) Cookies(max int) string { return s.cookies.text(max) }

// AddCookies adds cookies that [HTTPSession.Cookies] has returned, in another process.
func (s *HTTPSession) AddCookies(text string) {
	if h := s.http.latest(); text != "" && h.cookies != nil {
		s.cookies.add(text, h.memory, h.secret)
	}
}

// ShareCookies makes s, in which nothing was sent, have the cookies of o from now on, and o those of s: one session replaces the other.
func (s *HTTPSession) ShareCookies(o *HTTPSession) { s.cookies = o.cookies }
