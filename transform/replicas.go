package transform

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"sync/atomic"
	"time"
)

// Replicas keeps the originals of cut results where all replicas of the proxy
// find them. Its methods are safe for concurrent use, take one round trip, and
// return soon whatever happens. They keep none of their arguments.
type Replicas interface {
	// Put keeps a value under a name for a time, in place of what was there.
	Put(ctx context.Context, name string, value []byte, ttl time.Duration) error
	// Get returns the value of a name, or nil if there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Delete removes the values of names.
	Delete(ctx context.Context, names ...string) error
	// Skipped notes that an original was not kept, because too many are being
	// written.
	Skipped()
}

// ErrUnavailable says that a handle may be another replica's, and that what the
// replicas share cannot be read now.
var ErrUnavailable = errors.New("another replica of the proxy may have the rest of this result, and the store that the replicas share does not answer now")

// errGoneEverywhere is [ErrGone] for a store that all replicas share.
var errGoneEverywhere error = goneEverywhere{}

type goneEverywhere struct{}

func (goneEverywhere) Error() string {
	return "no replica of the proxy knows this cursor: it has expired, or it belongs to another session, or the rest could not be stored when the result was cut"
}

func (goneEverywhere) Is(err error) bool { return err == ErrGone }

const (
	maxWriting = 32                     // originals that are being written at once
	lateWrite  = 100 * time.Millisecond // the time in which another replica's write arrives
)

// A shelf is a Store's access to what the replicas share.
type shelf struct {
	replicas Replicas
	run      func(task func()) // runs a write beside the answer; nil to run it before
	writing  atomic.Int32
}

// nameOf returns the name under which the replicas share an original. It
// contains the session and the caller: a handle of another one leads nowhere.
func nameOf(owner, handle string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + handle))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// isHandle reports whether a text can be a handle, so that others cause no
// look-up.
func isHandle(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(b) == handleBytes
}
