package openapi

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// anonymous reports whether the document says that an operation needs no credential: security is an empty list, or one that has
// only the empty alternative. An operation of which nothing is said is not anonymous, because many documents forget to say it.
func (op *rawOperation) anonymous() bool {
	if !op.security.is(wire.Array) {
		return false
	}
	for _, a := range op.security.kids {
		if !a.is(wire.Object) || len(a.keys) > 0 {
			return false
		}
	}
	return true
}

// mostScopes is the largest number of scopes that the format of adapters has for an operation.
const mostScopes = 50

// isPrintable reports whether a scope is one that the format of adapters has.
func isPrintable(s string) bool {
	return s != "" && len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}
