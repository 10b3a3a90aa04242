package file

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// isWord reports whether s consists of ASCII letters, digits and the ASCII characters in more, and is not empty.
func isWord[T string | []byte](s T, more string) bool {
	for i := range len(s) {
		if c := s[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return len(s) > 0
}

// isParamName: ^[A-Za-z][A-Za-z0-9_-]*$
func isParamName[T string | []byte](s T) bool { return isWord(s, "_-") && s[0]|0x20 >= 'a' }

// IsCallable reports whether s can be the name of an operation, or of its tool.
func IsCallable[T string | []byte](s T) bool { return isWord(s, "_-") && s[0] != '-' }

// IsSnake reports whether s is in snake_case: ^[a-z][a-z0-9_]*$
func IsSnake[T string | []byte](s T) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return len(s) > 0
}

// isAdapterName: ^[a-z][a-z0-9-]{0,62}[a-z0-9]$
func isAdapterName(s string) bool {
	return len(s) >= 2 && len(s) <= 64 && isWord(s, "-") && s == strings.ToLower(s) && s[0] >= 'a' && s[len(s)-1] != '-'
}

// isEnvName: ^[A-Za-z_][A-Za-z0-9_]*$
func isEnvName(s string) bool { return isWord(s, "_") && (s[0] < '0' || s[0] > '9') }

// reserved are the names of the specification's own operations.
var reserved = []string{"introspect", "execute_agent", "record_execution_step", "complete_execution", "abort_execution", "confirm_operation", "verify_challenge"}

// forbiddenHeaders belong to the transport or to auth.
var forbiddenHeaders = []string{"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "cookie", "authorization"}

// IsForbiddenHeader reports whether a parameter must not be sent in the header of that name.
func IsForbiddenHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(forbiddenHeaders, name) || strings.HasPrefix(name, "proxy-")
}

// IsToken reports whether s is a token as HTTP defines it for the names of headers:
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func IsToken(s string) bool { return isWord(s, "!#$%&'*+-.^_`|~") }

// IsCredentialHeader reports whether a credential may be sent in the header of that name.
func IsCredentialHeader(name string) bool {
	return IsToken(name) && (strings.EqualFold(name, "authorization") || !IsForbiddenHeader(name))
}

// IsHeaderValue reports whether v has no control characters, with which it could start another
// header.
func IsHeaderValue[T string | []byte](v T) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func isHost(h string) bool {
	if strings.Contains(h, ":") {
		a, err := netip.ParseAddr(h)
		return err == nil && a.Zone() == ""
	}
	return isWord(h, "-._") && len(h) <= 253
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	p, err := strconv.Atoi(u.Port())
	return err == nil && p > 0 && p < 1<<16
}

// isLocalHost reports whether h is a name or address of this machine.
func isLocalHost(h string) bool {
	h = strings.ToLower(h)
	if h == "localhost" || strings.HasSuffix(h, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(h)
	return err == nil && a.IsLoopback()
}

// OriginOf returns scheme, host and port of u, always with a port.
func OriginOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// splitPath splits a dotted path. It returns nil for "".
func splitPath(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}
