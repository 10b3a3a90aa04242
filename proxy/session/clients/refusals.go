package clients

import (
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Refuse writes a JSON-RPC error response.
func (p *Proxy) Refuse(req *downstream.Request, resp *downstream.Response, err error) {
	known := IsReported(err)
	f := p.Host.Report.Failed(err, report.At{Client: translate.Lookup(req.Version)})
	if !known {
		p.ObserveRefusal(req.Body, translate.Lookup(req.Version), "http", f)
	}
	resp.Listen = nil
	if req.Settle != nil {
		if id, begun := req.Settle(); begun {
			f = f.Late(id)
		}
	}
	resp.Status, resp.Header = f.Status, append(resp.Header, f.Header...)
	if f.Status == fasthttp.StatusAccepted {
		return
	}
	resp.Body = f.BodyTo(translate.Lookup(req.Version))
	if f.Status == fasthttp.StatusServiceUnavailable && !slices.ContainsFunc(resp.Header, isRetryAfter) {
		resp.Header = append(resp.Header, mcp.Header{Name: fasthttp.HeaderRetryAfter, Value: "1"})
	}
}

// settleStatus moves the status of a response that another replica has sent into its error, if the client has got a head already.
func settleStatus(req *downstream.Request, resp *downstream.Response) {
	if resp.Status < fasthttp.StatusBadRequest || req.Settle == nil {
		return
	}
	id, begun := req.Settle()
	if !begun {
		return
	}
	f := mcp.Fail(mcp.PeerLost, "")
	if said := gjson.GetBytes(resp.Body, "error"); said.IsObject() {
		f.Code, f.Text, f.Data = int(said.Get("code").Int()), said.Get("message").String(), []byte(said.Get("data").Raw)
	}
	f.Status, f.Header = resp.Status, resp.Header
	f = f.Late(id)
	resp.Status, resp.Header, resp.Body = f.Status, nil, f.Body()
}

// IsReported reports whether err was reported, by an exchange that has observed it, too.
func IsReported(err error) bool {
	f, ok := errors.AsType[*mcp.Failure](err)
	return ok && f.Reported
}

func isRetryAfter(h mcp.Header) bool {
	return strings.EqualFold(h.Name, fasthttp.HeaderRetryAfter)
}

// Listing returns err for a client of a modern server: if err lists the supported revisions,
// Listing replaces them by those in the server's own DiscoverResult.
func (p *Proxy) Listing(err error, from []mcp.Header) error {
	f, ok := errors.AsType[*mcp.Failure](err)
	if !ok || f.Cause != mcp.RevisionUnsupported {
		return err
	}
	if names := p.Eras.Peek(from).Supported(); names != nil {
		if data, err := sjson.SetBytes(f.Data, "supported", names); err == nil {
			f.Data = data
		}
	}
	return f
}

// OnlyPost returns the error for a GET or DELETE of a client without a session.
func OnlyPost(why string) error {
	f := mcp.Fail(mcp.NoStream, "")
	f.Text = why + ": only POST is accepted"
	f.Header = []mcp.Header{{Name: "Allow", Value: "POST"}}
	return f
}

// WithoutSession is what the page and recordings call the client of a pooled session.
const WithoutSession = "requests without a session"

// NotInitialized returns the error for a request over Streamable HTTP that names no session.
func NotInitialized() *mcp.Failure {
	f := mcp.Uninitialized(mcp.NotInitialized)
	f.Text += "; session.without: open answers requests without a session"
	return f
}

// NeedsSession returns the error for a request that changes what a session is, if it names none; else nil.
func NeedsSession(m *wire.Message) *mcp.Failure {
	switch m.Method {
	case wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		f := mcp.Fail(mcp.MethodUnknown, m.Method.String()+" needs a session: send initialize first")
		f.Status = 200 // 404 would say that a session has ended
		return f.About(m.ID())
	}
	return nil
}
