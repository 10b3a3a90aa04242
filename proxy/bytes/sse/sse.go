// Package sse reads and writes bodies of type text/event-stream.
//
// See https://html.spec.whatwg.org/multipage/server-sent-events.html and, for
// how MCP uses them,
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http.
package sse

import (
	"bytes"
	"strconv"
	"time"
)

// Event is one server-sent event. Its slices belong to the reader that made it, which
// says how long they are valid.
type Event struct {
	ID    []byte        // value of the event's last id field
	HasID bool          // whether there was one; it may be empty
	Name  []byte        // value of the event field; empty means "message"
	Data  []byte        // values of the data fields, joined by "\n"; nil if there was none
	Retry time.Duration // reconnection time that the server asks for; 0 if it asks for none
}

// Message is the name of an event that has a message of MCP as its data. It is what the lack of a name means, but some published
// clients read only events that have it.
const Message = "message"

// space is the white space that JSON allows around a value.
const space = " \t\r\n"

// Heartbeat is a comment. It keeps a connection busy and carries no data.
const Heartbeat = ":\n\n"

// Append appends e to dst in the wire format, with the blank line that ends it. It writes
// Data as one line, without the white space around it and with a space for each line
// break: Data is JSON, in which line breaks stand only between tokens, and some readers
// take the first data line for the whole message. An ID or a Name with a line break, and
// an ID with a NUL, cannot be written and are left out.
//
// An event with an ID is written with a data field even if Data is empty: that is MCP's
// priming event. Append writes nothing for an event that has neither ID, Data nor Retry.
func Append(dst []byte, e Event) []byte {
	if !e.writesID() && e.Data == nil && e.Retry <= 0 {
		return dst
	}
	dst = appendFields(dst, e)
	if e.Data != nil || e.writesID() {
		dst = appendData(dst, e.Data)
	}
	return append(dst, '\n')
}

// AppendHead and Tail save a copy of large data: the event is what AppendHead appends,
// then e.Data as it is, then Tail. Data must be a single line with no white space around
// it.
func AppendHead(dst []byte, e Event) []byte {
	return append(appendFields(dst, e), "data: "...)
}

// Tail follows the data of an event that AppendHead began.
const Tail = "\n\n"

// SingleLine reports whether Append would write data as it is.
func SingleLine(data []byte) bool {
	return !hasBreak(data) && len(bytes.Trim(data, space)) == len(data)
}

// appendFields appends all fields of e except its data.
func appendFields(dst []byte, e Event) []byte {
	if len(e.Name) > 0 && !hasBreak(e.Name) {
		dst = appendField(dst, "event", e.Name)
	}
	if e.writesID() {
		dst = appendField(dst, "id", e.ID)
	}
	if e.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, int64((e.Retry+time.Millisecond-1)/time.Millisecond), 10)
		dst = append(dst, '\n')
	}
	return dst
}

// writesID reports whether e has an ID that can be written.
func (e *Event) writesID() bool {
	return e.HasID && bytes.IndexByte(e.ID, 0) < 0 && !hasBreak(e.ID)
}

func appendData(dst, data []byte) []byte {
	dst = append(dst, "data: "...)
	start := len(dst)
	dst = append(dst, bytes.Trim(data, space)...)
	for _, c := range []byte{'\n', '\r'} {
		rest := dst[start:]
		for {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return append(dst, '\n')
}

func appendField(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

func hasBreak(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}
