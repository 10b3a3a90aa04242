package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ProtocolAdapter translates messages between two revisions, one at a time. Requests go from the source revision to
// the target; responses and notifications come back from the target to the source. [Table.NewAdapter] returns
// dragoman's own; other packages may implement it for what they translate themselves.
//
// An implementation is safe for concurrent use, keeps no state between calls, and neither changes nor keeps the
// messages that it gets. Every error is a [*ProtocolError].
type ProtocolAdapter interface {
	// SourceVersion returns the revision of incoming requests. It never changes.
	SourceVersion() *Revision
	// TargetVersion returns the revision of outgoing requests. It never changes.
	TargetVersion() *Revision
	// TranslateRequest translates a request of the source revision to the target revision.
	TranslateRequest(request []byte) (Translated, error)
	// TranslateResponse translates a response of the target revision to the source revision. method is that of the
	// request that it answers: a response does not name it.
	TranslateResponse(response []byte, method wire.Method) (Translated, error)
	// TranslateNotification translates a notification of the target revision to the source revision.
	TranslateNotification(notification []byte) (Translated, error)
}

// Translated is what became of a message. If it has neither a Message nor a Reply, the other revision has no such
// message, and nothing is sent.
type Translated struct {
	Message []byte // for the other peer; it may be the very slice that was translated
	Reply   []byte // for the peer that sent the message: the other one has no use for it
	// Losses are what was removed or changed, each with the level at which it should be logged.
	Losses []wire.Loss
}

// The kinds of a [ProtocolError], for errors.Is.
var (
	// ErrJSON: the message is not JSON, or not JSON-RPC.
	ErrJSON = errors.New("JsonError")
	// ErrTranslation: the message cannot be translated.
	ErrTranslation = errors.New("TranslationError")
	// ErrMissingRequiredField: the other revision needs a member that cannot be derived. The cause is a
	// [*MissingRequiredField].
	ErrMissingRequiredField = errors.New("MissingRequiredField")
)

// errStateful is the cause for a message whose translation needs what was said before it.
var errStateful = errors.New("its translation needs the state of the session, which an adapter does not have")

// ProtocolError says which message could not be translated, and why.
type ProtocolError struct {
	Kind     error     // ErrJSON, ErrTranslation or ErrMissingRequiredField
	From, To *Revision // of this message: those of a response are the other way round than those of its request
	Method   string    // of a response: that of its request. "" if it could not be read
	Path     string    // of the value at fault: "result.contents[0]"; "" for the message
	Cause    error
}

// Error names the kind, the revisions, the method, the path and the cause.
func (e *ProtocolError) Error() string {
	var of strings.Builder
	for _, part := range []string{e.Method, e.Path} {
		if part != "" {
			fmt.Fprintf(&of, ", %s", part)
		}
	}
	return fmt.Sprintf("%v (%v to %v%s): %v", e.Kind, e.From, e.To, &of, e.Cause)
}

// Unwrap returns the kind and the cause.
func (e *ProtocolError) Unwrap() []error { return []error{e.Kind, e.Cause} }

// Adapter is the [ProtocolAdapter] that translates as dragoman does. It returns messages between equal revisions as they
// are, without reading them. The proxy itself uses [Table] and [wire.Message], which also carry stamps and notes.
type Adapter struct {
	out, back *Translator
	facts     wire.Facts
}

var _ ProtocolAdapter = Adapter{}

// NewAdapter returns the adapter from source to target. facts is what the client and the server have declared in
// their handshake, as far as it is known.
func (t *Table) NewAdapter(source, target *Revision, facts wire.Facts) Adapter {
	return Adapter{out: t.Between(source, target), back: t.Between(target, source), facts: facts}
}

// SourceVersion returns the revision of incoming requests, in O(1).
func (a Adapter) SourceVersion() *Revision { return a.out.from }

// TargetVersion returns the revision of outgoing requests, in O(1).
func (a Adapter) TargetVersion() *Revision { return a.out.to }

// TranslateRequest implements [ProtocolAdapter].
func (a Adapter) TranslateRequest(request []byte) (Translated, error) {
	return a.translate(a.out, request, wire.OtherMethod, wire.Request)
}

// TranslateResponse implements [ProtocolAdapter].
func (a Adapter) TranslateResponse(response []byte, method wire.Method) (Translated, error) {
	return a.translate(a.back, response, method, wire.Result, wire.Error)
}

// TranslateNotification implements [ProtocolAdapter].
func (a Adapter) TranslateNotification(notification []byte) (Translated, error) {
	return a.translate(a.back, notification, wire.OtherMethod, wire.Notification)
}

func (a Adapter) translate(t *Translator, message []byte, method wire.Method, kinds ...wire.Kind) (Translated, error) {
	if t.Identity() {
		return Translated{Message: message}, nil
	}
	m := wire.Message{Facts: a.facts}
	err := m.Scan(slices.Clone(message), t.Shape())
	name := methodName(&m) // before the rewrite, which may move the text
	if method != wire.OtherMethod {
		m.Method, name = method, method.String()
	}
	if err != nil {
		return Translated{}, t.protocolError(name, err)
	}
	if !slices.Contains(kinds, m.Kind) {
		return Translated{}, t.protocolError(name, fmt.Errorf("a %v is not expected here", m.Kind))
	}
	out, verdict, err := t.Rewrite(nil, &m)
	switch {
	case err != nil:
		return Translated{}, t.protocolError(name, err)
	case verdict == wire.Local:
		return Translated{}, t.protocolError(name, errStateful)
	case verdict == wire.Answer:
		return Translated{Reply: out, Losses: m.Losses}, nil
	}
	return Translated{Message: out, Losses: m.Losses}, nil
}

// protocolError returns the error for a message that was not translated because of cause.
func (t *Translator) protocolError(method string, cause error) *ProtocolError {
	e := &ProtocolError{Kind: ErrTranslation, From: t.from, To: t.to, Method: method, Cause: cause}
	if _, ok := errors.AsType[*wire.EnvelopeError](cause); ok {
		e.Kind = ErrJSON
	}
	if rule, ok := errors.AsType[*Error](cause); ok {
		e.Path, e.Cause = rule.Path, rule.Cause
	}
	if _, ok := errors.AsType[*MissingRequiredField](e.Cause); ok {
		e.Kind = ErrMissingRequiredField
	}
	return e
}
