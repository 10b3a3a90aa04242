package legacyclient

import (
	"bytes"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ended"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// state is what the store has of a session.
type state struct {
	Level         string   `json:"level,omitempty"`
	Subscriptions []string `json:"subscriptions,omitempty"` // in order
}

// shared is the part of a Conn whose state other replicas have, too. The zero value shares nothing.
type shared struct {
	store  *store.Store
	key    store.Key
	serial ended.Serial
	until  time.Time   // the session's id cannot be used after that
	stale  atomic.Bool // the state must be read before the next request

	turn   sync.Mutex // for reading and writing
	known  []byte     // the stored value, as it was last seen; nil for none
	behind bool       // a change could not be written
	pause  time.Time  // no reading before
	wanted []string   // stored subscriptions that begin with the next standing stream
}

// sharing are the sessions of a Bridge whose state is shared.
type sharing struct {
	store *store.Store
	self  []byte // tells the messages of this process from others
	stop  func()

	mu    sync.Mutex
	conns map[ended.Serial]sharer
}

// sharer is a session whose state is shared.
type sharer interface {
	// outdated says that another replica may have changed the state.
	outdated()
}

// changed receives the number of a session that a replica has changed.
func (s *sharing) changed(message []byte) {
	if len(message) < 16 || bytes.Equal(message[16:], s.self) {
		return
	}
	s.mu.Lock()
	c := s.conns[ended.Serial{Process: binary.BigEndian.Uint64(message), Number: binary.BigEndian.Uint64(message[8:])}]
	s.mu.Unlock()
	if c != nil {
		c.outdated()
	}
}

// missed notes that changes may have been missed.
func (s *sharing) missed() {
	s.mu.Lock()
	all := make([]sharer, 0, len(s.conns))
	for _, c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.outdated()
	}
}

func appendSerial(dst []byte, s ended.Serial) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, s.Process), s.Number)
}
