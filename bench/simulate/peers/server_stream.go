package peers

import (
	"bytes"
	"strconv"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
)

// serverStream is where messages about one request go, or those about none: the output of a process, or events over HTTP. Those of
// Streamable HTTP are kept, so that a client can ask for what it missed.
type serverStream struct {
	box     *outbox // of a process
	process *serverProcess

	x      *serverExchange // the response over which it goes at present; nil for none
	event  string          // the name of its events, over HTTP+SSE
	name   string          // its events have ids: name, a dot, a number
	primes bool            // it begins with an event that has only an id
	kept   [][]byte        // nil for the event that primes
	told   bool            // the client knows an id
	over   bool

	batch [][]byte // messages that are sent together
	joins *Server  // not nil if answers are sent together with what comes within a moment
}

// connection returns the number of the connection over which it goes at present.
func (st *serverStream) connection() int {
	if st.x != nil {
		return st.x.c.n
	}
	return 0
}

// failure says why what is sent does not come to its client at once: "kept" until the client asks for it, "no stream" for ever. It is ""
// if it comes.
func (st *serverStream) failure() string {
	switch {
	case st.box != nil || st.x != nil:
		return ""
	case st.told && !st.over:
		return "kept"
	}
	return "no stream"
}

// batchTime is how long a message waits for others of its array.
const batchTime = 2 * time.Millisecond

// collect sends a message, together with those that follow within a moment, and with the answer if that comes.
func (st *serverStream) collect(s *Server, raw []byte) {
	if st.batch = append(st.batch, raw); len(st.batch) > 1 {
		return
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		time.Sleep(batchTime)
		if s.o.Turn != nil {
			s.o.Turn("batch " + st.name)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		st.flush()
	}()
}

// flush sends what is collected.
func (st *serverStream) flush() {
	all := st.batch
	if st.batch = nil; len(all) > 0 {
		st.send(joined(all))
	}
}

// joined makes one text of messages: an array, or the only one.
func joined(all [][]byte) []byte {
	if len(all) == 1 {
		return all[0]
	}
	return append(append([]byte{'['}, bytes.Join(all, []byte(","))...), ']')
}

// send sends a message, behind those that are collected: in one array with them.
func (st *serverStream) send(raw []byte) {
	if len(st.batch) > 0 {
		raw = joined(append(st.batch, raw))
		st.batch = nil
	}
	if st.box != nil {
		st.box.send(append(raw[:len(raw):len(raw)], '\n'))
		return
	}
	if st.over {
		return
	}
	st.begin()
	id := st.keep(raw)
	if st.x != nil {
		st.x.write(appendChunk(nil, appendEvent(nil, id, st.event, raw)))
	}
}

func (st *serverStream) begin() {
	x := st.x
	if x == nil || x.begun {
		return
	}
	x.begun = true
	x.write(appendHead(nil, statusLine(200), "Content-Type", "text/event-stream", "Cache-Control", "no-cache",
		"Mcp-Session-Id", x.session, "Transfer-Encoding", "chunked", "Connection", x.connection()))
	if st.primes && len(st.kept) == 0 {
		x.write(appendChunk(nil, appendEvent(nil, st.keep(nil), "", nil)))
	}
}

// keep returns the id of the next event.
func (st *serverStream) keep(raw []byte) string {
	if st.name == "" {
		return ""
	}
	st.kept = append(st.kept, raw)
	st.told = st.told || st.x != nil
	return st.name + "." + strconv.Itoa(len(st.kept))
}

// answer sends the answer to the request of a stream, as one body if that is wanted and nothing came before it.
func (st *serverStream) answer(raw []byte, status int, body bool) {
	if x := st.x; st.event == "" && x != nil && !x.begun && len(st.batch) == 0 && (body || status != 200) {
		st.over = true
		x.respond(status, raw, "Content-Type", "application/json")
		return
	}
	if st.joins != nil {
		st.collect(st.joins, raw)
		return
	}
	st.send(raw)
	st.finish()
}

// body sends the answer to the request of a stream as one body if it can, in an odd way: see script.Behind and script.Lines.
func (st *serverStream) body(raw []byte, how string) {
	x := st.x
	if st.event != "" || x == nil || x.begun || len(st.batch) > 0 {
		st.answer(raw, 200, true)
		return
	}
	st.over = true
	if how == script.Lines {
		x.respond(200, raw, "Content-Type", "application/json")
		return
	}
	whole := appendBody(nil, statusLine(200), raw, "Content-Type", "application/json", "Mcp-Session-Id", x.session, "Connection", x.connection())
	x.begun = true
	x.write(append(whole, whole...)) // it could be taken for the answer to the next request
	x.end()
}

// finish ends the stream of one request.
func (st *serverStream) finish() {
	if st.event == "" {
		st.end()
	}
}

// end ends a stream as HTTP has it. A process ends otherwise.
func (st *serverStream) end() {
	if st.box != nil {
		return
	}
	st.flush()
	st.over = true
	st.pause()
}

// pause ends the response over which it goes at present.
func (st *serverStream) pause() {
	st.flush()
	if x := st.x; x != nil {
		st.begin()
		x.write([]byte(lastChunk))
		x.end()
	}
}

// cut ends a connection, or a process, within a message.
func (st *serverStream) cut(raw []byte) {
	st.flush()
	x := st.x
	switch {
	case st.box != nil:
		st.box.send(raw[:len(raw)/2])
		st.process.end(errDied, false)
		return
	case x != nil && !x.begun:
		whole := appendBody(nil, statusLine(200), raw, "Content-Type", "application/json", "Mcp-Session-Id", x.session)
		x.write(whole[:len(whole)-len(raw)/2-1])
	case x != nil:
		chunk := appendChunk(nil, appendEvent(nil, st.keep(raw), st.event, raw))
		x.write(chunk[:len(chunk)/2])
	default:
		st.keep(raw)
	}
	st.over = true
	if x != nil {
		x.c.box.close()
	}
}

const serverGarbage = "this is no JSON"

// garbage sends something that is no message.
func (st *serverStream) garbage() {
	st.flush()
	if st.box != nil {
		st.box.send([]byte(serverGarbage + "\n"))
	} else if st.begin(); st.x != nil {
		st.x.write(appendChunk(nil, appendEvent(nil, "", st.event, []byte(serverGarbage))))
	}
}
