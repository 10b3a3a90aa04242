package callctx

import "context"

// valued is an Ender with one more value.
type valued struct {
	Ender
	key, value any
}

// Value implements [context.Context].
func (v *valued) Value(key any) any {
	if key == v.key {
		return v.value
	}
	return v.Ender.Value(key)
}

// WithValue is [context.WithValue] for a context of any type. If parent is an Ender, so is the result: what waits for its
// end then still costs little.
func WithValue(parent context.Context, key, value any) context.Context {
	if e, ok := parent.(Ender); ok {
		return &valued{e, key, value}
	}
	return context.WithValue(parent, key, value)
}
