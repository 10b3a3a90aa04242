package config

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// validateAddress checks that addr is host:port. port is the usual one.
func validateAddress(all *setting.Mistakes, path, addr, port string) {
	switch {
	case unixsocket.Is(addr):
		all.Addf(path, "%q is not host:port; only listen may be a unix socket", addr)
		return
	case strings.Contains(addr, "$("):
		name, _, _ := strings.Cut(addr[strings.Index(addr, "$(")+2:], ")")
		all.Addf(path, "%q holds $(%s), which Kubernetes has not replaced; the container's env must set %[2]s before the variable that uses it", addr, name)
		return
	}
	if _, port, err := net.SplitHostPort(addr); err == nil && !strings.Contains(addr, "://") {
		_, err := net.LookupPort("tcp", port) // a number, or the name of a service
		switch {
		case err == nil:
		case strings.Trim(port, "0123456789") == "":
			all.Addf(path, "%q has a port above 65535", addr)
		default:
			all.Addf(path, "%q: there is no port %q; write host:port, such as 127.0.0.1:8808", addr, port)
		}
		return
	}
	hint := "; write host:port, such as 127.0.0.1:" + port
	if meant := meantAddress(addr, port); meant != "" {
		hint = "; did you mean " + meant + "?"
	}
	all.Addf(path, "%q is not host:port%s", addr, hint)
}

// lastPart matches an address whose last part may be a port.
var lastPart = pattern.Later(`^(.+):([0-9]{2,5})$`)

// meantAddress returns the host:port that a text probably means, with port if it has none; "" if that is not clear.
func meantAddress(text, port string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return "127.0.0.1:" + text
	}
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text, _, _ = strings.Cut(rest, "/")
		if strings.Contains(text, "@") {
			return ""
		}
		if _, _, err := net.SplitHostPort(text); err == nil {
			return text
		}
	}
	if parts := lastPart().FindStringSubmatch(text); parts != nil {
		if at, err := netip.ParseAddr(strings.Trim(parts[1], "[]")); err == nil && at.Is6() {
			return net.JoinHostPort(at.String(), parts[2])
		}
	}
	if at, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return net.JoinHostPort(at.String(), port)
	}
	if strings.ContainsAny(text, " :/[]") || text == "" {
		return ""
	}
	return net.JoinHostPort(text, port)
}

// Quoted reports whether the first word of a command is a whole command line, which quotes have made one argument.
func (u *Upstream) Quoted() bool {
	first := u.Command[0]
	words := strings.Fields(first)
	if len(words) < 2 {
		return false
	}
	if _, err := exec.LookPath(first); err == nil {
		return false
	}
	if _, err := os.Stat(filepath.Join(u.Dir, first)); err == nil {
		return false
	}
	_, err := exec.LookPath(words[0])
	return err == nil
}

// isPort reports whether a port of a URL, "" for the usual one, exists.
func isPort(port string) bool {
	_, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil
}
