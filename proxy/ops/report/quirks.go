package report

import (
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Quirk is [mcp.Quirk].
type Quirk = mcp.Quirk

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

// Quirks has all known quirks. docs/operations.md has them as a table. A test of package proxy has a
// peer with each.
var Quirks = [...]struct {
	Quirk
	Peer, Versions string // the software that was seen with it, and its versions or revisions
	Does, Response string // what the peer does, and what dragoman does then
}{
	{
		LegacyList, "Go SDK, server in session mode", "1.8",
		"answers server/discover with the error -32022, as a server without a handshake would, and lists revisions that all have a handshake",
		"ignores the error code, and sends initialize with the newest listed revision",
	},
	{
		ExitsEarly, "servers on stdio made with small or older libraries", "2024-11-05 to 2025-11-25",
		"exit when they receive a request before initialize",
		"starts another process for the session, and sends server/discover to no further process",
	},
	{
		SilentEarly, "servers on stdio made with small or older libraries", "2024-11-05 to 2025-11-25",
		"do not answer a request that they receive before initialize",
		"sends initialize after 3 s, and server/discover to no further process",
	},
	{
		IdleHandshake, "Go SDK, stateless server restricted to 2026-07-28", "1.8",
		"answers initialize with 2025-11-25, opens no session, and refuses all further requests",
		"sends server/discover and then ping once if initialize has opened no session, to learn whether the server has a handshake",
	},
	{
		NoStanding, "stateless servers over Streamable HTTP", "2025-03-26 to 2025-11-25",
		"answer GET with 405: they offer no stream for messages outside of calls",
		"answers the client's GET with 405, grants subscriptions of clients nothing, and sends no further GET",
	},
	{
		OtherRevision, "TypeScript SDK, Python SDK and others, clients", "1.x",
		"disconnect if the answer to initialize has a revision that they do not support; some disconnect if it is not the requested one",
		"answers with the revision that the client requested, and translates",
	},
	{
		RawName, "Go SDK, client", "1.8",
		"sends names that are not ASCII in Mcp-Name without base64; some HTTP libraries encode them as Latin-1",
		"accepts the plain name as well, in UTF-8 or Latin-1",
	},
	{
		RawNameWanted, "Go SDK, server", "1.8",
		"expects names that are not ASCII in Mcp-Name without base64, and refuses base64 with the error -32020",
		"sends the refused call once more with the plain name, and all later calls with it at once",
	},
	{
		BareQuestion, "Go SDK, client", "1.8",
		"cannot read inputRequests in which roots/list has no params",
		"adds empty params (rule C33)",
	},
	{
		mcp.TextID, "servers made without an SDK", "all",
		"answer a request whose id is an integer with the text of it: \"1\" for 1",
		"takes it for the answer, with the client's own id, unless a request with that very text is open",
	},
	{
		mcp.NullMember, "servers made without an SDK, and with older libraries for JSON-RPC", "all",
		"write a null error beside the result, or a null result beside the error",
		"removes the null member, since some clients refuse such a message",
	},
	{
		mcp.ByteOrderMark, "servers on .NET and Windows", "all",
		"begin their output, or a message, with a byte order mark",
		"removes it",
	},
	{
		mcp.LostAs200, "tower-mcp (Rust), Onyx agent-wiki", "0.1 to 0.21; until June 2026",
		"answer a request in a session that they have lost with a JSON-RPC error and status 200 instead of 404",
		"sends a ping, and if that gets the same error, begins another session and sends the request once more",
	},
}

// Quirk counts that dragoman has handled a quirk.
func (r *Reporter) Quirk(q Quirk) {
	r.metrics.Quirks.WithLabelValues(string(q)).Inc()
	r.log.Debug("handled a quirk of the peer", zap.String("quirk", string(q)))
}
