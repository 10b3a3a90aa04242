package exchange

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/session"
)

// TestCallIsResumableUntilItsCancellationIsSent: its stream, which knows the server's id of the request, is needed until then.
func TestCallIsResumableUntilItsCancellationIsSent(t *testing.T) {
	open := session.NewCalls(10)
	call := &session.Call{ID: "1", Key: "1"}
	if err := open.Add(call); err != nil {
		t.Fatal(err)
	}
	c := &resumableCall{call: call, open: open}
	call.Sends()
	if call.Recall() || c.Cancelled() {
		t.Error("the call counts as cancelled before the server has the cancellation")
	}
	open.CancelThis(call)
	if !c.Cancelled() {
		t.Error("the call does not count as cancelled")
	}
}
