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
	again   *repeatable // the question to repeat once; nil for none
	here    bool        // dragoman answers it, and not the server
	answers chan []byte // receives the answer to a question of dragoman's own; nil for one of the server
	wanted  *wanted     // what shaping its result needs; nil for nothing

	// group and slot: the array that the request came in, and its place there.
	group *batchAnswers
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
