package store

import (
	"fmt"
	"strings"
)

// Key names a value. Kind says what it is, in lower-case letters and underscores; the operator of the engine can read it. Name
// may be anything, and is hidden.
type Key struct{ Kind, Name string }

// check refuses a key that a mistake in the program has made.
func (k Key) check() error {
	if k.Kind == "" || len(k.Kind) > maxKind || strings.Trim(k.Kind, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return fmt.Errorf("store: %q is no kind of a key", k.Kind)
	}
	if len(k.Name) > maxName {
		return fmt.Errorf("%w: the name of a key of kind %s has %d bytes", ErrTooLarge, k.Kind, len(k.Name))
	}
	return nil
}

func (k Key) use() []byte { return []byte(k.Kind + "\x00" + k.Name) }

const (
	maxKind = 24
	maxName = 4 << 10
	// overhead is the largest difference between a value and what the engine keeps of it.
	overhead = tagBytes + 12 + 16
)

// tagBytes is the length of the tag that begins each value. It lets the engine compare a value with one that it cannot read.
const tagBytes = 16
