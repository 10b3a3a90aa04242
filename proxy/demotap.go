package proxy

import (
	"bytes"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clients/web"
	"github.com/dragoman-proxy/dragoman/proxy/demo"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate"
)

// DemoExchange is one message of a client to the demo server and its answer, each before and after
// translation. A field is nil where there is no such message.
type DemoExchange struct {
	Client, Server string // the revisions of the client and of the server
	Sent, Heard    []byte // the request as the client sent it, and as the server received it
	Said, Got      []byte // the response as the server sent it, and as the client received it
}

// tap records the messages between the demo server and its clients over Streamable HTTP.
type tap struct {
	*web.Face
	show func(DemoExchange)
}

// tapped is one exchange in progress.
type tapped struct {
	mu sync.Mutex
	DemoExchange
}

// Heard implements [demo.Watcher]: it records a request as the server received it.
func (t *tapped) Heard(message []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.DemoExchange.Heard = bytes.Clone(message)
}

// Said implements [demo.Watcher]: it records a response as the server sent it.
func (t *tapped) Said(message []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.DemoExchange.Said = bytes.Clone(message)
}

func (t *tapped) got(message []byte) {
	if m := gjson.ParseBytes(message); m.IsObject() && !m.Get("method").Exists() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.Got = bytes.Clone(message)
	}
}

// Post handles the request as [face.Post] does, and calls show after the response was sent.
func (p *tap) Post(req *downstream.Request, resp *downstream.Response) {
	t := &tapped{DemoExchange: DemoExchange{Client: p.revisionOf(req), Server: translate.Oldest().Name, Sent: bytes.Clone(req.Body)}}
	req.Ctx = demo.WithWatcher(req.Ctx, t)
	req.Client = &tappedClient{req.Client, t}
	p.Face.Post(req, resp)
	t.got(resp.Body)
	t.got(resp.Last.Data)
	done := resp.Done
	resp.Done = func() {
		if done != nil {
			done()
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		p.show(t.DemoExchange)
	}
}

// revisionOf returns the client's revision, or "" if it is unknown.
func (p *tap) revisionOf(req *downstream.Request) string {
	if req.Version != "" {
		return req.Version
	}
	if s, err := p.Face.SessionOf(req); err == nil && s != nil {
		defer s.Leave()
		return s.ClientRevision.Name
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
