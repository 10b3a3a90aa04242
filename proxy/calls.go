package proxy

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A call is an open request of either direction, and calls are those of a session.
type (
	call  = requests.Request[besideCall]
	calls = requests.Table[besideCall]
)

// besideCall is what we keep with an open request.
type besideCall struct {
	again   *again      // what asking it once more takes; nil where that is not to be
	here    bool        // it is answered here, and not by the server
	answers chan []byte // who asked the client this is one of us; nil for the server
	wanted  *wanted     // what shaping its result needs; nil for nothing

	// group and slot: the array that the request came in, and its place there.
	group *group
	slot  int
}

// Cancelled implements requests.More.
func (b besideCall) Cancelled() {
	if b.group != nil {
		b.group.put(b.slot, nil)
	}
}

// newCall is the call of a request with the given id, which begins now.
func newCall(id []byte, m wire.Method) *call { return newCallAt(id, m, time.Now()) }

func newCallAt(id []byte, m wire.Method, began time.Time) *call {
	return requests.New[besideCall](id, m, began)
}

func newCalls(max int) *calls { return requests.NewTable[besideCall](max) }
