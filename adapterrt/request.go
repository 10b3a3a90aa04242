package adapterrt

import (
	"context"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Endpoint is the endpoint that received a request: its adapter and its category. The
// zero value accepts operations of all adapters and categories.
type Endpoint struct {
	Adapter  string
	Category file.Category
	tool     string // the name of the MCP tool that was called; "" for a plain endpoint
	single   bool   // the tool calls this one operation, so that its arguments are the parameters
	lenient  bool   // values that are sent as text are read
}

// Request is one request to an operation.
type Request struct {
	Body    []byte // {"operation":…,"params":{…}}; the caller's, not kept
	ID      string // for _meta and logs; "" for none
	Grant   string // what the caller may use; "" for everything
	Session string // confirmations are bound to it
	Caller  string // confirmations are bound to it if there is no session
	// Headers are the headers of the caller's request that Options.Callers names.
	Headers []file.Header
	// Local says that the caller is the operator: that user has started this program, so that the
	// adapters' own credentials are the caller's.
	Local bool
	// Ask asks the user to agree to an operation that needs a confirmation. It is nil if
	// the user cannot be asked. It returns an error if the user gave no answer.
	Ask func(ctx context.Context, question string) (agreed bool, err error)
	// Send sends the user to the login page of an adapter. The login is stored for all
	// callers, so Send is nil unless all callers are one person and the client can show a
	// page.
	Send credential.Send
	// Progress is called for each item of an answer that arrives item by item, and not
	// after Dispatch has returned. It is nil if the client did not ask for progress. It is
	// not called for a batch.
	Progress httpcall.Progress
	// Trace holds the headers of the trace that the request belongs to:
	// https://www.w3.org/TR/trace-context/. Only traceparent and tracestate are sent to the
	// API. Baggage is not, because it may contain what other callers must not see.
	Trace []file.Header
	// Shape, unless nil, may replace Data and add Warnings in the result of an adapter's
	// operation that succeeded. For a batch, it is called for the result of each request.
	Shape func(r *Result)
}
