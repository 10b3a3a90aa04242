// Package inspect serves the live page and what it reads: the files, a feed of calls, single calls, the state and an export.
//
// access.go decides who may look, feed.go sends the rows, export.go writes what a filter chooses as a recording. The data is
// that of package observe; all of it has passed redaction when it arrives here.
package inspect

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// Path is where the page is; everything else is below it.
const Path = "/inspect/"

// Options are what the page shows and who may see it.
type Options struct {
	Ring *observe.Ring
	// Observer fills Ring while a page is open, or always if Keep is set. It is nil for a ring that was read from a file.
	Observer *observe.Observer
	Keep     bool
	File     string // the name of that file
	Files    fs.FS  // of the page; page.html is the page itself

	Token    string // which every request for data must carry
	Redactor observe.Redactor
	// AllowsHost reports whether a request that came in at local may name host.
	AllowsHost func(host string, local net.Addr) bool

	Version, Replica string
	Started          time.Time
	Payloads         string        // masked or none
	Live             func() Live   // may be nil
	Endpoint         func() string // URL that clients of HTTP use; may be nil
	Watching         func(Watcher) // called when a page is opened or closed; may be nil
	Export           ExportHeader  // of an export
}

// Watcher is a browser that has the page open.
type Watcher struct {
	Address string
	Ended   bool
	For     time.Duration // how long, when it ended
	Why     string        // why it was cut off; "" if the watcher has left
}

// Live is what only the proxy itself knows of its state.
type Live struct {
	Connections int
	Sessions    map[string]LiveSession // by fingerprint
	Parked      []Parked
	Replicas    []Replica
}

// LiveSession is a session that has not ended.
type LiveSession struct {
	Peers   observe.Peers
	Since   time.Time
	Open    int // calls
	Streams int
	Asking  int
}

// Parked is a question to a client that waits for its answer.
type Parked struct {
	Method  string    `json:"method"`
	Session string    `json:"session,omitempty"`
	Since   time.Time `json:"since"`
	Ends    time.Time `json:"ends,omitzero"`
	Call    uint64    `json:"call,omitempty"`
}

// Replica is another process of dragoman.
type Replica struct {
	Address   string `json:"address"`
	Reachable *bool  `json:"reachable,omitempty"` // whether the last attempt to reach it succeeded; nil if there was none
	Forwarded uint64 `json:"forwarded"`
}

// Handler serves the page. Make it with [New].
type Handler struct {
	o     Options
	token [sha256.Size]byte
	files map[string]*file

	searching sync.Mutex

	mu       sync.Mutex
	watchers int
	detach   func()      // nil while the ring is not filled
	idle     *time.Timer // ends filling after the last watcher has left
	closed   bool
	over     chan struct{} // closed with closed
	feeds    sync.WaitGroup
}

// file is a file of the page. It is read and compressed when it is first asked for: most processes are never looked at.
type file struct {
	read            func() ([]byte, error)
	kind            string
	once            sync.Once
	err             error
	tag             string
	plain, squeezed []byte
}

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

// kindOf returns the media type of a file. The tables of the system are not asked: they may say otherwise of scripts.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	}
	return "application/octet-stream"
}

func (f *file) load() {
	if f.plain, f.err = f.read(); f.err != nil {
		return
	}
	sum := sha256.Sum256(f.plain)
	f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	if _, err := w.Write(f.plain); err == nil && w.Close() == nil && b.Len() < len(f.plain) {
		f.squeezed = b.Bytes()
	}
}

// enough is what a person can look at. The ring holds less than a second of such long messages, and ten seconds of such calls.
var enough = observe.Bounds{Queue: 2 << 20, Long: 8 << 20, Calls: 500}

// attach begins to fill the ring.
func (h *Handler) attach() { h.detach = h.o.Observer.AttachWithin(enough, "page", h.o.Ring) }

// linger is how long the ring is filled after the last watcher has left, since a page that is hidden or loaded again comes
// back.
const linger = 30 * time.Second

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
	if !isCall && rest != "feed" && rest != "state" && rest != "search" && rest != "export" {
		refuse(c, fasthttp.StatusNotFound, "there is nothing at this path; the page is at "+Path)
		return
	}
	if !h.hasToken(c) {
		c.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, "Bearer")
		refuse(c, fasthttp.StatusUnauthorized, "send the token that dragoman has printed with the page's URL, as Authorization: Bearer")
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
	case rest == "search":
		h.search(c)
	default:
		h.export(c)
	}
}

func (f *file) serve(c *fasthttp.RequestCtx) {
	if f.once.Do(f.load); f.err != nil {
		refuse(c, fasthttp.StatusInternalServerError, "a file of the page cannot be read: "+f.err.Error())
		return
	}
	header := &c.Response.Header
	header.Set(fasthttp.HeaderETag, f.tag)
	header.Set(fasthttp.HeaderCacheControl, "no-cache")
	header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	if strings.Contains(string(c.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), f.tag) {
		c.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	c.SetContentType(f.kind)
	if f.squeezed != nil && c.Request.Header.HasAcceptEncoding("gzip") {
		header.Set(fasthttp.HeaderContentEncoding, "gzip")
		c.SetBody(f.squeezed)
		return
	}
	c.SetBody(f.plain)
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
	since, err := strconv.ParseUint(string(c.QueryArgs().Peek("since")), 10, 64)
	if err != nil {
		since = 0
	}
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

// stats is what the feed repeats.
type stats struct {
	Connections int `json:"connections"`
	observe.Totals
	Watchers int `json:"watchers"`
}

// state is all of it.
type state struct {
	Version string `json:"version"`
	Replica string `json:"replica,omitempty"`
	Started string `json:"started"`
	stats
	Parked   []Parked          `json:"parked"`
	Replicas []Replica         `json:"replicas"`
	Losses   []observe.LossRow `json:"losses"`
}

func (h *Handler) live() Live {
	if h.o.Live == nil {
		return Live{}
	}
	return h.o.Live()
}

func (h *Handler) stats(l *Live) stats {
	h.mu.Lock()
	n := h.watchers
	h.mu.Unlock()
	s := stats{Connections: l.Connections, Totals: h.o.Ring.Totals(), Watchers: n}
	if h.o.Live != nil {
		s.Sessions = merged(s.Sessions, l.Sessions, h.o.Redactor)
	}
	return s
}

// merged returns the sessions that the ring has counted, without those that have ended unseen, and those that were quiet.
func merged(counted []observe.SessionRow, live map[string]LiveSession, redact observe.Redactor) []observe.SessionRow {
	list, seen := []observe.SessionRow{}, map[string]bool{}
	for _, row := range counted {
		if row.Session != "" {
			s, lives := live[row.Session]
			if !lives && row.Open == 0 {
				continue
			}
			seen[row.Session] = true
			if lives {
				row.Streams, row.Open, row.Asking = s.Streams, s.Open, s.Asking
				row.Since = s.Since.UTC().Format(time.RFC3339)
			}
		}
		list = append(list, row)
	}
	for session, s := range live {
		if !seen[session] && len(list) < maxListed {
			list = append(list, observe.SessionOf(&s.Peers, s.Since, s.Open, s.Streams, s.Asking, redact))
		}
	}
	return list
}

// maxListed is how many sessions are listed.
const maxListed = 500

func (h *Handler) state() state {
	l := h.live()
	s := state{
		Version: h.o.Version, Replica: h.o.Replica, Started: h.o.Started.UTC().Format(time.RFC3339), stats: h.stats(&l),
		Parked: l.Parked, Replicas: l.Replicas, Losses: h.o.Ring.Losses(),
	}
	if s.Parked == nil {
		s.Parked = []Parked{}
	}
	if s.Replicas == nil {
		s.Replicas = []Replica{}
	}
	return s
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
	lines := []string{"curl -sS " + h.o.Endpoint(), "-H 'Content-Type: application/json'", "-H 'Accept: application/json, text/event-stream'", `-H "Authorization: Bearer $TOKEN"`}
	if d.Row.Session != "" && d.Row.Method != "initialize" {
		lines = append(lines, `-H "Mcp-Session-Id: $SESSION"`)
	}
	for name, value := range m.Headers {
		if low := strings.ToLower(name); strings.HasPrefix(low, "mcp-") && low != "mcp-session-id" {
			lines = append(lines, "-H '"+strings.ReplaceAll(name+": "+value, "'", `'\''`)+"'")
		}
	}
	return strings.Join(append(lines, "--data-binary '"+body+"'"), " \\\n  ")
}
