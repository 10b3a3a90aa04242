package oauth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/children"
)

const (
	callbackHeader  = 16 << 10
	callbackTimeout = 10 * time.Second
	maxPasted       = 16 << 10
)

// Callback is the URL on this machine to which a browser returns after a login.
type Callback struct {
	URL string
	ln  net.Listener
}

// Listen listens at redirect, an http URL of this machine; port 0 takes a free one.
func Listen(redirect string) (*Callback, error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return nil, err
	}
	port := cmp.Or(u.Port(), "80")
	ln, err := net.Listen("tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen at %s, where the browser returns after the login: %w", redirect, err)
	}
	if port == "0" {
		_, free, _ := net.SplitHostPort(ln.Addr().String())
		u.Host = net.JoinHostPort(u.Hostname(), free)
	}
	u.Path = cmp.Or(u.Path, "/")
	return &Callback{URL: u.String(), ln: ln}, nil
}

// Close stops listening.
func (c *Callback) Close() { c.ln.Close() }

// Wait returns the query with which the browser returns from the login with state. Other
// requests get 404.
func (c *Callback) Wait(ctx context.Context, state string) (url.Values, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	brought := make(chan url.Values, 1)
	srv := &http.Server{
		ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout, MaxHeaderBytes: callbackHeader,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != cmp.Or(u.Path, "/") || !IsLoopback(r.Host) || !hasState(r.URL.Query(), state) {
				http.NotFound(w, r)
				return
			}
			select {
			case brought <- r.URL.Query():
			default: // one answer is enough
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.Header().Set("Cache-Control", "no-store")
			fmt.Fprintln(w, "dragoman has the answer. This page can be closed.")
		}),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(c.ln) }()
	select {
	case q := <-brought:
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = srv.Shutdown(end) // the browser gets the whole page
		<-ended
		return q, nil
	case <-ctx.Done():
		srv.Close()
		<-ended
		return nil, ctx.Err()
	case err := <-ended:
		return nil, err
	}
}

// IsInUse reports whether an address cannot be listened at because it is in use.
func IsInUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || err != nil && strings.Contains(err.Error(), "Only one usage of each socket address")
}

// SamePort reports whether address, HOST:PORT, has the port of the listener at.
func SamePort(address string, at net.Addr) bool {
	_, port, err := net.SplitHostPort(address)
	tcp, ok := at.(*net.TCPAddr)
	return err == nil && ok && port == strconv.Itoa(tcp.Port)
}

// IsLoopback reports whether host, with or without a port, is localhost or a loopback address.
func IsLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

func hasState(q url.Values, state string) bool {
	return subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) == 1
}

// Pasted returns the query of address, which the user copied from the last page of a browser on
// another machine.
func Pasted(address string) (url.Values, error) {
	address = strings.TrimSpace(address)
	if len(address) > maxPasted {
		return nil, fmt.Errorf("the pasted address is longer than %d bytes", maxPasted)
	}
	if _, query, ok := strings.Cut(address, "?"); ok {
		address = query
	}
	address, _, _ = strings.Cut(address, "#")
	q, err := url.ParseQuery(address)
	if err != nil || q.Get("state") == "" {
		return nil, errors.New("this is not the address of the browser's last page: that address contains code=… and state=…")
	}
	return q, nil
}

// OpenBrowser opens address, an http or https URL, in a browser on this machine.
func OpenBrowser(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("only http and https URLs can be opened in a browser")
	}
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", address)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("this session has no display")
		}
		cmd = exec.Command("xdg-open", address)
	}
	if os.Getenv("SSH_CONNECTION") != "" {
		return errors.New("this is a remote terminal (SSH)")
	}
	if err := children.Start(cmd); err != nil {
		return err
	}
	go func() { _ = children.Wait(cmd) }() // the command may be the browser itself, which keeps running
	return nil
}
