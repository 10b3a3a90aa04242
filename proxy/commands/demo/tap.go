package demo

import (
	"bytes"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Exchange is one message of a client to the demo server and its answer, each before and after
// translation. A field is nil where there is no such message.
type Exchange struct {
	Client, Server string // the revisions of the client and of the server
	Sent, Heard    []byte // the request as the client sent it, and as the server received it
	Said, Got      []byte // the response as the server sent it, and as the client received it
}

// Tap shows the messages between the demo server and its clients over Streamable HTTP.
type Tap struct {
	downstream.Handler                                        // handles the requests
	RevisionOf         func(session string) (revision string) // of the session's client; "" if the session is not known
	Show               func(Exchange)                         // is called after the response was sent
}

// tapped is one exchange in progress.
type tapped struct {
	mu sync.Mutex
	Exchange
}

// Heard implements [Watcher]: it records a request as the server received it.
func (t *tapped) Heard(message []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Exchange.Heard = bytes.Clone(message)
}

// Said implements [Watcher]: it records a response as the server sent it.
func (t *tapped) Said(message []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Exchange.Said = bytes.Clone(message)
}

func (t *tapped) got(message []byte) {
	if m := gjson.ParseBytes(message); m.IsObject() && !m.Get("method").Exists() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.Got = bytes.Clone(message)
	}
}

// Post handles the request, and calls Show after the response was sent.
func (p *Tap) Post(req *downstream.Request, resp *downstream.Response) {
	t := &tapped{Exchange: Exchange{Client: p.revisionOf(req), Server: translate.Oldest().Name, Sent: bytes.Clone(req.Body)}}
	req.Ctx = WithWatcher(req.Ctx, t)
	req.Client = &tappedClient{req.Client, t}
	p.Handler.Post(req, resp)
	t.got(resp.Body)
	t.got(resp.Last.Data)
	done := resp.Done
	resp.Done = func() {
		if done != nil {
			done()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		p.Show(t.Exchange)
	}
}

// revisionOf returns the client's revision, or "" if it is unknown.
func (p *Tap) revisionOf(req *downstream.Request) string {
	if req.Version != "" {
		return req.Version
	}
	if revision := p.RevisionOf(req.Session); revision != "" {
		return revision
	}
	return gjson.GetBytes(req.Body, "params.protocolVersion").Str
}

// tappedClient records the response in an event stream.
type tappedClient struct {
	mcp.Peer
	t *tapped
}

// Send implements [mcp.Peer].
func (c *tappedClient) Send(e sse.Event) error {
	c.t.got(e.Data)
	return c.Peer.Send(e)
}
