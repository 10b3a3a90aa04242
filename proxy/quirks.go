package proxy

import (
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
)

// quirk names what published software does beside the specification, or at a corner
// of it where others stumble. The code that deals with one says that it has met it.
type quirk string

const (
	legacyList    quirk = "legacy-list"
	exitsEarly    quirk = "exits-early"
	silentEarly   quirk = "silent-early"
	idleHandshake quirk = "idle-handshake"
	noStanding    quirk = "no-standing-stream"
	otherRevision quirk = "other-revision"
	rawName       quirk = "raw-name"
	rawNameWanted quirk = "raw-name-wanted"
	bareQuestion  quirk = "bare-question"
)

// quirks are all that we know of. Each has a peer of its own in the tests.
var quirks = [...]struct {
	quirk
	peer, versions string // who does it, as far as we have seen
	does, we       string
}{
	{
		legacyList, "Go SDK, server in session mode", "1.8",
		"refuses server/discover with -32022, a code of servers without a handshake, and lists only revisions with one",
		"the list counts, not the code: initialize with the newest of them (conclude)",
	},
	{
		exitsEarly, "servers on stdio made with small or older libraries", "2024-11-05 to 2025-11-25",
		"end when a request comes before initialize",
		"the session gets another process, and later ones are not asked (eras.ask)",
	},
	{
		silentEarly, "servers on stdio made with small or older libraries", "2024-11-05 to 2025-11-25",
		"say nothing to a request that comes before initialize",
		"after 3 s initialize is said as well, once; the session gets another process (eras.sound)",
	},
	{
		idleHandshake, "Go SDK, stateless server restricted to 2026-07-28", "1.8",
		"answers initialize with 2025-11-25, begins no session, and refuses all that follows",
		"an initialize that begins no session is followed by server/discover, once (handshake.shakesFor)",
	},
	{
		noStanding, "stateless servers over Streamable HTTP", "2025-03-26 to 2025-11-25",
		"answer GET with 405: they have no standing stream",
		"subscriptions are granted nothing, clients get 405; the server is not asked again (Server.listen)",
	},
	{
		otherRevision, "TypeScript SDK, Python SDK and others, clients", "1.x",
		"give up where initialize is not answered with a revision that they know, some with any but the one that they asked for",
		"the answer names the client's revision, whatever the server's is (handshake.settle)",
	},
	{
		rawName, "Go SDK, client", "1.8",
		"sends Mcp-Name as it is, without base64 for what is not ASCII; some HTTP libraries make Latin-1 of it",
		"the plain text counts as well, in UTF-8 or Latin-1 (isName)",
	},
	{
		rawNameWanted, "Go SDK, server", "1.8",
		"compares Mcp-Name with the name as it is, and refuses base64 with -32020",
		"a call refused so is sent once more with the plain text, and those after it at once (bridgedCall.retitle)",
	},
	{
		bareQuestion, "Go SDK, client", "1.8",
		"cannot read inputRequests in which roots/list has no params, as it has none in older revisions",
		"it gets empty ones (rule C33, translate)",
	},
}

// met counts that a quirk was dealt with.
func (srv *Server) count(q quirk) {
	srv.metrics.Quirks.WithLabelValues(string(q)).Inc()
	srv.log.Debug("quirk", zap.String("quirk", string(q)))
}

// isName reports whether the value of Mcp-Name is this name, in the form that the
// specification has for it or as plain text; plain says that it is that where it must
// not be.
func isName(value, name string) (ok, plain bool) {
	if text, good := mcpheader.Decode(value); !good || text == name {
		return good, good && text == value && mcpheader.Encode(name) != value
	}
	if utf8.ValidString(value) {
		return false, false
	}
	wide := make([]rune, len(value))
	for i := range len(value) {
		wide[i] = rune(value[i])
	}
	return string(wide) == name, true
}

// retitle decides how the name of a call is said from now on, where the server has
// refused it as it was said: in base64, or as plain text. false says that there is
// only one way.
func (b *bridgedCall) retitle() bool {
	if b.retitled || mcpheader.Encode(b.target) == b.target {
		return false
	}
	for i := range len(b.target) {
		if b.target[i] < 0x20 || b.target[i] == 0x7F {
			return false
		}
	}
	b.retitled = true
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.c.rawNames = !b.c.rawNames; b.c.rawNames {
		b.c.srv.count(rawNameWanted)
	}
	return true
}
