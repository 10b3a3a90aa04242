package adapterrt

import (
	"context"
	"errors"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// changed reports whether the API has carried out a call that may change something.
func (c *Record) changed() bool {
	return c.Category != file.Read && (c.Status >= 200 && c.Status < 300 || c.Status == 303)
}

// Lost returns the result in place of r if there is no memory to pass r on: that the request was carried out, so that it is not
// repeated. It returns false if nothing was changed; the request can then be tried again.
func (r *Result) Lost(cause error) (Result, bool) {
	f := failure.NoRoom(cause)
	switch {
	case len(r.Parts) > 0:
		f = lostBatch(r.Parts, f)
	case r.Failure == nil && r.Call.changed():
		f.Answered = r.Call.Status
		f = httpcall.CarriedOut(f, true)
	}
	call := r.Call
	call.Outcome, call.Cause = f.Code, f.Cause
	return Result{Failure: f, Call: call, Parts: r.Parts, alone: r.alone}, !f.Busy
}

// without returns the result in place of r for a caller for which there is no memory to pass r on.
func (r *Result) without(ctx context.Context, cause error) *Result {
	if lost, changed := r.Lost(cause); changed && ctx.Err() == nil {
		return &lost
	}
	f := httpcall.NoRoom(ctx, cause)
	call, cancelled := r.Call, errors.Is(f.Cause, failure.ErrCancelled)
	call.Outcome, call.Cause = f.Code, f.Cause
	return &Result{Failure: f, Call: call, Parts: r.Parts, Cancelled: cancelled}
}

// lostBatch returns f, the reason why the results of the first requests of a batch are lost. If one of them may have changed
// something, f says that first.
func lostBatch(parts []Record, f *failure.Failure) *failure.Failure {
	for i := range parts {
		if parts[i].changed() {
			f.Answered = parts[i].Status
			f = httpcall.CarriedOut(f, true)
			f.Message = "The first " + strconv.Itoa(len(parts)) + " requests were carried out: do not send them again. Their results are lost: The memory for answers is full."
			f.Details = wire.Members(nil).Bool("carried_out", true).Int("requests", int64(len(parts))).End()
			return f
		}
	}
	return f
}
