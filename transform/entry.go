package transform

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// An entry is a kept result, and what is needed of its call to read on.
type entry struct {
	handle   string
	owner    string // session and caller
	payer    string // the caller, or else the session, whose room it takes
	original []byte
	call     Call
	budget   int
	shown    int // units of the original that the answer showed
	expires  time.Time
	found    bool // another replica wrote it
}

// ErrGone says that a handle was not made here, is not this caller's, has
// expired, or is of another process. The error is the same for all of these.
var ErrGone = errors.New("this cursor is not known here: it has expired, or it belongs to another session or to another replica of the proxy")

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

func (e *entry) cost() int { return len(e.original) + len(e.call.Schema) + entryCost }

const (
	keyBytes    = 32
	handleBytes = 9   // 12 characters
	entryCost   = 512 // about how many bytes an entry takes beside its original
)
