package pipes

import "errors"

// A RestartError says that the server's process has ended and that another one is about to take its
// place. The requests sent to it are lost; the session goes on.
type RestartError struct {
	Err  error                 // how the process ended
	Held func(key string) bool // reports whether the request with this key was not sent yet, and waits; nil if none does
}

func (e *RestartError) Error() string { return e.Err.Error() }
func (e *RestartError) Unwrap() error { return e.Err }

// Restarts reports whether err is the end of a process and not the end of a session.
func Restarts(err error) bool {
	_, ok := errors.AsType[*RestartError](err)
	return ok
}

// Spares reports whether the request of this key survives err: it was not sent yet, and waits for the
// restarted server.
func Spares(err error, key string) bool {
	e, ok := errors.AsType[*RestartError](err)
	return ok && e.Held != nil && e.Held(key)
}
