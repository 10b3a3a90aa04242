package translate

import (
	"errors"
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Adapter implements the protocol adapter contract with a pair of translators. Requests go from the source
// revision to the target; responses and notifications come back from the target to the source. An Adapter is two
// pointers, holds no state, and is safe for concurrent use. The proxy itself uses [Table] and [wire.Message],
// which also carry stamps, notes and losses.
type Adapter struct {
	out, back *Translator
}

// NewAdapter is the contract's factory. If the revisions are equal, the calls of the adapter return their input.
func (t *Table) NewAdapter(source, target *Revision) Adapter {
	return Adapter{out: t.Between(source, target), back: t.Between(target, source)}
}

// SourceVersion returns the revision of incoming requests, in O(1).
func (a Adapter) SourceVersion() *Revision { return a.out.from }

// TargetVersion returns the revision of outgoing requests, in O(1).
func (a Adapter) TargetVersion() *Revision { return a.out.to }

// The kinds of error of the contract. Every error of an Adapter is one of them, by errors.Is. The details are in
// an *Error or a *wire.EnvelopeError, by errors.As.
var (
	// ErrJSON: the message is not JSON, or not JSON-RPC.
	ErrJSON = errors.New("JsonError")
	// ErrTranslation: the message cannot be translated.
	ErrTranslation = errors.New("TranslationError")
	// ErrMissingRequiredField: the other revision needs a member that cannot be derived.
	ErrMissingRequiredField = errors.New("MissingRequiredField")
	// ErrDropped: the other revision has no such message, so that a notification is dropped and a request has
	// to be answered by the caller. Such an error is also an ErrTranslation.
	ErrDropped = errors.New("the other revision has no such message")
)

// TranslateRequest translates a request of the source revision to the target revision. It does not change
// message, and returns message itself if the revisions are equal.
func (a Adapter) TranslateRequest(message []byte, facts wire.Facts) ([]byte, error) {
	return a.out.translate(message, facts, wire.OtherMethod, wire.Request)
}

// TranslateResponse translates a response of the target revision to the source revision. method is that of the
// request that the response answers.
func (a Adapter) TranslateResponse(message []byte, method wire.Method, facts wire.Facts) ([]byte, error) {
	return a.back.translate(message, facts, method, wire.Result, wire.Error)
}

// TranslateNotification translates a notification of the target revision to the source revision.
func (a Adapter) TranslateNotification(message []byte, facts wire.Facts) ([]byte, error) {
	return a.back.translate(message, facts, wire.OtherMethod, wire.Notification)
}

func (t *Translator) translate(message []byte, facts wire.Facts, method wire.Method, kinds ...wire.Kind) ([]byte, error) {
	if t.Identity() {
		return message, nil
	}
	m := wire.Message{Facts: facts}
	if err := m.Scan(append([]byte(nil), message...), t.Shape()); err != nil {
		return nil, errors.Join(ErrJSON, t.ScanError(&m, err))
	}
	if !slices.Contains(kinds, m.Kind) {
		return nil, errors.Join(ErrTranslation, errors.New("a "+m.Kind.String()+" is not expected here"))
	}
	if m.Kind.Response() {
		m.Method = method
	}
	out, verdict, err := t.Rewrite(nil, &m)
	var missing *MissingRequiredField
	switch {
	case errors.As(err, &missing):
		return nil, errors.Join(ErrMissingRequiredField, err)
	case err != nil:
		return nil, errors.Join(ErrTranslation, err)
	case verdict != wire.Forward:
		return nil, errors.Join(ErrTranslation, ErrDropped)
	}
	return out, nil
}
