package store

import (
	"errors"
	"fmt"
)

// Errors of a Store. They are compared with errors.Is.
var (
	ErrAbsent      = errors.New("the store has no such value")
	ErrUnavailable = errors.New("the store is unavailable")
	ErrFull        = errors.New("the store is full")
	ErrTooLarge    = errors.New("the value is too large for the store")
	ErrHeld        = errors.New("the lock is held")
)

var (
	errRefused    = errors.New("refused")
	errUnreadable = fmt.Errorf("%w: what is there was not sealed with this key_file for this key", ErrAbsent)
	errBusy       = fmt.Errorf("%w: too many operations wait for it", ErrUnavailable)
	errSkipped    = fmt.Errorf("%w: it has not answered lately", ErrUnavailable)
)

// ErrRejected is an ErrUnavailable: the engine has answered, and refused the operation, for example because it wants another
// password. The error says how.
var ErrRejected = fmt.Errorf("%w: it refuses the operation", ErrUnavailable)

// classified makes an engine's error one of the errors of a Store. What an engine does not name is a failure to reach it.
func classified(err error) error {
	for _, known := range []error{nil, errRefused, ErrAbsent, ErrFull, ErrTooLarge, ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
