package era

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Inconclusive reports whether an HTTP status says nothing about the server's era: it is about the
// credential, the host's name or the load, or may come from a gateway.
func Inconclusive(code int) bool {
	switch code {
	case 401, 403, 407, 408, 421, 429, 502, 503, 504:
		return true
	}
	return false
}

// LooksModern reports whether the outcome of initialize may come from a server that has no handshake. m is the
// response, or err the error of the request; m is not used if err is not nil.
func LooksModern(m *wire.Message, err error) bool {
	if err != nil {
		status, ok := errors.AsType[*upstream.StatusError](err)
		if !ok || status.Code != 400 && status.Code != 404 {
			return false
		}
		m = new(wire.Message)
		if m.Scan(status.Body, nil) != nil {
			return false
		}
	}
	if m.Kind == wire.Result {
		v := translate.Lookup(gjson.GetBytes(m.Result(), "protocolVersion").String())
		return v != nil && v.Modern // revisions in which no session begins
	}
	if m.Kind != wire.Error {
		return false
	}
	switch gjson.Get(wire.View(m.Error()), "code").Int() {
	case mcp.CodeMethodNotFound, mcp.CodeInvalidParams, -32600, mcp.CodeUnsupportedVersion, -32021, -32020:
		return true
	}
	return false
}

// refusal returns what is proved by m, a response to initialize, or by err instead of it, neither of which begins a session.
func refusal(m *wire.Message, err error) Handshake {
	if !LooksModern(m, err) {
		return Untried
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		m = new(wire.Message)
		_ = m.Scan(bytes.Clone(status.Body), nil) // LooksModern has read it
	}
	if m.Kind == wire.Error {
		if older, err := Rejected(m); err == nil && older != nil {
			return Accepted // of another revision
		}
	}
	return Refused
}

// IsUnsupported reports whether message is an error response that refuses the revision of the request.
func IsUnsupported(message []byte) bool {
	return gjson.GetBytes(message, "error.code").Int() == mcp.CodeUnsupportedVersion
}

// Agreed returns the revision that the server's InitializeResult m names, which must be one with a handshake. The error is
// for the client whose request has this id; nil for none.
func Agreed(m *wire.Message, id []byte) (*translate.Revision, error) {
	said := gjson.Get(wire.View(m.Result()), "protocolVersion").String()
	if r := translate.WithHandshake(said); r != nil {
		return r, nil
	}
	f := mcp.Fail(mcp.UpstreamVersion, "").About(id)
	f.Data = mcp.UnsupportedData(said)
	return nil, f
}

// Rejected returns the newest revision that the server names in the error m as one that it accepts and that dragoman
// speaks; nil if it names none. The error says that the server speaks only revisions without a handshake.
func Rejected(m *wire.Message) (*translate.Revision, error) {
	e := gjson.Parse(wire.View(m.Error()))
	names := e.Get("data.supported")
	if !names.IsArray() {
		if strings.Contains(e.Raw, mcp.MetaPrefix) {
			return nil, mcp.Fail(mcp.UpstreamModern, translate.Modern())
		}
		return nil, nil
	}
	var newest *translate.Revision
	var modern []string
	names.ForEach(func(_, v gjson.Result) bool {
		r := translate.Lookup(v.String())
		switch {
		case r != nil && !r.Modern:
			if newest == nil || r.Newer(newest) {
				newest = r
			}
		case len(modern) < 4:
			modern = append(modern, fmt.Sprintf("%.32s", v.String()))
		}
		return true
	})
	if newest == nil && e.Get("code").Int() == mcp.CodeUnsupportedVersion {
		return nil, mcp.Fail(mcp.UpstreamModern, strings.Join(modern, ", "))
	}
	return newest, nil
}
