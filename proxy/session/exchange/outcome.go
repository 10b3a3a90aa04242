package exchange

import (
	"context"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Failed returns the failure that x's client is sent when err came instead of a response.
// A session that err has ended is forgotten; the session of a client on a pipe ends with
// the pipe.
func (all *Common) Failed(x *Exchange, err error) *mcp.Failure {
	f := report.FailureOf(x.Common.Outlives(x.Ctx, x.Session, x.From, err))
	if x.Call != nil {
		f.About([]byte(x.Call.ID))
		x.Session.Open.End(x.Call)
		if f.Cause == mcp.UpstreamTimeout && !upstream.NeverSent(err) && x.AtServer() && !x.Session.Direct.CloseCancels() {
			x.giveUp(session.Overdue)
		}
	}
	switch {
	case f.Cause == mcp.UpstreamRefused && x.Session.Direct.PassesRefusals():
		x.asItCame(f, err)
	case f.Cause == mcp.UpstreamLost && x.Session.ID != "":
		all.Forget(x.Session, err)
	case f.Cause == mcp.SessionUnknown && x.Session.ID != "":
		all.Table.DropForGood(x.Session)
		all.Retire(x.Session, err)
	case f.Cause == mcp.UpstreamRefused && f.Status == 404 && x.Session.Named != "":
		if x.Session.ID != "" {
			all.Forget(x.Session, err)
		}
	case f.Cause == mcp.UpstreamRefused && f.Status == 404:
		f.NoEndpoint()
	}
	x.Outcome = metrics.Failed
	if x.ClientLeft() {
		f.Reported = true
		return f
	}
	f = x.failed(f)
	x.observeFailure(f)
	return f
}

// toolOf returns the tool that x's request calls, or nil.
func (x *Exchange) toolOf(m *wire.Message) *metrics.Tool {
	if m.Method != wire.ToolsCall {
		return nil
	}
	if own := x.Common.Now().OwnFor(&x.Sender); x.OwnCall != nil && own != nil {
		name := gjson.ParseBytes(m.Name()).Str
		if t, _ := own.Find(name); t.Listed {
			return x.Common.Metrics.Tools.Listed(name)
		}
	}
	return x.Common.Metrics.Tools.Of(m.Name())
}

// failed reports that x's request failed, and returns what its client gets.
func (x *Exchange) failed(err error) *mcp.Failure {
	f := x.Common.Host.Report.Failed(err, x.At())
	x.Fault = report.FaultOf(f)
	return f
}

// AtServer reports whether the server may have x's request.
func (x *Exchange) AtServer() bool { return x.OwnCall == nil && !x.Call.Waits() }

// giveUp sends the server notifications/cancelled for x's request. It does not wait.
func (x *Exchange) giveUp(reason string) {
	if l := x.Session.Lanes; l != nil && !x.bridged() { // several requests may have the same id
		if x.lane == nil {
			return
		}
		if id, on := l.RecallStream(x.lane, reason, x.From); on != nil {
			x.Common.SendCancelled(x.Session, on, id, x.From, reason)
		}
		return
	}
	id := x.Call.ID
	if x.renamed != nil {
		id = x.renamed.Given
	}
	x.Common.GiveUpAs(x.Session, id, x.From, reason)
}

// ending returns the outcome of x's request.
func (x *Exchange) ending(gone bool) metrics.Outcome {
	switch {
	case x.Call.Cancelled.Load():
		return metrics.Cancelled
	case x.answered && x.Verdict == "":
		return metrics.Failed // dragoman's error replaced the response
	case x.answered && x.OwnCall != nil:
		return metrics.Local
	case x.answered && x.Outcome != metrics.Failed:
		return x.Verdict
	case x.Outcome != "" && (!gone || errors.Is(context.Cause(x.Ctx), downstream.ErrOver)):
		return x.Outcome // the transport ends every exchange with ErrOver
	}
	return metrics.Left
}

// count counts x's request with its outcome.
func (x *Exchange) count(how metrics.Outcome) {
	if how == metrics.Left || how == metrics.Cancelled {
		x.Common.Host.Report.Unanswered(how, x.At())
	}
	o := x.Session.Operation(x.Call, how, x.Fault)
	if x.OwnCall == nil {
		o.Waited = x.Clock.Waited()
	}
	if x.Tally != nil {
		x.Tally.Note(&o)
		x.Call.More.Seen.End(string(how), string(x.Fault.Cause))
		return
	}
	x.Common.EndCall(x.Call, &o)
}

// ClientLeft reports whether x's context ended because the client has left. Other reasons are
// reported as an error.
func (x *Exchange) ClientLeft() bool {
	if x.Ctx.Err() == nil {
		return false
	}
	why := context.Cause(x.Ctx)
	return errors.Is(why, downstream.ErrClientLeft) || errors.Is(why, downstream.ErrOver) ||
		errors.Is(why, report.ErrTakenUp) || errors.Is(why, context.Canceled)
}

// At returns what is known of x's message.
func (x *Exchange) At() report.At {
	at := report.At{Header: x.From}
	if x.Call != nil {
		at.Method = x.Call.Method.String()
	}
	if x.Session != nil {
		at.Client, at.Server, at.Session = x.Session.ClientRevision, x.Session.ServerRevision, x.Session.Named
	}
	return at
}
