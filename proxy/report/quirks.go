package report

import "go.uber.org/zap"

// Quirk names a behaviour of published software that differs from the specification, or that is
// easily misunderstood. The code that handles it counts it.
type Quirk string

const (
	LegacyList    Quirk = "legacy-list"
	ExitsEarly    Quirk = "exits-early"
	SilentEarly   Quirk = "silent-early"
	IdleHandshake Quirk = "idle-handshake"
	NoStanding    Quirk = "no-standing-stream"
	OtherRevision Quirk = "other-revision"
	RawName       Quirk = "raw-name"
	RawNameWanted Quirk = "raw-name-wanted"
	BareQuestion  Quirk = "bare-question"
)

// Quirks has all known quirks. A test of package proxy has a peer with each.
var Quirks = [...]struct {
	Quirk
	Peer, Versions string // the software that was seen with it
	Does, Response string // what the peer does, and how dragoman deals with it
}{
	{
		LegacyList, "Go SDK, server in session mode", "1.8",
		"refuses server/discover with -32022, a code of servers without a handshake, and lists only revisions with one",
		"the list counts, not the code: initialize with the newest of them (conclude)",
	},
	{
		ExitsEarly, "servers on stdio made with small or older libraries", "2024-11-05 to 2025-11-25",
		"end when a request comes before initialize",
		"the session gets another process, and later ones are not asked (era.Cache)",
	},
	{
		SilentEarly, "servers on stdio made with small or older libraries", "2024-11-05 to 2025-11-25",
		"say nothing to a request that comes before initialize",
		"after 3 s initialize is said as well, once; the session gets another process (era.Cache)",
	},
	{
		IdleHandshake, "Go SDK, stateless server restricted to 2026-07-28", "1.8",
		"answers initialize with 2025-11-25, begins no session, and refuses all that follows",
		"an initialize that begins no session is followed by server/discover, once (handshake.shakesFor)",
	},
	{
		NoStanding, "stateless servers over Streamable HTTP", "2025-03-26 to 2025-11-25",
		"answer GET with 405: they have no standing stream",
		"subscriptions are granted nothing, clients get 405; the server is not asked again (Server.listen)",
	},
	{
		OtherRevision, "TypeScript SDK, Python SDK and others, clients", "1.x",
		"give up where initialize is not answered with a revision that they know, some with any but the one that they asked for",
		"the answer names the client's revision, whatever the server's is (handshake.settle)",
	},
	{
		RawName, "Go SDK, client", "1.8",
		"sends Mcp-Name as it is, without base64 for what is not ASCII; some HTTP libraries make Latin-1 of it",
		"the plain text counts as well, in UTF-8 or Latin-1 (mcpheader.IsName)",
	},
	{
		RawNameWanted, "Go SDK, server", "1.8",
		"compares Mcp-Name with the name as it is, and refuses base64 with -32020",
		"a call refused so is sent once more with the plain text, and those after it at once (legacyclient)",
	},
	{
		BareQuestion, "Go SDK, client", "1.8",
		"cannot read inputRequests in which roots/list has no params, as it has none in older revisions",
		"it gets empty ones (rule C33, translate)",
	},
}

// Quirk counts that dragoman has handled a quirk.
func (r *Reporter) Quirk(q Quirk) {
	r.metrics.Quirks.WithLabelValues(string(q)).Inc()
	r.log.Debug("handled a quirk of the peer", zap.String("quirk", string(q)))
}
