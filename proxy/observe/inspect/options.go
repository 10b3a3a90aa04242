package inspect

import (
	"io/fs"
	"net"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// Options are what the page shows and which visitors may see it.
type Options struct {
	Ring *observe.Ring
	// Observer fills Ring while a page is open, or always if Keep is set. It is nil for a ring that was read from a file.
	Observer *observe.Observer
	Keep     bool
	File     string // the name of that file
	Files    fs.FS  // of the page; page.html is the page itself

	Token    string // which every request for data must carry
	Redactor observe.Redactor
	// AllowsHost reports whether a request that came in at local may name host.
	AllowsHost func(host string, local net.Addr) bool

	Version, Replica string
	Started          time.Time
	Payloads         string        // masked or none
	Live             func() Live   // may be nil
	Endpoint         func() string // URL that clients of HTTP use; may be nil
	Watching         func(Watcher) // called when a page is opened or closed; may be nil
	Export           ExportHeader  // of an export
}

// Watcher is a browser that has the page open.
type Watcher struct {
	Address string
	Ended   bool
	For     time.Duration // how long, when it ended
	Why     string        // why it was cut off; "" if the watcher has left
}

// Live is what only the proxy itself knows of its state.
type Live struct {
	Connections int
	Sessions    map[string]LiveSession // by fingerprint
	Parked      []Parked
	Replicas    []Replica
}

// LiveSession is a session that has not ended.
type LiveSession struct {
	Peers   observe.Peers
	Since   time.Time
	Open    int // calls
	Streams int
	Asking  int
}

// Parked is a question to a client that waits for its answer.
type Parked struct {
	Method  string    `json:"method"`
	Session string    `json:"session,omitempty"`
	Client  string    `json:"client,omitempty"`
	Server  string    `json:"server,omitempty"`
	Tool    string    `json:"tool,omitempty"` // that the call names
	Since   time.Time `json:"since"`
	Ends    time.Time `json:"ends,omitzero"`
	Call    uint64    `json:"call,omitempty"`
}

// Replica is another process of dragoman.
type Replica struct {
	Address   string `json:"address"`
	Reachable *bool  `json:"reachable,omitempty"` // whether the last attempt to reach it succeeded; nil if there was none
	Forwarded uint64 `json:"forwarded"`
}

// ExportHeader is what the first line of an export says.
type ExportHeader struct {
	Version       string
	Configuration func() string // returns the digest of the configuration; nil for none
}
