package proxy

import (
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// traceHeaders are the names of what says which trace a request belongs to. They
// go on as they came, and stand in every log line about the request. See
// https://www.w3.org/TR/trace-context/ and https://www.w3.org/TR/baggage/.
var traceHeaders = [...]string{"traceparent", "tracestate", "baggage"}

// maxTraced bounds what of one of them stands in a log line.
const maxTraced = 512

// traced is what header says of a trace, for the log.
func traced(header []upstream.Header) []zap.Field {
	var fields []zap.Field
	for _, h := range header {
		for _, name := range traceHeaders {
			if h.Name == name {
				fields = append(fields, zap.String(name, h.Value[:min(len(h.Value), maxTraced)]))
			}
		}
	}
	return fields
}

// log is where lines about x's message go.
func (x *exchange) log() *zap.Logger { return x.srv.log.With(traced(x.from)...) }

// timingHeader asks for Server-Timing on the answer.
const timingHeader = "X-Dragoman-Timing"

// stopwatch adds up where the time of an exchange goes.
type stopwatch struct {
	asked bool      // the client wants to know
	began time.Time // zero before the first start
	at    time.Duration

	parse     time.Duration // our looking at messages
	translate time.Duration // our rewriting them
	upstream  time.Duration // waiting for the server
}

func (w *stopwatch) start() {
	if w.began.IsZero() {
		w.began = time.Now()
		return
	}
	w.at = time.Since(w.began) // half of what Now costs
}

// now is the time of the last lap, or start.
func (w *stopwatch) now() time.Time { return w.began.Add(w.at) }

// lap adds the time since the last lap, or start, to what it was spent on.
func (w *stopwatch) lap(spent *time.Duration) {
	now := time.Since(w.began)
	*spent += now - w.at
	w.at = now
}

// appendTo appends a Server-Timing header if it was asked for. On a stream it
// tells of the time until its first event. See
// https://www.w3.org/TR/server-timing/#the-server-timing-header-field.
func (w *stopwatch) appendTo(h []mcp.Header) []mcp.Header {
	if !w.asked {
		return h
	}
	var v []byte
	for _, part := range []struct {
		name  string
		spent time.Duration
	}{{"parse", w.parse}, {"translate", w.translate}, {"upstream", w.upstream}} {
		if len(v) > 0 {
			v = append(v, ", "...)
		}
		v = append(append(v, part.name...), ";dur="...)
		v = strconv.AppendFloat(v, part.spent.Seconds()*1000, 'f', 3, 64)
	}
	return append(h, mcp.Header{Name: "Server-Timing", Value: string(v)})
}
