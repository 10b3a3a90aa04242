package metrics

import (
	"maps"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The names and labels of operations and sessions are those of OpenTelemetry's semantic conventions for
// MCP (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md), as
// Prometheus writes them. To its clients dragoman is the server of the conventions, and to its server a
// client.
var (
	ofOperation = []string{"mcp_method_name", "gen_ai_tool_name", "error_type", "rpc_response_status_code", "mcp_protocol_version", "network_transport"}
	ofSession   = []string{"error_type", "mcp_protocol_version", "network_transport"}
)

// Fault is why a request failed. The zero Fault is that of a request that did not fail, or of which no more
// is known than its outcome.
type Fault struct {
	Cause failures.Cause // "" if the server answered with an error
	Code  int            // of the JSON-RPC error; 0 for none
}

// FaultOf returns the fault of a response, which is zero unless m is an error.
func FaultOf(m *wire.Message) Fault {
	if m.Kind != wire.Error {
		return Fault{}
	}
	code, err := strconv.Atoi(string(wire.Member(m.Error(), "code")))
	if err != nil {
		return Fault{Code: otherCode}
	}
	return Fault{Code: code}
}

// otherFault is the value of the conventions for errors that have no name here.
const otherFault = "_OTHER"

// otherCode stands for codes that metrics do not name: servers may choose any.
const otherCode = 1

// named has the codes of JSON-RPC and of all revisions of MCP.
var named = map[int]string{
	-32700: "-32700", -32600: "-32600", -32601: "-32601", -32602: "-32602", -32603: "-32603",
	-32000: "-32000", -32001: "-32001", -32002: "-32002", -32042: "-32042",
	-32020: "-32020", -32021: "-32021", -32022: "-32022",
}

// Operation is a request of a client that has ended.
type Operation struct {
	Client, Server *translate.Revision // Server is nil if it is not known
	Method         wire.Method
	Tool           *Tool // nil unless the request calls a tool
	Outcome        Outcome
	Fault          Fault
	Began          time.Time     // when the request came
	Waited         time.Duration // from sending the request to the server until its answer came; 0 if it was not sent
	Trace          string        // the id of the trace, if it is sampled
}

// failure returns the values of error_type and rpc_response_status_code.
func (o *Operation) failure() (kind, code string) {
	if o.Fault.Code != 0 {
		code = otherFault
		if name := named[o.Fault.Code]; name != "" {
			code = name
		}
	}
	switch o.Outcome {
	case Succeeded, Local, inputRequired:
		return "", ""
	case ToolError:
		return string(ToolError), ""
	case Cancelled:
		return string(failures.Cancelled), ""
	case Left:
		return string(failures.ClientLeft), ""
	}
	switch {
	case o.Fault.Cause != "":
		return string(o.Fault.Cause), code
	case code != "":
		return code, code
	}
	return otherFault, ""
}

// Ends says how the process is connected: to its clients, and to its server.
type Ends struct {
	Client, Server string // network.transport: pipe or tcp
	Address        string // the host of the server; "" on a pipe
}

// operations count the requests of clients.
type operations struct {
	requests *prometheus.CounterVec
	server   *prometheus.HistogramVec
	client   *prometheus.HistogramVec
	sessions struct{ server, client *prometheus.HistogramVec }

	mu    sync.Mutex
	named int // label sets that have a tool of its own
	found atomic.Pointer[found]
}

// found has what the counters of operations are for the current ends. It is replaced and never changed.
type found struct {
	Ends
	of map[operation]*observers
}

// operation has what a request is counted by.
type operation struct {
	client, server *translate.Revision
	method         wire.Method
	tool           *Tool
	outcome        Outcome
	fault          Fault
}

// maxFound is how many observers are kept. Others are looked up for each request.
const maxFound = 4096

// observers are where operations with the same labels are counted.
type observers struct {
	requests prometheus.Counter                  // nil for a round of a request
	server   prometheus.Observer                 // nil for a round of a request
	client   atomic.Pointer[prometheus.Observer] // nil until a request was sent to the server

	named struct{ server, client exemplars }

	tool, kind, code string
}

// exemplars says when durations of a histogram have got an exemplar, in nanoseconds: those under a millisecond, and those
// between each power of two of milliseconds and the next. Prometheus reads exemplars every few seconds, and one costs more
// than the observation.
type exemplars [20]atomic.Int64

// exemplarEvery is how often similar durations get another exemplar.
const exemplarEvery = time.Second

// due reports whether a duration gets an exemplar now.
func (e *exemplars) due(d time.Duration) bool {
	n := min(bits.Len64(uint64(max(d, 0)/time.Millisecond)), len(e)-1)
	now, last := time.Now().UnixNano(), e[n].Load()
	return now-last >= int64(exemplarEvery) && e[n].CompareAndSwap(last, now)
}

func newOperations(f factory) *operations {
	o := &operations{
		requests: f.counters("dragoman_requests_total",
			"Calls of clients, by the revisions of client and server, method and outcome. A call that is sent again or answered in several rounds counts once.",
			"client", "server", "method", "outcome"),
		server: f.durations("mcp_server_operation_duration_seconds",
			"Time from a client's request to the end of its answer.", ofServer, ofOperation...),
		client: f.durations("mcp_client_operation_duration_seconds",
			"Time from sending a request to the server until its answer came.", ofClient, append(ofOperation[:len(ofOperation):len(ofOperation)], "server_address")...),
	}
	o.found.Store(new(found))
	o.sessions.server = f.durations("mcp_server_session_duration_seconds", "Duration of clients' sessions that have ended.", ofSessions, ofSession...)
	o.sessions.client = f.durations("mcp_client_session_duration_seconds", "Duration of sessions with the server that have ended.", ofSessions, ofSession...)
	return o
}

// Connect notes how the process is connected. Later operations have these labels.
func (m *operations) Connect(e Ends) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found.Load().Ends != e {
		m.found.Store(&found{Ends: e})
	}
}

// Request counts a request that has ended.
func (m *operations) Request(o *Operation) {
	if o.Outcome == inputRequired {
		m.Sent(o)
		return
	}
	at, ends := m.at(o)
	at.requests.Inc()
	observe(at.server, time.Since(o.Began), o.Trace, &at.named.server)
	m.sent(o, at, ends)
}

// Sent counts a request to the server that has ended: one of the rounds of a client's request, if
// that takes several.
func (m *operations) Sent(o *Operation) {
	if o.Waited > 0 {
		at, ends := m.at(o)
		m.sent(o, at, ends)
	}
}

func (m *operations) sent(o *Operation, at *observers, ends Ends) {
	if o.Waited <= 0 || o.Server == nil {
		return
	}
	observe(*once(&at.client, func() prometheus.Observer {
		return m.client.WithLabelValues(o.Method.String(), at.tool, at.kind, at.code, o.Server.Name, ends.Server, ends.Address)
	}), o.Waited, o.Trace, &at.named.client)
}

// observe adds a duration to a histogram, with the id of its trace if that is known and an exemplar is due.
func observe(at prometheus.Observer, d time.Duration, trace string, named *exemplars) {
	if trace == "" || !named.due(d) {
		at.Observe(d.Seconds())
		return
	}
	at.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": trace})
}

// at returns where an operation is counted, and the current ends.
func (m *operations) at(o *Operation) (*observers, Ends) {
	key := operation{o.Client, o.Server, o.Method, o.Tool, o.Outcome, o.Fault}
	if key.fault.Code != 0 && named[key.fault.Code] == "" {
		key.fault.Code = otherCode
	}
	now := m.found.Load()
	if at := now.of[key]; at != nil {
		return at, now.Ends
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now = m.found.Load()
	if at := now.of[key]; at != nil {
		return at, now.Ends
	}
	full := len(now.of) >= maxFound
	at := &observers{tool: o.Tool.Label()}
	at.kind, at.code = o.failure()
	switch {
	case o.Tool == nil || o.Tool == other || o.Tool == unknown:
	case full || m.named >= maxNamed:
		at.tool = otherTools
	default:
		m.named++
	}
	if o.Outcome != inputRequired {
		server := unknownRevision
		if o.Server != nil {
			server = o.Server.Name
		}
		at.requests = m.requests.WithLabelValues(o.Client.Name, server, o.Method.String(), string(o.Outcome))
		at.server = m.server.WithLabelValues(o.Method.String(), at.tool, at.kind, at.code, o.Client.Name, now.Client)
	}
	if !full {
		all := make(map[operation]*observers, len(now.of)+1)
		maps.Copy(all, now.of)
		all[key] = at
		m.found.Store(&found{now.Ends, all})
	}
	return at, now.Ends
}

// Session is a session that has ended.
type Session struct {
	Client, Server *translate.Revision // nil if there was no session of this side
	Began          time.Time
	Cause          failures.Cause // why it ended; "" if a peer or dragoman ended it in order
}

// SessionEnded counts a session.
func (m *operations) SessionEnded(s Session) {
	ends, took := m.found.Load().Ends, time.Since(s.Began).Seconds()
	if s.Client != nil {
		m.sessions.server.WithLabelValues(string(s.Cause), s.Client.Name, ends.Client).Observe(took)
	}
	if s.Server != nil {
		m.sessions.client.WithLabelValues(string(s.Cause), s.Server.Name, ends.Server).Observe(took)
	}
}
