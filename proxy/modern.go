package proxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// modernRequest is a request of a client without a handshake: it says itself who
// sends it, in which revision, and what that client can do. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta.
// It owns its memory.
type modernRequest struct {
	raw    []byte // as it was sent
	id     []byte
	method wire.Method
	name   string // the method's
	target []byte // what the method is applied to, params.name or params.uri, as JSON; nil where there is none
	twice  bool   // it is there more than once

	client       []byte // clientInfo, nil for none
	capabilities []byte
	facts        wire.Facts // what is declared there
	level        int        // of log messages that the client wants; noLevel for none
	token        []byte     // progressToken, nil for none

	state  []byte // requestState, a JSON string; nil for none
	inputs []byte // inputResponses, nil for none

	user      string // who may answer what the server asks
	maxTokens int    // that a header asks for; 0 for none
	timed     bool   // a header asks where the time goes
}

// The reserved members of _meta that a request has.
const (
	metaClient       = modernPrefix + "clientInfo"
	metaCapabilities = modernPrefix + "clientCapabilities"
	metaLevel        = modernPrefix + "logLevel"
)

// Those of results, and of what a subscription brings.
const (
	metaServer       = modernPrefix + "serverInfo"
	metaSubscription = modernPrefix + "subscriptionId"
)

// logLevels are the levels of log messages, least severe first. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const noLevel = -1

// levelOf is the place of a level among logLevels, noLevel for what is none.
func levelOf(name string) int {
	for i, level := range logLevels {
		if level == name {
			return i
		}
	}
	return noLevel
}

// readModern takes a scanned request apart. It clones what it keeps. The error is
// what the client is to be told of its _meta.
func readModern(m *wire.Message) (*modernRequest, error) {
	id := bytes.Clone(m.ID())
	said, err := readMeta(view(m.Params()), targetOf(m.Method))
	if err != nil {
		return nil, asFailure(err).about(id)
	}
	said.raw, said.id = bytes.Clone(m.Raw), id
	said.method, said.name = m.Method, string(m.MethodName())
	return said, nil
}

// targetOf is the member of params that says what a method is applied to, "" for
// a method that has none.
func targetOf(method wire.Method) string {
	switch method {
	case wire.ToolsCall, wire.PromptsGet:
		return "name"
	case wire.ResourcesRead:
		return "uri"
	case wire.TasksGet, wire.TasksUpdate, wire.TasksCancel:
		return "taskId"
	}
	return ""
}

// readMeta reads params, of which target is the member that Mcp-Name is about.
func readMeta(params, target string) (*modernRequest, error) {
	q := &modernRequest{level: noLevel}
	version := ""
	var broken string // the first member that is not what it has to be
	members(params, func(name string, v gjson.Result) {
		switch name {
		case "_meta":
			members(v.Raw, func(name string, v gjson.Result) {
				good := true
				switch name {
				case modernKey:
					version, good = v.String(), v.Type == gjson.String
				case metaCapabilities:
					q.capabilities, good = []byte(v.Raw), v.IsObject()
					q.facts = clientFacts(v)
				case metaClient:
					q.client, good = []byte(v.Raw), v.IsObject()
				case metaLevel:
					q.level = levelOf(v.String())
					good = q.level != noLevel
				case "progressToken":
					q.token = []byte(v.Raw)
					good = v.Type == gjson.String || v.Type == gjson.Number
				}
				if !good && broken == "" {
					broken = name
				}
			})
		case target:
			q.twice = q.target != nil
			q.target = []byte(v.Raw)
		case "requestState":
			q.state = []byte(v.Raw)
		case "inputResponses":
			q.inputs = []byte(v.Raw)
		}
	})
	switch {
	case version == "" && broken == "":
		broken = modernKey
	case broken == "" && q.capabilities == nil:
		broken = metaCapabilities
	}
	if broken != "" {
		f := fail(metaInvalid, "")
		f.text += ": " + broken
		return nil, f
	}
	if r := translate.Lookup(version); r == nil || !r.Modern {
		return nil, unsupported(version)
	}
	return q, nil
}

// members calls do for each member of an object, with its name unescaped.
func members(object string, do func(name string, v gjson.Result)) {
	v := gjson.Parse(object)
	if !v.IsObject() {
		return
	}
	v.ForEach(func(key, v gjson.Result) bool {
		do(key.String(), v)
		return true
	})
}

// unsupported is the answer to a revision without a handshake that we do not
// speak, with those that we do.
func unsupported(requested string) *failure {
	f := fail(revisionUnsupported, "")
	data := []byte(`{"supported":[`)
	for i, r := range translate.All() {
		if i > 0 {
			data = append(data, ',')
		}
		data = appendString(data, r.Name)
	}
	data = append(data, `],"requested":`...)
	f.data = append(appendString(data, fmt.Sprintf("%.64s", requested)), '}')
	return f
}

// mayAsk reports whether the server may ask the client something before it answers:
// the method allows it, and the client can be asked anything.
func (q *modernRequest) mayAsk() bool {
	switch q.method {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead:
		return q.facts.Has(wire.ClientElicitation) || q.facts.Has(wire.ClientSampling) || q.facts.Has(wire.ClientRoots)
	}
	return false
}

// digest stands for what a retry must have in common with its request: all but
// what the answers to the server's questions add.
func (q *modernRequest) digest() [sha256.Size]byte {
	return digestOf(q.name, gjson.GetBytes(q.raw, "params").Raw)
}

// digestOf stands for what a method is asked to do by these params.
func digestOf(method, params string) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(method))
	members(params, func(name string, v gjson.Result) {
		switch name {
		case "_meta", "inputResponses", "requestState":
			return
		}
		fmt.Fprintf(h, "\x00%q", name)
		h.Write(wire.AppendCompactQuoted(nil, []byte(v.Raw)))
	})
	return [sha256.Size]byte(h.Sum(nil))
}

// checkHeaders holds the headers of a modern request against its body. They are
// for those on the way who do not read bodies; we do, and so must see to it that
// they never tell another story. Called before _meta is known to be good, with q
// nil, and after. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
func (q *modernRequest) checkHeaders(header func(name string) string) error {
	if method := header("Mcp-Method"); method != q.name {
		return mismatch("Mcp-Method", "the method")
	}
	what := targetOf(q.method)
	if what == "" {
		return nil
	}
	what = "params." + what
	name, ok := decodeHeader(header("Mcp-Name"))
	if target := gjson.ParseBytes(q.target); !ok || q.twice || target.Type == gjson.String && target.String() != name {
		return mismatch("Mcp-Name", what)
	}
	return nil
}

// checkVersion holds the header that names the revision against the one in _meta.
func checkVersion(header string, m *wire.Message) error {
	if header == "" {
		f := fail(headerMismatch, "").about(m.ID())
		f.text = "Missing required header: MCP-Protocol-Version"
		return f
	}
	version := ""
	members(view(m.Params()), func(name string, v gjson.Result) {
		if name == "_meta" {
			members(v.Raw, func(name string, v gjson.Result) {
				if name == modernKey && v.Type == gjson.String {
					version = v.String()
				}
			})
		}
	})
	if version != "" && version != header {
		return mismatch("MCP-Protocol-Version", "_meta").about(m.ID())
	}
	return nil
}

func mismatch(header, with string) *failure {
	f := fail(headerMismatch, "")
	f.text = header + " header does not match " + with
	return f
}

// The form of a header's value that plain text cannot have.
const (
	headerOpen  = "=?base64?"
	headerClose = "?="
)

// decodeHeader reads the value of Mcp-Name or Mcp-Param-*; false when it is not
// what it says it is.
func decodeHeader(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, headerOpen)
	if !ok {
		return value, true
	}
	if inner, ok = strings.CutSuffix(inner, headerClose); !ok {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// encodeHeader writes one.
func encodeHeader(text string) string {
	plain := strings.TrimSpace(text) == text && !(strings.HasPrefix(text, headerOpen) && strings.HasSuffix(text, headerClose))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] == '\t' || 0x20 <= text[i] && text[i] <= 0x7E
	}
	if plain {
		return text
	}
	return headerOpen + base64.StdEncoding.EncodeToString([]byte(text)) + headerClose
}
