package pipes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxEarly bounds how many notifications a server may send before it answers the first request, and maxEarlyBytes their bytes:
// they wait for the client's standing stream.
const (
	maxEarly      = 64
	maxEarlyBytes = 1 << 20
)

// EndTimeout bounds how long the end of a session or of a connection may take.
const EndTimeout = 10 * time.Second

// ServerAgain returns how long a pooled session that began without the server, which could not be reached, is that of new requests. took is how
// long the server was tried.
func ServerAgain(took time.Duration) time.Duration { return max(10*time.Second, took) }

// LeaveTime is how long the end of dragoman itself waits for a server over HTTP to answer DELETE.
const LeaveTime = 500 * time.Millisecond

// NoticeTimeout bounds how long it may take to send the server a notice that needs no answer, such as
// notifications/cancelled.
const NoticeTimeout = 2 * time.Second

// Opening is a connection to a server whose first request is not answered yet: initialize or
// server/discover.
type Opening struct {
	upstream.Begun              // zero before the first message is sent
	Header         []mcp.Header // of the client's request; they may be secrets
	ID             []byte       // of the request, raw JSON
	Sent           []byte       // the request as it was sent last
	Early          [][]byte     // notifications that came before the response
	early          int          // bytes of all of them
	NoRoots        bool         // a roots/list of the server is answered with an empty list
	Of             Opener
}

// Opener receives what goes wrong on an [Opening].
type Opener interface {
	// MaxBatch returns how many messages an array of the server may have.
	MaxBatch() int
	// Malformed reports a text that is not a message, and returns the error of the request if no other
	// response comes.
	Malformed(err error, raw []byte, header []mcp.Header) error
	// Quirk counts that a quirk of the server was handled.
	Quirk(mcp.Quirk)
	// UnknownResponse reports a response to another request.
	UnknownResponse(m *wire.Message, header []mcp.Header)
	// Undelivered reports that an answer to a request of the server was not sent.
	Undelivered(err error, header []mcp.Header)
}

// Await reads st until the response to the request. Before it, servers may only send notifications and
// pings. Await answers pings and stores notifications in Early; most other requests get an error.
func (o *Opening) Await(ctx context.Context, st upstream.Stream) (*wire.Message, error) {
	return o.AwaitAny(ctx, st, o.ID)
}

// AwaitAny reads st until the response to one of the requests with these ids, or an error response without
// an id. The message owns its memory. A response that cannot be read is its request's: if there is none left, AwaitAny
// returns the error of [Opener.Malformed].
func (o *Opening) AwaitAny(ctx context.Context, st upstream.Stream, ids ...[]byte) (*wire.Message, error) {
	answered := func(m *wire.Message) bool {
		return slices.ContainsFunc(ids, func(id []byte) bool { return IsAbout(m, id) })
	}
	var pieces [][]byte
	var answer *wire.Message
	ids = slices.Clone(ids) // of the requests that can still be answered
	var bad error           // of the last text that was not a message
	for e, err := range Before(ctx, st) {
		if bad != nil && errors.Is(err, io.EOF) {
			return nil, bad
		}
		if spread, is := errors.AsType[*upstream.SpreadError](err); is {
			bad = o.Of.Malformed(err, nil, o.Header)
			ids = slices.DeleteFunc(ids, func(id []byte) bool { return isID(spread.Answers, id) })
			if len(ids) == 0 {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if !CarriesMessages(&e) {
			continue
		}
		e.Data = unmarked(e.Data, o.Of)
		pieces = append(pieces[:0], e.Data)
		if wire.IsArray(e.Data) {
			if pieces, err = wire.AppendElements(pieces[:0], e.Data, o.Of.MaxBatch()); err != nil {
				return nil, err
			}
		}
		for _, piece := range pieces {
			if len(bytes.TrimSpace(piece)) == 0 {
				continue // an event that only has an id
			}
			m := new(wire.Message)
			err := m.Scan(bytes.Clone(piece), nil)
			if err != nil && wire.Mend(m.Raw) {
				o.Of.Quirk(mcp.NullMember)
				err = m.Scan(m.Raw, nil)
			}
			if err != nil {
				bad = o.Of.Malformed(err, piece, o.Header)
				ids = slices.DeleteFunc(ids, func(id []byte) bool { return isBrokenAnswer(piece, id) })
				if len(ids) == 0 && answer == nil {
					return nil, bad
				}
				continue
			}
			if id := textOfOne(m, ids); id != nil {
				o.Of.Quirk(mcp.TextID)
				PutID(m, id)
				if err := m.Scan(m.Raw, nil); err != nil {
					return nil, err
				}
			}
			switch {
			case m.Kind == wire.Request:
				o.reply(ctx, m)
			case m.Kind == wire.Notification:
				if o.early += len(m.Raw); len(o.Early) < maxEarly && o.early <= maxEarlyBytes {
					o.Early = append(o.Early, m.Raw)
				}
			case answer == nil && (m.Kind == wire.Error && (m.ID() == nil || string(m.ID()) == "null") || answered(m)):
				answer = m // behind it, the array may have more
			default:
				o.Of.UnknownResponse(m, o.Header)
			}
		}
		if answer != nil {
			return answer, nil
		}
	}
	return nil, io.EOF
}

// textOfOne returns the id of the only request of which the response m has the text as its id, or nil. No request has that very
// text as its id.
func textOfOne(m *wire.Message, ids [][]byte) (of []byte) {
	if !m.Kind.Response() || !idmap.AsText(m) {
		return nil
	}
	for _, id := range ids {
		switch {
		case isID(m.ID(), id):
			return nil
		case isTextOf(m.ID(), id):
			of = id
		}
	}
	return of
}

// isBrokenAnswer reports whether a text that is not a message was meant as the response to the request with this id. What a server
// prints while it starts, such as a line of a log in JSON, is not.
func isBrokenAnswer(text, id []byte) bool {
	m := gjson.GetMany(wire.View(text), "jsonrpc", "id", "method", "result", "error")
	about := []byte(m[1].Raw)
	is := m[3].Exists() || m[4].Exists() && m[0].Exists()
	return is && !m[2].Exists() && wire.Valid(about) && IsAnswer(about, id)
}

// reply answers a request of the server.
func (o *Opening) reply(ctx context.Context, m *wire.Message) {
	body := mcp.AppendResult(nil, m.ID(), "{}")
	switch {
	case m.Method == wire.Ping:
	case m.Method == wire.RootsList && o.NoRoots:
		body = mcp.AppendResult(nil, m.ID(), `{"roots":[]}`)
	default:
		body = mcp.AppendError(nil, m.ID(), mcp.NotInitialized.Code(), mcp.NotInitialized.Text(), nil)
	}
	if _, err := o.Conn.Send(ctx, &upstream.Outgoing{Body: body, Header: o.Header}); err != nil {
		o.Of.Undelivered(err, o.Header)
	}
}

// End closes a connection. It waits for at most [EndTimeout], and logs an error for debugging.
func End(c upstream.Conn, log *zap.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), EndTimeout)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		log.Debug("cannot close the upstream connection", zap.Error(err))
	}
}

// EndBegun closes a connection that no session uses, and its standing stream.
func EndBegun(b *upstream.Begun, log *zap.Logger) {
	if b.Standing != nil {
		b.Standing.Close()
	}
	End(b.Conn, log)
}
