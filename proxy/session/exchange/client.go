package exchange

import (
	"errors"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// AnswerTo makes the client of req that of x.
func (x *Exchange) AnswerTo(req *downstream.Request) {
	x.client = httpClient{x: x, to: req.Client, await: req.Await}
}

// Send implements [mcp.Peer].
func (c *httpClient) Send(e sse.Event) error {
	x := c.x
	if !x.Streamed {
		x.StartStream()
		c.resp.Header = x.Clock.AppendTo(x.appendTold(c.resp.Header))
		if x.lane != nil && !x.Session.Pooled {
			x.buffer = x.Session.Lanes.Trails.Begin(&session.ResumableCall{Call: x.Call, Open: x.Session.Open, Stream: x.lane}, x.Stop)
		}
	}
	if x.buffer != nil {
		x.buffer.Record(&e, x.Final)
	}
	return c.to.Send(e)
}

// appendTold appends the headers of the server's response that the client gets.
func (x *Exchange) appendTold(header []mcp.Header) []mcp.Header {
	if x.across != nil {
		return append(header, x.across.Told()...)
	}
	return append(header, x.told...)
}

// late returns the last event of an event stream whose reading has failed with err: an error instead of the response.
// ok is false if the client is owed nothing more.
func (x *Exchange) late(err error) (e sse.Event, ok bool) {
	if errors.Is(err, io.EOF) || x.Call == nil || x.ClientLeft() {
		return e, false // a client opens a standing stream again
	}
	x.answered, x.Final = true, true
	if x.Call.Method == wire.SubscriptionsListen && errors.Is(err, report.ErrShutdown) {
		x.Verdict = metrics.Succeeded
		return sse.Event{Data: crossing.ListenResult([]byte(x.Call.ID))}, true
	}
	return sse.Event{Data: x.Common.Failed(x, err).Body()}, true
}

// IsInitialized reports whether x's message is notifications/initialized, whose failure is reported
// like that of initialize.
func (x *Exchange) IsInitialized() bool {
	return x.Msg.Kind == wire.Notification && x.Msg.Method == wire.Initialized
}

// Refused returns the error for the client if err prevents its message from being sent.
func (x *Exchange) Refused(err error) *mcp.Failure {
	x.Outcome = metrics.Refused
	f := x.failed(err)
	switch {
	case x.Call != nil:
		f.About([]byte(x.Call.ID))
	case x.Msg.Kind == wire.Request && x.Tally == nil:
		x.Common.Metrics.Request(&metrics.Operation{
			Client: x.Session.ClientRevision, Server: x.Session.ServerRevision, Method: x.Msg.Method, Tool: x.toolOf(&x.Msg),
			Outcome: metrics.Refused, Fault: x.Fault, Began: x.Clock.Began(),
		})
	}
	x.observeFailure(f)
	return f
}

// TakeHeaders notes the client's headers that are passed to the server: its credentials, and its trace
// (https://www.w3.org/TR/trace-context/).
func (x *Exchange) TakeHeaders(r *downstream.Request) {
	x.From = x.From[:0]
	if r.Header != nil {
		x.From = x.Common.AppendPassed(x.From, r.Header)
		if x.Session != nil {
			x.Session.Notes(x.From) // a session that began in another process may have pinged before it forwards anything
		}
		if x.Common.Observer.Watched() {
			x.Heard = session.Heard(x.From, r)
		}
		x.Clock.Asked = r.Header(trace.TimingHeader) != ""
		x.Peer = r.Peer
		x.Sender = downstream.SenderOf(r.Guest, r.Header, x.Common.Adapters.CallerHeaders())
		if x.Common.Now().Shaping != nil {
			x.MaxTokens = shape.Budget(r.Header(shape.BudgetHeader))
		}
	}
}
