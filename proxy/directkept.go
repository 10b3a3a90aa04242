package proxy

import (
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// enquire looks up x's request in the cache of results. body is the request as the server would
// receive it. enquire returns nil if the session is not a direct one, or if the result must not be
// cached.
func (x *exchange) enquire(body []byte) *results.Enquiry {
	if x.s.Direct == nil || x.call == nil || !x.srv.results.Keeps(x.call.Method) {
		return nil
	}
	var m wire.Message
	if m.Scan(body, nil) != nil {
		return nil
	}
	var can []byte
	uri, retried := "", false
	mcp.Members(wire.View(m.Params()), func(name string, v gjson.Result) {
		switch name {
		case "_meta":
			mcp.Members(v.Raw, func(name string, v gjson.Result) {
				if name == mcp.MetaCapabilities {
					can = []byte(v.Raw)
				}
			})
		case "uri":
			uri = v.String()
		case "inputResponses", "requestState":
			retried = true
		}
	})
	if retried {
		return nil
	}
	return x.srv.results.Enquire(results.Lookup{
		Method: x.call.Method, Digest: results.Digest(string(m.MethodName()), wire.View(m.Params())), URI: uri,
		Principal: x.s.Who(), Header: x.from, Variant: can, Realm: x.s.Direct.Realm, TTL: results.AsSaid,
	})
}

// sendKept sends x's request, or returns a stream of the cached result.
func (x *exchange) sendKept(e *results.Enquiry, body []byte) (upstream.Stream, error) {
	o := x.send
	var err error
	if o.Body, err = x.srv.Host.Memory().Clone(x.ctx, large.RequestWait, large.RequestCopy, body); err != nil { // a copy, as the request may have to wait
		return nil, err
	}
	sent := false
	st, err := e.Open(x.ctx, []byte(x.call.ID), func() (upstream.Stream, error) {
		sent = true
		return x.s.Conn.Send(x.ctx, &o)
	})
	if err == nil && !sent && x.seen != nil {
		x.seen.Note(observe.Note{By: observe.Cache, What: "kept", Detail: "the result was kept from before, or is that of an equal request under way"})
	}
	return st, err
}
