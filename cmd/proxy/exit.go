package main

import "errors"

// exitError ends the process with a code that scripts can tell apart.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// exitCode is the code that a command's error ends the process with.
func exitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	}
	return 1
}
