package idmap

import (
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Progress is how far a request has come. A request that is sent once more begins anew at the server, but its sender has made only one,
// whose progress must increase with each notification. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress#behavior-requirements.
type Progress struct {
	Again atomic.Bool // the request was sent more than once

	last  float64
	begun bool // there is a last
}

// Rises notes the notification m, and reports whether the sender is to get it: after another sending only what is beyond the last.
func (p *Progress) Rises(m *wire.Message) bool {
	value := gjson.Get(wire.View(m.Params()), "progress")
	if value.Type != gjson.Number {
		return true
	}
	if p.Again.Load() && p.begun && value.Num <= p.last {
		return false
	}
	p.last, p.begun = value.Num, true
	return true
}
