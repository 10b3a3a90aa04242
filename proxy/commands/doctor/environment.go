package doctor

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/memlimit"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/openfiles"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// environment looks at what the machine gives to this process.
func environment(ctx context.Context, e *exam) {
	if n, known := openfiles.Allowed(); known {
		e.openFiles(n)
	}
	e.memory(memlimit.Read())
	if hasURL(e) && !e.cfg.Upstream.AtSocket() {
		at, err := url.Parse(e.cfg.Upstream.URL)
		if err != nil {
			return // Validate has refused it
		}
		e.webProxy(at, origin.WebProxy)
		e.clock(ctx, at)
	}
}

// fewFiles is a number of open files that is worth a warning. A client over HTTP takes one, and one more while a request of
// its is at the server; a process of the server takes three.
const fewFiles = 4096

func (e *exam) openFiles(n uint64) {
	if n < fewFiles {
		e.warn(fmt.Sprintf("%s open files are allowed, enough for about %s clients at a time", grouped(n), grouped(uint64(config.ConnectionsOf(n, math.MaxInt)))), "ulimit -n",
			"for more clients raise it to 20,000: ulimit -n 20000, LimitNOFILE=20000 in a systemd unit")
		return
	}
	e.ok(grouped(min(n, 1<<40))+" open files are allowed", "")
}

// memory compares limits.in_hand with the memory that this process may have; 0 is any.
func (e *exam) memory(limit int64) {
	held := e.cfg.Limits.HeldBytes()
	if limit == 0 {
		e.ok(fmt.Sprintf("no memory limit; messages may take %s (limits.in_hand)", size(held)), "")
		return
	}
	if held > limit/4*3 {
		e.warn(fmt.Sprintf("limits.in_hand is %s, and the memory limit of the control group %s: the process may be killed", size(held), size(limit)),
			"limits.in_hand", fmt.Sprintf("limits.in_hand: %s, or a memory limit of %s", config.Size(min(limit/2, math.MaxInt)>>20<<20), size(held*2)))
		return
	}
	e.ok(fmt.Sprintf("memory limit %s, of which messages may take %s (limits.in_hand)", size(limit), size(held)), "")
}

// proxyVariable returns the name of the variable that names the web proxy for this scheme, or "".
func proxyVariable(scheme string) string {
	for _, name := range []string{strings.ToUpper(scheme) + "_PROXY", scheme + "_proxy"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// webProxy says whether requests go through a web proxy.
func (e *exam) webProxy(at *url.URL, proxyFor func(*url.URL) (*url.URL, error)) {
	name := proxyVariable(at.Scheme)
	via, err := proxyFor(at)
	switch {
	case err != nil:
		e.fail("the proxy in "+name+" is not a URL", name, "write http://HOST:PORT")
	case via != nil:
		e.info("requests to the server go through the proxy "+config.SafeURL(via.String()), name, "NO_PROXY="+at.Hostname()+" excepts the server")
	case name != "":
		e.info(name+" is set; requests to "+at.Hostname()+" do not use it", "NO_PROXY", "")
	}
}

// skewed is how far two clocks may be apart.
const skewed = 5 * time.Second

// clock compares this machine's clock with the server's.
func (e *exam) clock(ctx context.Context, at *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	secured, err := origin.TLS(e.cfg.Upstream)
	if err != nil {
		return // the file was reported
	}
	// Not at the endpoint: an HTTP+SSE server would begin a session.
	ahead, known, _ := dateOf(ctx, http.MethodHead, (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: "/"}).String(),
		&http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secured, DisableKeepAlives: true})
	if known { // otherwise the checks of the connection say why
		e.skew("the server", at.Host, ahead)
	}
}

// skew writes a line about a peer's clock, if it is not as this machine's.
func (e *exam) skew(whose, where string, ahead time.Duration) {
	word := "ahead of"
	if ahead < 0 {
		ahead, word = -ahead, "behind"
	}
	if ahead > skewed {
		e.warn(fmt.Sprintf("the clock of %s is %v %s that of this machine", whose, ahead.Round(time.Second), word), where,
			"synchronize both clocks (NTP): the ends of tokens and certificates depend on them")
		return
	}
	e.ok("the clock of "+whose+" agrees with that of this machine", where)
}

// dateOf asks the peer at a URL for any response, without credentials, and returns how far its clock is ahead of this machine's.
// known is false if the response has no Date.
func dateOf(ctx context.Context, method, at string, by *http.Transport) (ahead time.Duration, known bool, err error) {
	defer by.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("User-Agent", mcp.UserAgent())
	begun := time.Now()
	resp, err := by.RoundTrip(req)
	if err != nil {
		return 0, false, err
	}
	resp.Body.Close()
	there, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, false, nil
	}
	// Date has whole seconds: it is up to a second too early.
	middle := begun.Add(time.Since(begun) / 2)
	return there.Add(500 * time.Millisecond).Sub(middle), true, nil
}

// grouped returns a number with commas between thousands.
func grouped[N int | uint64](n N) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// size returns a number of bytes in the unit that suits it.
func size[N int | int64](n N) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
