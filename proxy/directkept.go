package proxy

import (
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// enquire is x's request, as the server gets it, as one whose answer may be kept, where
// neither end knows of sessions; nil for all others.
func (x *exchange) enquire(body []byte) *results.Enquiry {
	if x.s.direct == nil || x.call == nil || !x.srv.results.Keeps(x.call.Method) {
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
		Principal: x.s.who(), Header: x.from, Variant: can, Realm: x.s.direct.realm, TTL: results.AsSaid,
	})
}

// sendKept sends x's request, or has what is kept in the place of the answer.
func (x *exchange) sendKept(e *results.Enquiry, body []byte) (upstream.Stream, error) {
	o := x.send
	var err error
	if o.Body, err = x.srv.host.Memory().Clone(x.ctx, large.RequestWait, large.RequestCopy, body); err != nil { // it may have to wait
		return nil, err
	}
	return e.Open(x.ctx, []byte(x.call.ID), func() (upstream.Stream, error) { return x.s.conn.Send(x.ctx, &o) })
}
