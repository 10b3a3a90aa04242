package replicas

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// inbox accepts the requests that other replicas forward.
type inbox struct {
	*Options

	// Hashes of the seals that were used since this time, and in the window before it.
	// A seal that is older is no longer valid.
	mu           sync.Mutex
	seen, before map[[sha256.Size]byte]struct{}
	since        time.Time
}

// maxSeen bounds how many seals are accepted within a window. All of them were made
// with our key.
const maxSeen = 1 << 18

// Open implements [downstream.ReplicasHandler].
func (b *inbox) Open() bool { return b.Configured() }

// Admits implements [downstream.ReplicasHandler].
func (b *inbox) Admits(method string, header func(name string) string) bool {
	_, ok := b.open(method, header(sealed.ForwardHeader))
	return ok
}

// open returns the content of a seal, and whether the seal is valid, for this process
// and recent.
func (b *inbox) open(method, box string) (sealed.Forward, bool) {
	f, ok := b.Settings().Sealer.OpenForward(method, box)
	return f, ok && f.To == b.Self && time.Since(f.At).Abs() <= sealed.ForwardWindow
}

// Serve implements [downstream.ReplicasHandler]: it serves the request as though the
// client had sent it to this replica.
func (b *inbox) Serve(req *downstream.Request, resp *downstream.Response) {
	defer b.Rescue(req, resp)
	box := req.Header(sealed.ForwardHeader)
	f, ok := b.open(req.Method, box)
	switch {
	case !ok || !b.once(box):
		resp.Status = fasthttp.StatusMisdirectedRequest
		return
	case f.Digest != sha256.Sum256(req.Body):
		resp.Status = fasthttp.StatusMisdirectedRequest
		return
	}
	own := downstream.Request{
		Ctx: req.Ctx, Cancel: req.Cancel, Client: req.Client, Body: req.Body, Forwarded: true,
		Session: f.Session, Version: f.Version, LastEventID: f.LastEventID, Guest: f.Guest,
		Header: func(name string) string { return mcp.HeaderValue(f.Header, name) },
		Headers: func(prefix string, do func(name, value string)) {
			for _, h := range f.Header {
				if len(h.Name) >= len(prefix) && strings.EqualFold(h.Name[:len(prefix)], prefix) {
					do(h.Name, h.Value)
				}
			}
		},
	}
	switch f.Method {
	case "POST":
		b.Handler.Post(&own, resp)
	case "GET":
		b.Handler.Get(&own, resp)
	case "DELETE":
		b.Handler.Delete(&own, resp)
	}
}

// once reports whether a seal is used for the first time.
func (b *inbox) once(box string) bool {
	sum := sha256.Sum256([]byte(box))
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.since) > 2*sealed.ForwardWindow {
		b.before, b.seen, b.since = b.seen, make(map[[sha256.Size]byte]struct{}), now
	}
	_, used := b.seen[sum]
	if _, ok := b.before[sum]; used || ok || len(b.seen) >= maxSeen {
		return false
	}
	b.seen[sum] = struct{}{}
	return true
}
