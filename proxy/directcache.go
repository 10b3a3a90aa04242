package proxy

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// enquire is x's request, as the server gets it, as one whose answer may be kept, where
// neither end knows of sessions; nil for all others.
func (x *exchange) enquire(body []byte) *enquiry {
	if x.s.direct == nil || x.call == nil || !x.srv.results.keeps(x.call.method) {
		return nil
	}
	var m wire.Message
	if m.Scan(body, nil) != nil {
		return nil
	}
	var can []byte
	uri, retried := "", false
	members(view(m.Params()), func(name string, v gjson.Result) {
		switch name {
		case "_meta":
			members(v.Raw, func(name string, v gjson.Result) {
				if name == metaCapabilities {
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
	return x.srv.results.enquire(lookup{
		method: x.call.method, digest: digestOf(string(m.MethodName()), view(m.Params())), uri: uri,
		principal: x.s.who(), header: x.from, variant: can, realm: x.s.direct.realm, ttl: asSaid,
	})
}

// sendKept sends x's request, or has what is kept in the place of the answer.
func (x *exchange) sendKept(e *enquiry, body []byte) (upstream.Stream, error) {
	o := x.send
	o.Body = bytes.Clone(body) // it may have to wait
	return e.open(x.ctx, []byte(x.call.id), func() (upstream.Stream, error) { return x.s.conn.Send(x.ctx, &o) })
}
