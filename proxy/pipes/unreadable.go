package pipes

import (
	"bytes"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Scan scans a message of a server on a pipe, and makes the best of one that cannot be read because of err: it takes out a null
// member that some servers write beside the result or the error. Of a broken answer it makes the error response to the request:
// asked returns the server's id of the open request that a response with this id answers, and for nil that of the only open
// request; "" for none. Otherwise it returns the error of the scan.
func Scan(m *wire.Message, text []byte, o Owner, asked func(id []byte) string) error {
	err := m.Scan(text, idmap.Shape)
	if err == nil {
		return nil
	}
	if wire.Mend(text) {
		o.Quirk(mcp.NullMember)
		return m.Scan(text, idmap.Shape)
	}
	id, meant := envelope.BrokenAnswer(text)
	if !meant {
		return err
	}
	given := asked(id)
	if given == "" {
		return err
	}
	f := mcp.Fail(mcp.UpstreamGarbled, err.Error())
	f.Err = fmt.Errorf("%w: %s", err, text[:min(len(text), 2*failures.MaxQuote)])
	f = o.Unread("malformed", f)
	return m.Scan(f.About([]byte(given)).Body(), idmap.Shape)
}

// CarriesMessages reports whether the data of an event are one message or several. Servers also send events for programs that
// know them, such as pings, under names of their own. Clients ignore those, whatever the data are.
func CarriesMessages(e *sse.Event) bool {
	return len(e.Name) == 0 || string(e.Name) == sse.Message || wire.IsArray(e.Data) || gjson.Get(wire.View(e.Data), "jsonrpc").Exists()
}

// unmarked returns an event's data without a byte order mark.
func unmarked(data []byte, o interface{ Quirk(mcp.Quirk) }) []byte {
	data, marked := wire.TrimMark(data)
	if marked {
		o.Quirk(mcp.ByteOrderMark)
	}
	return data
}

// IsAnswer reports whether the id of a response is that of a request, or the text of it.
func IsAnswer(id, request []byte) bool {
	return isID(id, request) || isTextOf(id, request)
}

// isID reports whether two ids, raw JSON, are the same.
func isID(a, b []byte) bool {
	return len(a) > 0 && bytes.Equal(wire.AppendIDKey(nil, a), wire.AppendIDKey(nil, b))
}

// isTextOf reports whether the id of a response is a text of the integer that is the id of a request.
func isTextOf(id, request []byte) bool {
	integer, ok := wire.IntegerIn(id)
	return ok && bytes.Equal(integer, request)
}

// PutID writes an id, which is shorter than that of the response m, into the text of m. m must then be scanned again.
func PutID(m *wire.Message, id []byte) {
	from, to := m.IDAt()
	for i := from + copy(m.Raw[from:to], id); i < to; i++ {
		m.Raw[i] = ' '
	}
}
