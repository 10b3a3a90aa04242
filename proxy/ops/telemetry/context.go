package telemetry

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
)

// spanContext names a span, in this process or in another one. The zero value names none.
type spanContext struct {
	trace  [16]byte
	span   [8]byte
	flags  byte   // of https://www.w3.org/TR/trace-context-2/#trace-flags
	remote bool   // it came in a message
	state  string // tracestate, as it came
}

// These are the flags that are known.
const (
	flagSampled = 1 << 0
	flagRandom  = 1 << 1
)

// These bound tracestate. See https://www.w3.org/TR/trace-context-2/#tracestate-limits.
const (
	maxState   = 512
	maxMembers = 32
)

func (c *spanContext) valid() bool   { return c.trace != [16]byte{} && c.span != [8]byte{} }
func (c *spanContext) sampled() bool { return c.flags&flagSampled != 0 }

// same reports whether both name the same span.
func (c *spanContext) same(as *spanContext) bool { return c.trace == as.trace && c.span == as.span }

// parseContext returns the span that a traceparent names; the zero value if it is invalid, as
// https://www.w3.org/TR/trace-context-2/#traceparent-header says. An invalid state is left out.
func parseContext(parent, state string) (c spanContext) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	var version [1]byte
	var flags [1]byte
	switch {
	case len(parent) < length, parent[2] != '-', parent[35] != '-', parent[52] != '-',
		!decode(version[:], parent[:2]), version[0] == 0xff, // a later version may have more members
		version[0] == 0 && len(parent) != length, len(parent) > length && parent[length] != '-',
		!decode(c.trace[:], parent[3:35]), !decode(c.span[:], parent[36:52]), !decode(flags[:], parent[53:55]), !c.valid():
		return spanContext{}
	}
	c.flags, c.remote = flags[0]&(flagSampled|flagRandom), true
	if isState(state) {
		c.state = strings.Clone(state)
	}
	return c
}

// decode decodes lower-case hexadecimal digits.
func decode(dst []byte, digits string) bool {
	if strings.ContainsAny(digits, "ABCDEF") {
		return false
	}
	_, err := hex.Decode(dst, []byte(digits))
	return err == nil
}

// isState reports whether a tracestate can be sent on.
func isState(s string) bool {
	return len(s) <= maxState && strings.Count(s, ",") < maxMembers && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// appendTo appends the traceparent that names c.
func (c *spanContext) appendTo(dst []byte) []byte {
	dst = hex.AppendEncode(append(dst, "00-"...), c.trace[:])
	dst = hex.AppendEncode(append(dst, '-'), c.span[:])
	return hex.AppendEncode(append(dst, '-'), []byte{c.flags})
}

// below returns the context of a new sampled span below parent; the beginning of a new trace if parent is none.
func below(parent *spanContext) spanContext {
	c := spanContext{trace: parent.trace, flags: parent.flags | flagSampled, state: parent.state}
	for !parent.valid() && c.trace == [16]byte{} {
		binary.BigEndian.PutUint64(c.trace[:8], rand.Uint64())
		binary.BigEndian.PutUint64(c.trace[8:], rand.Uint64())
	}
	for c.span == [8]byte{} {
		binary.BigEndian.PutUint64(c.span[:], rand.Uint64())
	}
	return c
}
