package store

import (
	"errors"
	"strings"
)

// Advice returns what an operator can do about an error of a store; "" for errors that are about one operation.
func Advice(err error) string {
	if !errors.Is(err, ErrUnavailable) {
		return ""
	}
	text := err.Error()
	switch rejected := errors.Is(err, ErrRejected); {
	case rejected && strings.Contains(text, "NOAUTH"):
		return "set store.password_file or store.password"
	case rejected && (strings.Contains(text, "WRONGPASS") || strings.Contains(text, "without any password")):
		return "check store.username, and store.password_file or store.password"
	case rejected:
		return "check the database in store.url, and what the user of store.username may do; docs/replicas.md has the ACL"
	case strings.Contains(text, "x509:") || strings.Contains(text, "tls:"):
		return "check store.ca_file, and that the store speaks TLS at this port"
	}
	return "check store.url; does it run, and may this machine reach it (firewall, network policy)? dragoman doctor looks for the cause"
}

// IsDown reports whether err is of a store that does not answer.
func IsDown(err error) bool { return errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRejected) }
