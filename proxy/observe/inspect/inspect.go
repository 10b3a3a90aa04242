// Package inspect serves the live page and what it reads: the files, a feed of calls, single calls, the state and an export.
//
// access.go decides who may look, feed.go sends the rows, export.go writes what a filter chooses as a recording. The data is
// that of package observe; all of it has passed redaction when it arrives here.
package inspect

import (
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// Path is where the page is; everything else is below it.
const Path = "/inspect/"

// New returns a handler. The caller closes it.
func New(o Options) (*Handler, error) {
	h := &Handler{o: o, token: sha256.Sum256([]byte(o.Token)), files: map[string]*file{}, over: make(chan struct{})}
	err := fs.WalkDir(o.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		h.files[name] = &file{kind: kindOf(name), read: func() ([]byte, error) { return fs.ReadFile(o.Files, name) }}
		return nil
	})
	if err != nil {
		return nil, err
	}
	h.files[""] = h.files["page.html"]
	if o.Keep && o.Observer != nil {
		h.attach()
	}
	return h, nil
}

// Close ends all feeds, and waits for them.
func (h *Handler) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	close(h.over)
	if h.idle != nil {
		h.idle.Stop()
	}
	detach := h.detach
	h.detach = nil
	h.mu.Unlock()
	if detach != nil {
		detach()
	}
	h.feeds.Wait()
}

// Serve answers one request for Path or a path below it.
func (h *Handler) Serve(c *fasthttp.RequestCtx) {
	secure(c)
	if status, why := h.refuses(c); status != 0 {
		refuse(c, status, why)
		return
	}
	rest := strings.TrimPrefix(string(c.Path()), Path)
	if f := h.files[rest]; f != nil {
		f.serve(c)
		return
	}
	n, isCall := strings.CutPrefix(rest, "calls/")
	if !isCall && rest != "feed" && rest != "token" && rest != "rules" && rest != "state" && rest != "search" && rest != "export" {
		refuse(c, fasthttp.StatusNotFound, "there is nothing at this path; the page is at "+Path)
		return
	}
	if rest == "token" && !h.accepts(c) || rest != "token" && !h.hasToken(c) {
		c.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
		refuse(c, fasthttp.StatusUnauthorized, "send the token that dragoman has printed with the page's URL, as Authorization: Bearer; dragoman inspect prints it again")
		return
	}
	c.Response.Header.Set(fasthttp.HeaderCacheControl, "no-store")
	switch {
	case isCall:
		h.call(c, n)
	case rest == "feed":
		h.feed(c)
	case rest == "state":
		writeJSON(c, h.state())
	case rest == "token":
		writeJSON(c, map[string]string{"token": h.o.Token})
	case rest == "rules":
		writeJSON(c, observe.Rules())
	case rest == "search":
		h.search(c)
	default:
		h.export(c)
	}
}

func writeJSON(c *fasthttp.RequestCtx, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(c, fasthttp.StatusInternalServerError, err.Error())
		return
	}
	c.SetContentType("application/json")
	c.SetBody(text)
}

// search answers with the calls that the filter q chooses, of those that changed after the version since.
func (h *Handler) search(c *fasthttp.RequestCtx) {
	since := numberOf(c, "since")
	h.searching.Lock() // so that pages do not take more than one processor
	defer h.searching.Unlock()
	writeJSON(c, h.o.Ring.Search(observe.ParseFilter(string(c.QueryArgs().Peek("q"))), since))
}

// call answers with one call, or after a further slash with one of its messages beside the one that was made of it.
func (h *Handler) call(c *fasthttp.RequestCtx, path string) {
	number, message, one := strings.Cut(path, "/")
	n, err := strconv.ParseUint(number, 10, 64)
	seq, err2 := uint64(0), error(nil)
	if one {
		seq, err2 = strconv.ParseUint(message, 10, 64)
	}
	if err != nil || err2 != nil {
		refuse(c, fasthttp.StatusNotFound, "calls and messages have numbers")
		return
	}
	if one {
		if lines, ok := h.o.Ring.Compare(n, seq); ok {
			writeJSON(c, lines)
		} else {
			refuse(c, fasthttp.StatusNotFound, "message "+message+" of call "+number+" is not kept any more")
		}
		return
	}
	d, ok := h.o.Ring.Detail(n)
	if !ok {
		refuse(c, fasthttp.StatusNotFound, "call "+number+" is not kept any more, or has not come yet")
		return
	}
	d.Curl = h.curl(&d)
	writeJSON(c, d)
}

// curl returns a command that sends the call's request again. Credentials stand as variables in it.
func (h *Handler) curl(d *observe.Detail) string {
	if len(d.Messages) == 0 || d.Messages[0].Payload == nil || d.Messages[0].Edge != "client" {
		return ""
	}
	m := &d.Messages[0]
	body := strings.ReplaceAll(string(m.Payload), "'", `'\''`)
	if d.Row.Transport == "stdio" || h.o.Endpoint == nil {
		return "printf '%s\\n' '" + body + "' | $SERVER"
	}
	lines := []string{"curl -sS " + unixsocket.Curl(h.o.Endpoint()), "-H 'Content-Type: application/json'", "-H 'Accept: application/json, text/event-stream'", `-H "Authorization: Bearer $TOKEN"`}
	if d.Row.Session != "" && d.Row.Method != "initialize" {
		lines = append(lines, `-H "Mcp-Session-Id: $SESSION"`)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if low := strings.ToLower(name); strings.HasPrefix(low, "mcp-") && low != "mcp-session-id" {
			lines = append(lines, "-H '"+strings.ReplaceAll(name+": "+m.Headers[name], "'", `'\''`)+"'")
		}
	}
	return strings.Join(append(lines, "--data-binary '"+body+"'"), " \\\n  ")
}
