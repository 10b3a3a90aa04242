package modernclient

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// objects reports whether raw is an object of objects.
func objects(raw []byte) bool {
	v := gjson.ParseBytes(raw)
	if !v.IsObject() {
		return false
	}
	good := true
	v.ForEach(func(_, v gjson.Result) bool {
		good = v.IsObject()
		return good
	})
	return good
}

// statusOf returns the HTTP status of a response.
func statusOf(m *wire.Message, body []byte) int {
	if m.Kind != wire.Error {
		return 200
	}
	return mcp.StatusFor(gjson.GetBytes(body, "error.code").Int())
}

// under returns a response with another id. It may change body, and may use body's spare capacity.
func under(body, id []byte) []byte {
	var m wire.Message
	if m.Scan(body, addressShape) != nil {
		return body
	}
	if at := m.Root().Get(wire.ID); at.OK() {
		at.Put(append(m.Writer(), id...))
	}
	if len(body) > large.Size {
		m.Room = cap(body) - len(body)
		if out := m.InPlace(); out != nil {
			return out
		}
	}
	return m.AppendTo(make([]byte, 0, len(body)+len(id)))
}

// readdressed returns a notification with the progress token of q. It returns nil for a progress
// notification if q has no token.
func readdressed(body []byte, q *stateless.Request) []byte {
	var m wire.Message
	if m.Scan(body, addressShape) != nil || m.Method != wire.Progress {
		return body
	}
	if q.ProgressToken == nil {
		return nil
	}
	if at := m.Root().Get(wire.Params).Get(wire.ProgressTokenKey); at.OK() {
		at.Put(append(m.Writer(), q.ProgressToken...))
	}
	return m.AppendTo(make([]byte, 0, len(body)+len(q.ProgressToken)))
}

var addressShape = func() *wire.Shape {
	s := new(wire.Shape)
	s.At(wire.ParsePath("id")...)
	s.At(wire.ParsePath("params.progressToken")...)
	return s
}()

// subscribed returns the notification body with the subscription's id in _meta.
func subscribed(body, id []byte) []byte {
	var m wire.Message
	if m.Scan(body, metaShape) != nil {
		return bytes.Clone(body)
	}
	mark := append([]byte(`"`+mcp.MetaPrefix+`subscriptionId":`), id...)
	params := m.Root().Get(wire.Params)
	switch meta := params.Get(wire.Meta); {
	case meta.OK() && meta.Kind() == '{':
		meta.Add(append(m.Writer(), mark...))
	case params.OK():
		params.Add(append(append(append(m.Writer(), `"_meta":{`...), mark...), '}'))
	default:
		m.Root().Add(append(append(append(m.Writer(), `"params":{"_meta":{`...), mark...), `}}`...))
	}
	return m.AppendTo(make([]byte, 0, len(body)+len(mark)+32))
}

var metaShape = func() *wire.Shape {
	s := new(wire.Shape)
	s.At(wire.ParsePath("params._meta.*")...)
	return s
}()

// lacking returns the error for a client that has not declared what it needs.
func lacking(required []byte) *mcp.Failure {
	f := mcp.Fail(mcp.CapabilityMissing, "")
	f.Data = required
	return f
}

// What a client has to declare that asks about tasks, or that has to open URLs.
var (
	needsTasks = []byte(`{"requiredCapabilities":{"extensions":{"` + mcp.TasksExtension + `":{}}}}`)
	needsURLs  = []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
)
