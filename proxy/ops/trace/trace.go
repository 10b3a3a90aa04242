// Package trace says which trace a request belongs to, and measures where its time
// goes.
//
// The headers of https://www.w3.org/TR/trace-context/ are forwarded as they came, and
// every log line about the request has them. A Stopwatch measures the times that a
// client can ask for.
package trace

import (
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Headers are the names of the headers that say which trace a request belongs to. They
// are forwarded as they came, and every log line about the request has them. See
// https://www.w3.org/TR/trace-context/ and https://www.w3.org/TR/baggage/.
var Headers = [...]string{"traceparent", "tracestate", "baggage"}

// MaxLogged is how many bytes of one of these headers a log line has at most.
const MaxLogged = 512

// Fields returns the log fields for the trace headers among header.
func Fields(header []mcp.Header) []zap.Field {
	var fields []zap.Field
	for _, h := range header {
		for _, name := range Headers {
			if h.Name == name {
				fields = append(fields, zap.String(name, h.Value[:min(len(h.Value), MaxLogged)]))
			}
		}
	}
	return fields
}

// TimingHeader is the request header by which a client asks for Server-Timing in the
// response.
const TimingHeader = "X-Dragoman-Timing"

// Stopwatch measures where the time of an exchange goes. The zero value has not
// started.
type Stopwatch struct {
	Asked bool      // the client sent TimingHeader
	began time.Time // zero before the first Start
	at    time.Duration
	sent  time.Duration // the begin of the first lap of Upstream
	heard time.Duration // the end of the last lap of Upstream; 0 before the first one

	Parse     time.Duration // dragoman scans messages
	Translate time.Duration // dragoman rewrites messages
	Upstream  time.Duration // dragoman waits for the server
}

// Start starts the first lap. Later calls start another lap, and the time since the
// last lap does not count.
func (w *Stopwatch) Start() {
	if w.began.IsZero() {
		w.began = time.Now()
		return
	}
	w.at = time.Since(w.began) // costs half of what time.Now does
}

// Began returns the time of the first Start.
func (w *Stopwatch) Began() time.Time { return w.began }

// Now returns the time of the last Lap or Start.
func (w *Stopwatch) Now() time.Time { return w.began.Add(w.at) }

// Lap adds the time since the last Lap or Start to spent.
func (w *Stopwatch) Lap(spent *time.Duration) {
	now := time.Since(w.began)
	*spent += now - w.at
	if spent == &w.Upstream {
		if w.heard == 0 {
			w.sent = w.at
		}
		w.heard = now
	}
	w.at = now
}

// Waited returns the time from the begin of the first lap of Upstream to the end of the last one; 0 if there was
// none. Unlike Upstream it has what happened in between, such as the client's answer to a question.
func (w *Stopwatch) Waited() time.Duration { return w.heard - w.sent }

// AppendTo appends a Server-Timing header if the client asked for it. On a stream it
// covers the time until the first event. See
// https://www.w3.org/TR/server-timing/#the-server-timing-header-field.
func (w *Stopwatch) AppendTo(h []mcp.Header) []mcp.Header {
	if !w.Asked {
		return h
	}
	var v []byte
	for _, part := range []struct {
		name  string
		spent time.Duration
	}{{"parse", w.Parse}, {"translate", w.Translate}, {"upstream", w.Upstream}} {
		if len(v) > 0 {
			v = append(v, ", "...)
		}
		v = append(append(v, part.name...), ";dur="...)
		v = strconv.AppendFloat(v, part.spent.Seconds()*1000, 'f', 3, 64)
	}
	return append(h, mcp.Header{Name: "Server-Timing", Value: string(v)})
}
