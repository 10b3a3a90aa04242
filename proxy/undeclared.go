package proxy

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// If the server asks a question for which the client has not declared the capability, dragoman answers
// the question in the client's place, and the call continues. If the call then fails, the client
// receives an error that names the missing capability. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes.

// requiredFor returns the capability that a client must declare to be asked this, as the data of an error.
// It returns nil if method is not a question.
func requiredFor(method wire.Method, question []byte) []byte {
	params := gjson.GetBytes(question, "params")
	required := ""
	switch method {
	case wire.RootsList:
		required = `"roots":{}`
	case wire.SamplingCreateMessage:
		required = `"sampling":{}`
		if params.Get("tools").Exists() || params.Get("toolChoice").Exists() {
			required = `"sampling":{"tools":{}}`
		}
	case wire.ElicitationCreate:
		required = `"elicitation":{"form":{}}`
		if params.Get("mode").String() == "url" {
			required = `"elicitation":{"url":{}}`
		}
	default:
		return nil
	}
	return []byte(`{"requiredCapabilities":{` + required + `}}`)
}

// noteUnasked notes that a request of the server was answered in the client's place.
func (e *crossing) noteUnasked(method wire.Method, question []byte) {
	if e == nil {
		return
	}
	required := requiredFor(method, question)
	switch {
	case required == nil:
	case e.lacks != nil:
		e.lacks(required)
	default:
		e.missing = required
	}
}

// lacks notes, for the newest call in which the server may ask, that its client lacks a capability.
func (b *pooledSession) lacks(required []byte) {
	b.mu.Lock()
	talks := slices.Clone(b.inFlight)
	b.mu.Unlock()
	if n := len(talks); n > 0 {
		talks[n-1].lacks(required)
	}
}

func (d *parkedCall) lacks(required []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missing = required
}

// undeclared returns the error that replaces the server's error response that x has read, or nil if the
// response is to be sent as it is.
func (x *exchange) undeclared(missing []byte) *mcp.Failure {
	if x.crossing.missing != nil {
		missing = x.crossing.missing
	}
	if missing == nil || x.msg.Kind != wire.Error {
		return nil
	}
	f := mcp.Fail(mcp.CapabilityMissing, "")
	f.Data = missing
	return f
}
