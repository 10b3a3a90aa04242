package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAdvice(t *testing.T) {
	for text, want := range map[string]string{
		"dial tcp 127.0.0.1:6399: connect: connection refused":         "check store.url; does it run",
		"tls: failed to verify certificate: x509: unknown":             "check store.ca_file",
		"NOAUTH Authentication required.":                              "set store.password_file",
		"WRONGPASS invalid username-password pair or user is disabled": "check store.username",
		"NOPERM this user has no permissions":                          "check the database in store.url",
	} {
		err := fmt.Errorf("%w: %s", ErrUnavailable, text)
		if strings.ToUpper(text[:2]) == text[:2] {
			err = fmt.Errorf("%w: %s", ErrRejected, text)
		}
		if got := Advice(fmt.Errorf("join replicas: %w", err)); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %q", err, got)
		}
	}
	for _, err := range []error{nil, ErrFull, ErrAbsent, errors.New("x")} {
		if got := Advice(err); got != "" {
			t.Errorf("%v: %q", err, got)
		}
	}
}
