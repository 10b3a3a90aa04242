package proxy

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// calls holds the open requests of one session in one direction; a call is one of them.
type (
	call  = requests.Request[besideCall]
	calls = requests.Table[besideCall]
)

// besideCall is what dragoman keeps with an open request.
type besideCall struct {
	again   *repeatable     // the question to ask once more if the answer does not fit; nil for none
	here    bool            // dragoman answers it, and not the server
	answers chan []byte     // receives the answer to a question of dragoman's own; nil for one of the server
	span    *telemetry.Call // nil if the request has no spans
	seen    *observe.Call   // nil if the call is not observed
	wanted  *shape.Wanted   // what shaping needs to know when the result comes; nil if the result is not shaped

	tool *metrics.Tool // the tool that it calls, in metrics; nil for none

	// group and slot are the batch that the request came in, and the index of its response.
	group *batchAnswers
	slot  int
}

// Cancelled implements requests.More.
func (b besideCall) Cancelled() {
	if b.group != nil {
		b.group.put(b.slot, nil)
	}
}

// newCall returns a call for the request with the given id, which begins now.
func newCall(id []byte, m wire.Method) *call { return newCallAt(id, m, time.Now()) }

func newCallAt(id []byte, m wire.Method, began time.Time) *call {
	return requests.New[besideCall](id, m, began)
}

func newCalls(max int) *calls { return requests.NewTable[besideCall](max) }

// ended counts a request of a client that has ended, and ends its spans and its observation.
func (srv *sessions) ended(c *call, o *metrics.Operation) {
	srv.metrics.Request(o)
	c.More.span.End(string(o.Outcome), string(o.Fault.Cause))
	c.More.seen.End(string(o.Outcome), string(o.Fault.Cause))
}
