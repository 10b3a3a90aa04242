package adapterrt

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// call is the state of one request while it runs. Calls are pooled. A call owns
// everything in it, except the slices that point into the request's body.
type call struct {
	httpcall.Call
	env      envelope
	a        *adapter
	unknown  []string
	token    []byte        // the confirmation token of the request
	goOn     []byte        // the token that permits calls beyond a quota's pause
	inner    bool          // the request is part of a batch
	own      []file.Header // the caller's own credential for the API, nil for the adapter's
	single   bool          // the request came by a tool for this one operation
	trace    []file.Header
	send     credential.Send // sends the user to a login page; nil if the client cannot
	progress httpcall.Progress
	asked    time.Duration // time spent waiting for the user to answer
	waited   time.Duration // time spent waiting for a rate limit
	cached   string        // what the cache did: hit, miss, revalidated
}

// maxUnknownName is the largest number of bytes of a name in a list of unknown parameters.
const maxUnknownName = 128

// resolve finds the value of every declared parameter: in params, otherwise at the top
// level of the request. It collects undeclared parameters in c.unknown, except those
// whose names start with _, which are metadata.
func (c *call) resolve(a *adapter, op *file.Operation) *failure.Failure {
	c.a, c.Op = a, op
	c.unknown = c.unknown[:0]
	if n := len(op.Params); cap(c.Values) < n {
		c.Values = make([]httpcall.Value, n)
	} else {
		c.Values = c.Values[:n]
		clear(c.Values)
	}
	for i := range c.env.params {
		m := &c.env.params[i]
		if k, ok := op.Param(m.key); ok {
			c.env.repeated = c.env.repeated || c.Values[k].Inside
			c.Values[k] = httpcall.Value{Raw: m.raw, Kind: m.kind, Inside: true}
		} else if op.Category == file.Update && string(m.key) == "input" && m.kind == wire.Object {
			if f := c.lift(m.raw); f != nil {
				return f
			}
		} else if !c.noteToken(m) {
			c.stray(m.key)
		}
	}
	for i := range c.env.top {
		m := &c.env.top[i]
		switch string(m.key) {
		case "operation", "params", "operations", "adapter":
			continue
		}
		if k, ok := op.Param(m.key); !ok {
			if !c.noteToken(m) {
				c.stray(m.key)
			}
		} else if !c.Values[k].Inside {
			c.env.repeated = c.env.repeated || c.Values[k].Kind != wire.Absent
			c.Values[k] = httpcall.Value{Raw: m.raw, Kind: m.kind}
		}
	}
	return nil
}

func (c *call) stray(key []byte) {
	if len(key) > 0 && key[0] == '_' {
		return
	}
	name := string(key)
	if len(name) > maxUnknownName {
		name = clean.FirstRunes(name, maxUnknownName)
	}
	if slices.Contains(c.unknown, name) {
		return
	}
	if len(c.unknown) < httpcall.MaxUnknown {
		c.unknown = append(c.unknown, name)
	}
}

// lift takes the members of an update's "input" object as parameters, because some
// clients write an update that way.
func (c *call) lift(input []byte) (f *failure.Failure) {
	var unknown []string
	wire.Each(input, func(name, raw []byte) bool {
		k, ok := c.Op.Param(name)
		switch {
		case !ok:
			if len(unknown) < httpcall.MaxUnknown {
				unknown = append(unknown, clean.FirstRunes(string(name), maxUnknownName))
			}
		case c.Op.Params[k].Place == file.InPath:
			f = failure.InvalidValue(c.Op.Params[k].Name, "must not be part of input")
			return false
		case !c.Values[k].Inside:
			c.Values[k] = httpcall.Value{Raw: raw, Kind: wire.KindOf(raw), Inside: true}
		}
		return true
	})
	if f == nil && len(unknown) > 0 {
		f = httpcall.UnknownParams(c.Op, unknown)
		f.Code = failure.ValidationUnknownField
		f.Message = "Unknown field(s) in input for operation '" + c.Op.Name + "': " + strings.Join(unknown, ", ")
	}
	return f
}

// noteToken keeps m if it is a confirmation token or a quota token, and reports whether
// it is one.
func (c *call) noteToken(m *entry) bool {
	if string(m.key) == "_quota_continue" && m.kind == wire.String {
		c.goOn = wire.Unquoted(m.raw)
		return true
	}
	if c.Op.Builtin || c.a.guard.Verdict(c.Op) != guard.Confirm || m.kind != wire.String {
		return false
	}
	if string(m.key) != "_confirmation" && string(m.key) != "confirmation_token" {
		return false
	}
	c.token = []byte(strings.TrimSpace(string(wire.Unquoted(m.raw))))
	return true
}
