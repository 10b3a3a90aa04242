package transform

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// write shares e, and removes the originals that had to make room for it. The
// answer does not wait for that: a client that reads on at once, at another
// replica, is why find looks twice.
func (s *Store) write(e *entry, evicted []string) {
	if s.shelf.writing.Add(1) > maxWriting {
		s.shelf.writing.Add(-1)
		s.shelf.replicas.Skipped()
		return
	}
	task := func() {
		defer s.shelf.writing.Add(-1)
		ctx := context.Background() // the call that made it may end before
		value, err := e.encode()
		if err != nil {
			s.shelf.replicas.Skipped()
			return
		}
		// What could not be written or removed is counted where that happens; the engine
		// forgets by itself what was not removed.
		_ = s.shelf.replicas.Put(ctx, nameOf(e.owner, e.handle), value, s.limits.TTL)
		if len(evicted) > 0 {
			_ = s.shelf.replicas.Delete(ctx, evicted...)
		}
	}
	if s.shelf.run == nil {
		task()
		return
	}
	s.shelf.run(task)
}

// find returns the original of a handle that another replica made.
func (s *Store) find(ctx context.Context, session, caller, handle string) (*entry, error) {
	if !isHandle(handle) {
		return nil, errGoneEverywhere
	}
	who := owner(session, caller)
	value, err := s.shelf.replicas.Get(ctx, nameOf(who, handle))
	if err == nil && value == nil {
		wait := time.NewTimer(lateWrite)
		defer wait.Stop()
		select {
		case <-wait.C:
			value, err = s.shelf.replicas.Get(ctx, nameOf(who, handle))
		case <-ctx.Done():
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrUnavailable, err)
	case value == nil:
		return nil, errGoneEverywhere
	}
	e, err := decodeEntry(value, s.limits.EntryMaxBytes)
	if err != nil || !s.now().Before(e.expires) {
		return nil, errGoneEverywhere
	}
	e.handle, e.found = handle, true
	e.call.Session, e.call.Caller = session, caller
	s.hold(e)
	return e, nil
}

// wireEntry is what the replicas share of an entry, before the original.
type wireEntry struct {
	Server    string  `json:"server,omitempty"`
	Tool      string  `json:"tool,omitempty"`
	Method    string  `json:"method,omitempty"`
	Schema    []byte  `json:"schema,omitempty"`
	Schemas   Schemas `json:"schemas,omitempty"`
	Narrowing string  `json:"narrowing,omitempty"`
	MaxTokens int     `json:"max_tokens,omitempty"`
	MoreName  string  `json:"more_name,omitempty"`
	Full      bool    `json:"full,omitempty"`
	Budget    int     `json:"budget,omitempty"`
	Shown     int     `json:"shown,omitempty"`
	Expires   int64   `json:"expires"` // Unix milliseconds
}

// entryVersion begins each value, so that replicas of different versions of
// this program do not misread one another.
const entryVersion = 1

// encode returns the entry as the replicas share it: what is needed of the call,
// and the original, compressed.
func (e *entry) encode() ([]byte, error) {
	c := &e.call
	head, err := json.Marshal(wireEntry{
		Server: c.Server, Tool: c.Tool, Method: c.Method, Schema: c.Schema, Schemas: c.Schemas, Narrowing: c.Narrowing,
		MaxTokens: c.MaxTokens, MoreName: c.MoreName, Full: c.Full, Budget: e.budget, Shown: e.shown, Expires: e.expires.UnixMilli(),
	})
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(binary.BigEndian.AppendUint32([]byte{entryVersion}, uint32(len(head))))
	out.Write(head)
	w, err := flate.NewWriter(out, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(e.original); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// decodeEntry is the reverse of encode. The original has at most this many bytes.
func decodeEntry(value []byte, most int) (*entry, error) {
	if len(value) < 5 || value[0] != entryVersion {
		return nil, errors.New("not an original of this version")
	}
	n := binary.BigEndian.Uint32(value[1:5])
	if uint64(n) > uint64(len(value)-5) {
		return nil, io.ErrUnexpectedEOF
	}
	var head wireEntry
	if err := json.Unmarshal(value[5:5+n], &head); err != nil {
		return nil, err
	}
	r := flate.NewReader(bytes.NewReader(value[5+n:]))
	defer r.Close()
	original, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(original) > most {
		err = errors.New("the original is larger than store.entry_max_bytes")
	}
	if err != nil {
		return nil, err
	}
	return &entry{
		original: original, budget: head.Budget, shown: head.Shown, expires: time.UnixMilli(head.Expires),
		call: Call{
			Server: head.Server, Tool: head.Tool, Method: head.Method, Schema: head.Schema, Schemas: head.Schemas,
			Narrowing: head.Narrowing, MaxTokens: head.MaxTokens, MoreName: head.MoreName, Full: head.Full,
		},
	}, nil
}
