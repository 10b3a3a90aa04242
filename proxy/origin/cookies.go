package origin

import (
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// keptCookies returns what reports whether a cookie of the server is kept, by upstream.cookies; nil if none is.
func keptCookies(which string) func(name string) bool {
	switch which {
	case config.NoCookies:
		return nil
	case config.AllCookies:
		return func(string) bool { return true }
	}
	return upstream.IsBalancerCookie
}

// keepCookie notes the value of a cookie, which nothing may show.
func (s *Credentials) keepCookie(name, value string) {
	if upstream.IsBalancerCookie(name) {
		s.Cookies.Keep(value)
	} else {
		s.Sent.Keep(value)
	}
}
