package exchange

import (
	"errors"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// introduced adds dragoman's own tools to the server's response to server/discover.
func (x *Exchange) introduced(out []byte) []byte {
	own := x.Common.Now().OwnFor(&x.Sender)
	if own == nil || !x.Session.Direct.Introduces() {
		return out
	}
	tells := gjson.GetBytes(out, "result.capabilities.tools.listChanged").Bool()
	with, err := own.Introduce(out)
	if err == nil && !tells { // subscriptions go to the server, which does not know of changes of dragoman's own tools
		with, err = sjson.DeleteBytes(with, "result.capabilities.tools.listChanged")
	}
	if err != nil {
		return out
	}
	return x.own(with, out)
}

// callable removes the tools that cannot be called over HTTP from the server's list, and learns
// which headers calls of the others need.
func (x *Exchange) callable(page []byte) []byte {
	d := x.Session.Direct
	if d == nil || x.OwnCall != nil {
		return page
	}
	out, changed := x.Session.Tools.Learn(page, x.Common.Host.Log)
	if !changed || !d.Web {
		return page
	}
	return x.own(out, page)
}

// asItCame makes the server's own error body the response for f, unchanged, if the client can
// relate it to its request: by the id, or because the transport has one response for each request.
func (x *Exchange) asItCame(f *mcp.Failure, err error) {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || x.Call == nil {
		return
	}
	var m wire.Message
	if m.Scan(status.Body, nil) != nil || m.Kind != wire.Error {
		return
	}
	if string(wire.AppendIDKey(nil, m.ID())) == x.Call.Key || !x.Session.Open.Unique {
		f.Verbatim = status.Body
	}
}

// enquire looks up x's request in the cache of results. body is the request as the server would
// receive it. enquire returns nil if the session is not a direct one, or if the result must not be
// cached.
func (x *Exchange) enquire(body []byte) *results.Enquiry {
	if x.Session.Direct == nil || x.Call == nil || !x.Common.Results.Keeps(x.Call.Method) {
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
	return x.Common.Results.Enquire(results.Lookup{
		Method: x.Call.Method, Digest: results.Digest(string(m.MethodName()), wire.View(m.Params())), URI: uri,
		Principal: x.Session.Who(), Header: x.From, Variant: can, Realm: x.Session.Direct.Realm, TTL: results.AsSaid,
	})
}

// sendKept sends x's request, or returns a stream of the cached result.
func (x *Exchange) sendKept(e *results.Enquiry, body []byte) (upstream.Stream, error) {
	o := x.Outgoing
	o.Told = nil // the result may be for others
	var err error
	if o.Body, err = x.Common.Host.Memory().Clone(x.Ctx, large.RequestWait, large.RequestCopy, body); err != nil { // a copy, as the request may have to wait
		return nil, err
	}
	sent := false
	st, err := e.Open(x.Ctx, []byte(x.Call.ID), func() (upstream.Stream, error) {
		sent = true
		return x.Session.Conn.Send(x.Ctx, &o)
	})
	if err == nil && !sent && x.Seen != nil {
		x.Seen.Note(observe.Note{By: observe.Cache, What: "kept", Detail: "the result was kept from before, or is that of an equal request under way"})
	}
	return st, err
}
