package translate

import "github.com/dragoman-proxy/dragoman/translate/wire"

// step20250326 is what 2025-03-26 changed in 2024-11-05
// (https://modelcontextprotocol.io/specification/2025-03-26/changelog).
var step20250326 = Step{
	To: rev20250326,
	Up: []Rule{
		{ID: "C15", What: "completions", At: serverCapabilities, Reads: []string{"*"}, Do: addCompletions,
			When: func(o Options) bool { return o.CompletionsFor24 != "never" }},
	},
	Down: []Rule{
		{ID: "C02", What: "annotations", At: in("annotations", tools), Do: strip, When: strict},
		{ID: "C10", What: "audio", At: blocks, Reads: []string{"*", "annotations.*"}, Do: audioToText},
		{ID: "C14", What: "message", At: at(wire.Notification, wire.Progress, "params.message"), Do: progressToLog,
			When: func(o Options) bool { return strict(o) || o.ProgressMessageAsLog }},
		{ID: "C15", What: "completions", At: in("completions", serverCapabilities), Do: strip},
		{ID: "C42", What: "notifications/resources/updated", At: at(wire.Notification, wire.ResourcesUpdated, ""), Do: drop,
			When: func(o Options) bool { return o.DropResourceUpdated }},
	},
}

// progressToLog removes the words from a progress notification and, if wanted,
// sends them as a log message to a client that may expect some (C14).
func progressToLog(x *pass, message wire.Node) {
	loss := x.lost(message, stripLevel(message))
	message.Remove()
	if _, ok := nonEmpty(message); !ok || !x.t.options.ProgressMessageAsLog || !x.m.Facts.Has(wire.ServerLogging) {
		return
	}
	loss.Standin = true
	also := append([]byte(nil), `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"progress","data":`...)
	x.m.Also = append(append(also, message.Raw()...), `}}`...)
}
