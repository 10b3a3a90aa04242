package translate

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// strip removes a member that the receiver's revision does not have.
func strip(x *pass, n wire.Node) {
	x.lost(n, stripLevel(n))
	n.Remove()
}

// stripDefault removes a member that the receiver's revision does not have. A value that the receiver assumes without it is no loss.
func stripDefault(x *pass, n wire.Node) {
	level := stripLevel(n)
	for _, value := range assumed(x.rule.What) {
		if wire.Equal(n.Raw(), value) {
			level = wire.Assumed
			break
		}
	}
	x.lost(n, level)
	n.Remove()
}

var (
	noExecution = [][]byte{[]byte(`{"taskSupport":"forbidden"}`), []byte(`{}`)}
	formMode    = [][]byte{[]byte(`"form"`)}
	newDialect  = [][]byte{[]byte(`"https://json-schema.org/draft/2020-12/schema"`)}
)

// assumed returns the defaults of the member that a rule is about.
func assumed(what string) [][]byte {
	switch what {
	case "execution":
		return noExecution
	case "mode":
		return formMode
	case "$schema":
		return newDialect
	}
	return nil
}

// stripHints removes the annotations of a tool. Hints that a client assumes without them are no loss.
func stripHints(x *pass, annotations wire.Node) {
	level := stripLevel(annotations)
	if annotations.Kind() == '{' && !annotations.Hollow() {
		level = wire.Assumed
		wire.Each(annotations.Raw(), func(name, value []byte) bool {
			if string(value) != defaultHint(name) {
				level = wire.Warn
			}
			return level == wire.Assumed
		})
	}
	x.lost(annotations, level)
	annotations.Remove()
}

// defaultHint returns the default of a tool's hint, or "" if there is no hint of that name
// (https://modelcontextprotocol.io/specification/2025-03-26/server/tools#tool).
func defaultHint(name []byte) string {
	switch string(name) {
	case "destructiveHint", "openWorldHint":
		return "true"
	case "readOnlyHint", "idempotentHint":
		return "false"
	}
	return ""
}

// stripLevel returns the level of the loss of n: Info for an empty value, else Warn.
func stripLevel(n wire.Node) wire.Level {
	if n.Hollow() {
		return wire.Info
	}
	return wire.Warn
}

// drop drops a notification that the receiver's revision does not have.
func drop(x *pass, n wire.Node) {
	x.lost(n, wire.Warn)
	x.verdict = wire.Drop
}

// methodNotFound answers the request with error -32601, since the receiver's revision does not have the
// method.
func methodNotFound(x *pass, n wire.Node) {
	x.lost(n, wire.Info)
	x.answerError(-32601, "Method not found: "+x.m.Method.String())
}

// answerError answers the request with an error, instead of sending it to the receiver.
func (x *pass) answerError(code int, message string) {
	x.dst = append(x.dst, `{"jsonrpc":"2.0","id":`...)
	x.dst = append(x.dst, x.m.ID()...)
	x.dst = fmt.Appendf(x.dst, `,"error":{"code":%d,"message":"`, code)
	x.dst = wire.AppendQuotedInner(x.dst, message)
	x.dst = append(x.dst, `"}}`...)
	x.verdict = wire.Answer
}

// answerResult answers the request with a result, instead of sending it to the receiver.
func (x *pass) answerResult(result string) {
	x.dst = append(x.dst, `{"jsonrpc":"2.0","id":`...)
	x.dst = append(x.dst, x.m.ID()...)
	x.dst = append(x.dst, `,"result":`...)
	x.dst = append(x.dst, result...)
	x.dst = append(x.dst, '}')
	x.verdict = wire.Answer
}

// nonEmpty returns a string value without its quotes. ok is false if the string is empty or n is not a string.
func nonEmpty(n wire.Node) (raw []byte, ok bool) {
	raw, ok = n.Text()
	return raw, ok && len(raw) > 0
}

// elements returns the first element of an array, or the zero Node if n is not an array or has no elements.
func elements(n wire.Node) wire.Node {
	if !n.OK() || n.Kind() != '[' {
		return wire.Node{}
	}
	return n.First()
}

// carriesTasks reports whether tasks are bridged between the two revisions and the server has tasks.
func (x *pass) carriesTasks() bool {
	return bridgesTasks(x.t.options) && !x.t.from.SameEra(x.t.to) && x.m.Facts.Has(wire.ServerTasks)
}
