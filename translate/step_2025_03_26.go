package translate

import "github.com/dragoman-proxy/dragoman/translate/wire"

// step20250326 is what 2025-03-26 changed in 2024-11-05
// (https://modelcontextprotocol.io/specification/2025-03-26/changelog).
var step20250326 = Step{
	To: rev20250326,
	Up: []Rule{
		{ID: "C15", What: "completions", At: serverCapabilities, Reads: []string{"*"}, Do: addCompletions},
	},
	Down: []Rule{
		{ID: "C02", What: "annotations", At: in("annotations", tools), Do: stripHints},
		{ID: "C10", What: "audio", At: blocks, Reads: []string{"*", "annotations.*"}, Do: audioToText},
		{ID: "C14", What: "message", At: at(wire.Notification, wire.Progress, "params.message"), Do: strip},
		{ID: "C15", What: "completions", At: in("completions", serverCapabilities), Do: hideCompletions},
	},
}
