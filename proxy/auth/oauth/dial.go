package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/oauthclient"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

const (
	maxURL        = 2 << 10
	maxDocument   = 1 << 20 // bytes of a metadata document
	maxRedirects  = 3       // of a metadata document
	documentTime  = 10 * time.Second
	discoveryTime = 30 * time.Second
)

// web sends the requests of a sign-in. It refuses URLs and addresses that the server may not name: those of a zone further inside the
// network than its own, so that a public server cannot make dragoman send requests into a private network.
type web struct {
	server    *url.URL
	revision  string // of MCP, for requests for metadata; "" for none
	allowHTTP bool
	network   upstream.Dial // nil for the system's
	documents *http.Client  // follows redirects
	posts     *http.Client  // follows none
	proxies   sync.Map      // the addresses of web proxies that were used

	mu    sync.Mutex
	known bool
	zone  dial.Zone // of the server, once known
}

// newWeb returns the HTTP clients for a sign-in to server. config is for TLS; nil for Go's
// defaults.
func newWeb(server *url.URL, allowHTTP bool, config *tls.Config) *web {
	w := &web{server: server, allowHTTP: allowHTTP}
	transport := &http.Transport{
		Proxy: w.proxyFor, DialContext: w.dial, TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: documentTime, ResponseHeaderTimeout: documentTime, MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout: documentTime, MaxIdleConns: 4,
	}
	w.posts = &http.Client{Transport: unpack.Transport{RoundTripper: transport}, Timeout: 3 * documentTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	w.documents = &http.Client{Transport: unpack.Transport{RoundTripper: transport}, Timeout: documentTime, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return errors.New("redirected from https to http")
		}
		_, err := w.check(r.Context(), r.URL.String())
		return err
	}}
	return w
}

// zoneOfServer returns the zone of the server. If its name does not resolve, as behind a web proxy, it
// counts as public.
func (w *web) zoneOfServer(ctx context.Context) dial.Zone {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known {
		return w.zone
	}
	addrs, err := lookup(ctx, w.server.Hostname())
	if err != nil {
		return dial.Public
	}
	for _, a := range addrs { // the innermost of the name's addresses counts
		if z := dial.ZoneOf(a); z != dial.Never {
			w.zone = max(w.zone, z)
		}
	}
	w.known = true
	return w.zone
}

func (w *web) close() { w.posts.CloseIdleConnections() }

// lookup returns the addresses of a host, which may be an address itself.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, stop := context.WithTimeout(ctx, documentTime)
	defer stop()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// proxyFor returns the web proxy that the environment names for a request.
func (w *web) proxyFor(r *http.Request) (*url.URL, error) {
	proxy, err := http.ProxyFromEnvironment(r)
	if proxy != nil {
		port := cmp.Or(proxy.Port(), map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme])
		w.proxies.Store(net.JoinHostPort(proxy.Hostname(), port), true)
	}
	return proxy, err
}

// dial connects to an address that the server may name, judged after DNS, or to the web
// proxy.
func (w *web) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := dial.Dialer{Timeout: documentTime, Network: w.network}
	if _, viaProxy := w.proxies.Load(address); !viaProxy {
		d.Control = func(ctx context.Context, _, at string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(at)
			if err != nil {
				return err
			}
			return w.mayReach(ctx, a.Addr())
		}
	}
	return d.DialContext(ctx, network, address)
}

func (w *web) mayReach(ctx context.Context, a netip.Addr) error {
	if z := dial.ZoneOf(a); z == dial.Never || z > w.zoneOfServer(ctx) {
		return fmt.Errorf("%s is an address inside this network, which a server outside it may not name", a)
	}
	return nil
}

// check returns a URL from the network if it may be used: https, or http between hosts of this
// machine.
func (w *web) check(ctx context.Context, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return nil, fmt.Errorf("a URL is longer than %d bytes", maxURL)
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("%s is not an absolute URL without user and fragment", quoted(text))
	case u.Scheme == "https":
	case u.Scheme == "http" && (w.allowHTTP || IsLoopback(u.Host) && IsLoopback(w.server.Host)):
	default:
		return nil, fmt.Errorf("%s is not an https URL", quoted(text))
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u, w.mayReach(ctx, a)
	}
	return u, nil
}

// read reads a metadata document. The error is a [noDocument] if there is none at this URL.
func (w *web) read(ctx context.Context, at string, into any) error {
	if _, err := w.check(ctx, at); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if w.revision != "" { // some servers of 2025-03-26 choose their metadata by it
		r.Header.Set("MCP-Protocol-Version", w.revision)
	}
	resp, err := w.documents.Do(r)
	if err != nil {
		return oauthclient.WithoutURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500:
		return fmt.Errorf("answered %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return noDocument(fmt.Sprintf("answered %d", resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return oauthclient.WithoutURL(err)
	case len(body) > maxDocument:
		return fmt.Errorf("is larger than %d bytes", maxDocument)
	case json.Unmarshal(body, into) != nil:
		return noDocument("is no JSON object") // an HTML page
	}
	return nil
}

// noDocument is the error for a URL where there is no metadata, as the text says.
type noDocument string

func (e noDocument) Error() string { return string(e) }

// errOther says that a JSON object is not the metadata that is looked for.
const errOther noDocument = "is not metadata"

const maxQuoted = 200 // characters

// quoted returns a text from the network for people to read: bounded, on one line, and
// without characters that change how the rest looks.
func quoted(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > maxQuoted {
			b.WriteString("…")
			break
		}
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff {
			continue
		}
		b.WriteRune(r)
	}
	return `"` + b.String() + `"`
}
