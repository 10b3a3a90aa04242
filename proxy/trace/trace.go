// Package trace says which trace a request belongs to, and where its time goes.
//
// What a request brings of https://www.w3.org/TR/trace-context/ goes on as it came and stands
// in every log line about it. A Stopwatch adds up what a client may ask to be told.
package trace

import (
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Headers are the names of what says which trace a request belongs to. They
// go on as they came, and stand in every log line about the request. See
// https://www.w3.org/TR/trace-context/ and https://www.w3.org/TR/baggage/.
var Headers = [...]string{"traceparent", "tracestate", "baggage"}

// MaxLogged bounds what of one of them stands in a log line, in bytes.
const MaxLogged = 512

// Fields are what header says of a trace, for the log.
func Fields(header []upstream.Header) []zap.Field {
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

// TimingHeader asks for Server-Timing on the answer.
const TimingHeader = "X-Dragoman-Timing"

// Stopwatch adds up where the time of an exchange goes. The zero one has not begun.
type Stopwatch struct {
	Asked bool      // the client wants to know
	began time.Time // zero before the first Start
	at    time.Duration

	Parse     time.Duration // our looking at messages
	Translate time.Duration // our rewriting them
	Upstream  time.Duration // waiting for the server
}

// Start begins the first lap, or another one without counting the time since the last.
func (w *Stopwatch) Start() {
	if w.began.IsZero() {
		w.began = time.Now()
		return
	}
	w.at = time.Since(w.began) // half of what Now costs
}

// Began is the time of the first Start.
func (w *Stopwatch) Began() time.Time { return w.began }

// Now is the time of the last Lap, or Start.
func (w *Stopwatch) Now() time.Time { return w.began.Add(w.at) }

// Lap adds the time since the last Lap, or Start, to what it was spent on.
func (w *Stopwatch) Lap(spent *time.Duration) {
	now := time.Since(w.began)
	*spent += now - w.at
	w.at = now
}

// AppendTo appends a Server-Timing header if it was asked for. On a stream it
// tells of the time until its first event. See
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
