package metrics

import (
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Outcome is how a request of a client ended.
type Outcome string

const (
	Succeeded Outcome = "ok"         // the server answered with a result
	ToolError Outcome = "tool_error" // the server answered with a result that says isError
	Errored   Outcome = "error"      // the server answered with a JSON-RPC error
	Local     Outcome = "local"      // dragoman answered instead of the server
	Refused   Outcome = "refused"    // the request could not be sent to the server
	Failed    Outcome = "failed"     // the server gave no answer
	Cancelled Outcome = "cancelled"  // the request was cancelled before its answer
	Left      Outcome = "left"       // the client disconnected before the answer

	// inputRequired is a result that asks for the call to be made again, with answers. Only
	// the last round of a call is counted.
	inputRequired Outcome = "input_required"
)

// OutcomeOf returns how the request that m answers has ended.
func OutcomeOf(m *wire.Message) Outcome {
	switch {
	case m.Kind == wire.Error:
		return Errored
	case m.InputRequired:
		return inputRequired
	case m.ToolError:
		return ToolError
	}
	return Succeeded
}

// once returns the value at p, which it finds if there is none yet. Concurrent calls may
// find the same value more than once, which does no harm.
func once[T any](p *atomic.Pointer[T], find func() T) *T {
	if v := p.Load(); v != nil {
		return v
	}
	v := find()
	p.Store(&v)
	return &v
}

// unknownRevision is the label for a server that has not named its revision.
const unknownRevision = "unknown"
