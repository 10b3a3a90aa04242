package translate

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Error says which message could not be translated, by which rule, and why. The message's sender gets the error
// code -32603 with the text of Error as message (C40).
type Error struct {
	From, To *Revision
	Kind     wire.Kind
	Method   wire.Method
	Rule     string // "C41"; "" if the error is not from a rule
	Path     string // "result.contents[0]"
	Cause    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("translation %s->%s failed for %s: %s: %v", e.From, e.To, e.Method, e.Path, e.Cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// MissingRequiredField is the cause of an Error if the receiver's revision requires a member that cannot be derived.
type MissingRequiredField struct{ Field, Type string }

func (e *MissingRequiredField) Error() string {
	return fmt.Sprintf("MissingRequiredField{%s, %s}", e.Field, e.Type)
}
