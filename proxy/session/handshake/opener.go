package handshake

import (
	"crypto/rand"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Opener has what all handshakes share.
type Opener struct {
	*session.Table
	clash    nameCollision      // collisions of their names with those of the server's tools
	Instance sealed.ID          // the id of this process
	Replicas *replicas.Replicas // the other replicas
}

// NewOpener returns what the handshakes of a process share, with an id of its own.
func NewOpener(table *session.Table) *Opener {
	o := &Opener{Table: table, clash: nameCollision{turn: make(chan struct{}, 1)}}
	rand.Read(o.Instance[:]) // never fails
	return o
}

// Handshake processes one client's initialize: it sends it to the server and makes a session of the
// response. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization.
type Handshake struct {
	Opener *Opener
	pipes.Opening
	Pipe      bool               // the client is on a pipe
	bridged   *legacyclient.Conn // Conn, if the server alone is modern
	reached   legacyclient.Reach // how bridged reaches the server
	lanes     *session.Lanes     // beneath bridged; nil if the server is not on a pipe
	shared    bool               // Conn is a share of one process
	alone     bool               // there is no server, only dragoman's own tools
	Sender    downstream.Sender
	Bridges   bool   // the session may also be with a modern server
	Principal string // the principal; "" if it is not known
	Peer      string // the client's address; "" on a pipe
	Owner     sealed.Owner
	RunsFor   string // the client that the process is counted for

	vc    *translate.Revision
	asked string // the revision that the client asked for
	Facts wire.Facts
	Told  []mcp.Header    // of the response to the last initialize, for the client
	named string          // the server's session id
	tools [][]byte        // the server's tools, if readTools has read them
	Span  *telemetry.Call // of the client's initialize; nil for none

	Seen  *observe.Call // nil if the call is not observed
	Heard []mcp.Header  // of the client's request; nil on a pipe
}

// nameCollision holds the names that tools of the server and of adapters have in common.
type nameCollision struct {
	turn  chan struct{} // has a value while a goroutine checks the names
	at    time.Time     // the time of the last check; zero if there was none
	names []string
}

// log returns the logger for lines about the handshake.
func (h *Handshake) log() *zap.Logger { return h.Opener.Host.Log.With(trace.Fields(h.Header)...) }
