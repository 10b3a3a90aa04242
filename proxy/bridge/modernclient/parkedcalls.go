package modernclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// asking is a request that was sent to the server, and its exchange.
type asking struct {
	Exchange
	ctx      *callctx.Context // ends with stop
	stop     context.CancelCauseFunc
	crossing crossing.Crossing
	st       upstream.Stream // that Answer reads
	run      *taskRun        // nil if the call does not become a task here
	id       []byte          // at the server
	room     [idRoom]byte    // the memory of id
}

// readFrom makes st the stream of the server's messages.
func (x *asking) readFrom(st upstream.Stream) {
	x.st = st
	x.Read(st)
}

// isTask reports whether the server has answered the call with a task: then the end of the task's stream cancels that, and
// there is no call to cancel. See
// https://modelcontextprotocol.io/specification/2025-11-25/schema#cancellednotificationparams.
func (x *asking) isTask() bool { return x.run != nil && x.run.isTask() }

// refused reports whether err, with which x has ended, shows that the server has not begun it. If the server had made a task of it, it lost that with
// its session, and why says so.
func (x *asking) refused(err error) (unbegun bool, why error) {
	if !x.Unbegun(err) {
		return false, err
	}
	if !x.isTask() {
		return true, err
	}
	f := mcp.Fail(mcp.UpstreamLost, "")
	f.Text, f.Err = "the server has lost its session, and the task of the call with it", err
	return false, f
}

// undeclared returns the error that replaces the server's error response, or nil if the
// response is to be sent as it is. missing is the capability that the server's questions have lacked so far.
func (x *asking) undeclared(missing []byte) *mcp.Failure {
	if lacking := x.crossing.Lacking(); lacking != nil {
		missing = lacking
	}
	if missing == nil || x.Message().Kind != wire.Error {
		return nil
	}
	return lacking(missing)
}

// parkedCall is a call of a modern client to a handshake server that may ask the client something.
// The server's questions become the call's result, and the client calls again with the answers. In
// the meantime the call stays open at the server, and parkedCall reads its messages. See
// https://modelcontextprotocol.io/specification/2026-07-28/client/input-required.
type parkedCall struct {
	of     *parkedCalls
	id     sealed.ID          // set when the call is parked
	who    string             // the principal
	login  string             // whose credential the call was made with; set when the call is parked
	digest [sha256.Size]byte  // the digest that all requests of this call have in common
	first  *stateless.Request // the request that began the call
	from   []mcp.Header       // the headers of the newest request; guarded by mu
	b      *pooledSession
	x      *asking       // only the goroutine that reads uses it
	seen   *observe.Call // nil if the call is not observed; guarded by mu
	call   string        // the call's id at the server
	own    bool          // dragoman itself answers the call: the server has none
	cut    context.CancelCauseFunc

	began   time.Time
	reading reading

	mu      sync.Mutex
	asked   pendingQuestions   // see setAsked
	round   uint32             // the number of the last round in which the client was asked; 0 before
	inputs  []byte             // the client's answers to this round
	urls    bool               // the call has ended, and is repeated when the user has opened URLs
	box     *outbox.Outbox     // of the client's waiting request; nil while parked
	reply   *stateless.Request // the client's waiting request; nil while parked
	before  *telemetry.Call    // of the request that got the questions; nil for none
	kept    outbox.Kept        // messages for the client's next request
	parked  time.Time          // when the client was asked
	ends    time.Time          // when the wait for its answers ends
	timer   *time.Timer        // fires when the client is to be asked, or has not answered in time; nil while none runs
	silence *time.Timer        // is timer while the server is awaited, and calls silent; nil before
	limit   time.Duration      // how long the server may be silent until then
	late    bool               // a timer had fired before it was stopped, so that its function may still come
	answer  *outbox.Message    // the server's response, if it came while no request waited
	missing []byte             // the capability that the client must declare to be asked; nil for none
	held    *large.Holding     // counts what is kept while the call is parked; nil before it was
	owes    bool               // a call that will be repeated still has to be counted
	over    bool
}

// callMemory is what a call needs until the server has answered.
type callMemory struct {
	asking asking
	parked parkedCall
}

// reading says which goroutine reads what the server says about a parked call.
//
// At first that is the goroutine of the client's request, which for most calls has nothing else to do. A goroutine of
// the call's own takes over when something else must be waited for as well: when the server has asked, when another
// goroutine has a message for the client, and when the client leaves.
type reading struct {
	st       upstream.Stream // the stream
	here     *reader         // the request whose goroutine reads; nil for a goroutine of the call's own
	released bool            // release was called; used, like here, only by the goroutine that reads
}

// A reader is a request of the client whose goroutine reads.
type reader struct {
	ctx    context.Context // ends when the client leaves
	q      *stateless.Request
	client mcp.Peer
	box    *outbox.Outbox // the messages that come from other goroutines

	// If answered, the response came while the goroutine read: the call has ended, and its session and its exchange are the
	// reader's.
	answered bool
	response []byte
	status   int
	known    bool // something else may know the call
}

// parkedCalls holds the calls whose client was asked something. Their number is bounded, and so is
// how long each waits.
type parkedCalls struct {
	*Options
	pool *sessionPool

	mu      sync.Mutex
	byID    map[sealed.ID]*parkedCall
	repeats int           // requests that make a call again which is not in byID any more: their clients may be asked, and come back, once more
	none    chan struct{} // closed when there are none of these; nil if that is not awaited
	used    quota.Fair
}

func newParkedCalls(o *Options, pool *sessionPool) *parkedCalls {
	return &parkedCalls{Options: o, pool: pool, byID: make(map[sealed.ID]*parkedCall)}
}

// park adds d, whose client is asked. The error says that there are too many parked calls, or that they keep too much. d.mu must
// be held.
func (s *parkedCalls) park(d *parkedCall) error {
	if d.held == nil {
		d.held = s.Host.Memory().Holding()
	}
	if err := d.held.Resize(d.size()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[d.id] != nil {
		return nil
	}
	if !s.used.Acquire(d.first.Holder(d.who), s.Host.Config().Bridge.MaxParked) {
		return mcp.Fail(mcp.TooManyParked, "")
	}
	rand.Read(d.id[:])
	d.login = s.Proxy.Login()
	s.byID[d.id] = d
	return nil
}

// size returns how many bytes a parked call keeps, besides large messages, which are counted where they were copied. d.mu must
// be held.
func (d *parkedCall) size() int {
	n := len(d.inputs) + d.kept.Bytes()
	for _, q := range d.asked.open {
		n += len(q.Body) + len(q.ID)
	}
	for _, h := range d.from {
		n += len(h.Name) + len(h.Value)
	}
	if len(d.first.Raw) <= large.Size {
		n += len(d.first.Raw)
	}
	if d.answer != nil && len(d.answer.Body) <= large.Size {
		n += len(d.answer.Body)
	}
	return n
}

func (s *parkedCalls) drop(d *parkedCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[d.id] != nil {
		s.used.Release(d.first.Holder(d.who))
		delete(s.byID, d.id)
	}
	s.noteNone()
}

// repeating counts a request that makes a call again, until repeated is called for it.
func (s *parkedCalls) repeating() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeats++
}

func (s *parkedCalls) repeated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repeats--
	s.noteNone()
}

// noteNone tells that there are no parked calls, if that is so. s.mu must be held.
func (s *parkedCalls) noteNone() {
	if s.none != nil && s.holdsNone() {
		close(s.none)
		s.none = nil
	}
}

// holdsNone reports whether there are no parked calls, and none that are made again. s.mu must be held.
func (s *parkedCalls) holdsNone() bool { return len(s.byID)+s.repeats == 0 }

// awaitNone waits until there are no parked calls, or until ctx ends.
func (s *parkedCalls) awaitNone(ctx context.Context) {
	s.mu.Lock()
	if s.holdsNone() {
		s.mu.Unlock()
		return
	}
	if s.none == nil {
		s.none = make(chan struct{})
	}
	none := s.none
	s.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

func (s *parkedCalls) count(c *Counts) {
	for _, d := range s.list() {
		c.Parked++
		d.mu.Lock()
		if d.answer != nil {
			c.Answered++
		}
		d.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Shares += s.used.Held()
}

func (s *parkedCalls) list() []*parkedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byID))
}

// asked returns the questions that wait for their clients.
func (s *parkedCalls) asked() (list []Parked) {
	for _, d := range s.list() {
		d.mu.Lock()
		if d.box == nil { // else the client is not asked yet
			for _, q := range d.asked.open {
				list = append(list, Parked{q.Method, d.parked, d.ends, d.seen})
			}
		}
		d.mu.Unlock()
	}
	return list
}
