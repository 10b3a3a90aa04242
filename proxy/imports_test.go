package proxy

import (
	"os/exec"
	"strings"
	"testing"
)

// Imports point down only. Each package may import those named here, and
// nothing else of this module:
//
//   - wire looks at bytes, sse and lines frame them, large has the memory for the
//     large ones: they know nobody;
//   - translate is pure, so that it can be tested, fuzzed and reused without a
//     socket in sight;
//   - downstream and upstream only carry messages: what these mean is not their
//     business, and neither knows that the other exists, so that transports add up
//     and do not multiply;
//   - failures names what goes wrong upstream, and repeats sums up what is logged again and again;
//   - setting reads configurations, of whatever struct; config has the one of the proxy;
//   - mcp has the words of the protocol that all rooms share;
//   - sealed writes what clients carry for us, and knows neither them nor where it goes;
//   - replicas hands requests to other processes, and knows no session;
//   - trace names what says which trace a request belongs to, and measures its time;
//   - losses tells what translation took from messages;
//   - principal says on whose behalf a request comes;
//   - quota counts what each client has, and knows none;
//   - orphans ends what upstream has started, should this process be killed;
//   - results keeps what upstream brought, and knows nobody who asks for it;
//   - ended remembers the numbers of sessions that are over, and knows no session;
//   - oauth keeps tokens, and knows neither what they are for nor who asks;
//   - processes counts those of clients, and starts none;
//   - toolindex keeps what is known of a server's tools, and does not know how it is asked;
//   - memo remembers translations of lists, and knows neither server nor client;
//   - demo is a server to try the proxy with;
//   - server sorts what comes on one pipe, and knows no session and no client;
//   - outbox keeps messages for a client, and sends none;
//   - mcpheader says in headers what the body says;
//   - metrics counts what it is told;
//   - oauthrelay asks the server what OAuth clients ask, and reads no token;
//   - requests holds those without an answer, and sends none;
//   - clienterror makes of errors what clients are told;
//   - report logs and counts what fails, and decides nothing;
//   - host has what all rooms of a running proxy use, and knows none of them;
//   - bridge/legacyclient lets clients with a handshake use servers without one, and knows no session;
//   - restart keeps a session when its server restarts, and knows it by two methods;
//   - share lets clients use one process together, and knows what they say only by its id;
//   - era finds out whether the server has a handshake, and knows no session and no client;
//   - gate reads what a tool says of another one, and is told how to call it;
//   - filter translates lines, and has no peer;
//   - dialect changes schemas in a list, and knows nothing of who reads it;
//   - adapterrt makes tools of HTTP APIs, and nobody's messages are known to it; the
//     order of its own packages has a test there;
//   - transform makes results fit for a model; its parts, which look at values,
//     texts and lists of tools, do not know of it;
//   - proxy is where all meet, and only the command is above it.
func TestImportsPointDown(t *testing.T) {
	const module = "github.com/dragoman-proxy/dragoman/"
	const parts = "transform/fields transform/tokens transform/tree transform/notion transform/linear transform/footprint " +
		"transform/tape transform/schema transform/grapheme transform/fit"
	const adapting = "adapterrt/clean adapterrt/failure adapterrt/escape adapterrt/near adapterrt/gate adapterrt/file adapterrt/httpcall adapterrt/credential adapterrt/guard adapterrt/present"
	const carried = "proxy/upstream/orphans proxy/upstream proxy/sse proxy/lines proxy/large proxy/envelope translate/wire"
	const configured = carried + " proxy/mcp proxy/memlimit proxy/oauth proxy/setting adapterrt transform translate " + parts + " " + adapting
	const rooms = configured + " proxy/config proxy/sealed proxy/quota proxy/idmap proxy/downstream proxy/results proxy/processes proxy/ended proxy/failures proxy/repeats proxy/dialect proxy/toolindex proxy/memo proxy/demo proxy/replicas proxy/trace proxy/losses proxy/principal proxy/gate proxy/server proxy/outbox proxy/mcpheader proxy/metrics proxy/oauthrelay proxy/requests proxy/clienterror proxy/report proxy/era proxy/host proxy/bridge proxy/bridge/legacyclient proxy/restart proxy/share"
	allowed := map[string]string{
		"translate/wire":            "",
		"translate":                 "translate/wire",
		"proxy/sse":                 "proxy/envelope",
		"proxy/lines":               "proxy/large proxy/envelope",
		"proxy/envelope":            "",
		"proxy/idmap":               "translate/wire",
		"proxy/large":               "",
		"proxy/setting":             "",
		"proxy/mcp":                 "translate translate/wire",
		"proxy/config":              configured,
		"proxy/memlimit":            "",
		"proxy/downstream":          "proxy/mcp translate proxy/sse proxy/lines proxy/large proxy/envelope translate/wire",
		"proxy/upstream":            "proxy/upstream/orphans proxy/sse proxy/lines proxy/large proxy/envelope translate/wire",
		"proxy/quota":               "",
		"proxy/sealed":              configured + " proxy/config proxy/ended",
		"proxy/results":             carried,
		"proxy/trace":               carried + " proxy/mcp translate",
		"proxy/losses":              carried + " proxy/mcp proxy/repeats proxy/trace translate",
		"proxy/principal":           configured + " proxy/config proxy/sealed proxy/ended proxy/downstream proxy/results",
		"proxy/replicas":            configured + " proxy/config proxy/sealed proxy/ended proxy/downstream",
		"proxy/dialect":             "translate/wire",
		"proxy/server":              configured + " proxy/config proxy/idmap proxy/failures",
		"proxy/outbox":              configured + " proxy/downstream",
		"proxy/mcpheader":           configured + " proxy/toolindex",
		"proxy/metrics":             configured + " proxy/failures proxy/trace",
		"proxy/oauthrelay":          configured + " proxy/downstream",
		"proxy/gate":                configured + " proxy/config",
		"proxy/filter":              configured + " proxy/config",
		"proxy/demo":                carried + " proxy/mcp translate",
		"proxy/memo":                "translate translate/wire",
		"proxy/toolindex":           "transform translate/wire " + parts,
		"proxy/failures":            carried,
		"proxy/repeats":             "",
		"proxy/ended":               "",
		"proxy/requests":            "translate/wire",
		"proxy/clienterror":         configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server",
		"proxy/report":              configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay",
		"proxy/host":                configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay proxy/report proxy/losses",
		"proxy/bridge":              "proxy/mcp proxy/sse proxy/envelope translate translate/wire",
		"proxy/bridge/legacyclient": configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay proxy/report proxy/losses proxy/host proxy/era proxy/bridge proxy/results proxy/sealed proxy/ended proxy/mcpheader proxy/toolindex",
		"proxy/share":               configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay proxy/report proxy/losses proxy/host proxy/era proxy/sealed proxy/ended proxy/restart",
		"proxy/restart":             configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay proxy/report proxy/losses proxy/host proxy/era proxy/sealed proxy/ended",
		"proxy/era":                 configured + " proxy/config proxy/idmap proxy/failures proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay proxy/report proxy/losses proxy/host",
		"proxy/processes":           "",
		"proxy/oauth":               "",
		"adapterrt":                 "translate/wire " + adapting,
		"transform/tree":            "translate/wire",
		"transform/tokens":          "",
		"transform/notion":          "translate/wire transform/tree",
		"transform/linear":          "translate/wire transform/tree",
		"transform/footprint":       "translate/wire transform/tree",
		"transform/tape":            "translate/wire",
		"transform/grapheme":        "",
		"transform/schema":          "translate/wire transform/tape",
		"transform/fit":             "translate/wire transform/tape transform/schema transform/grapheme",
		"transform":                 "translate/wire " + parts,
		"proxy":                     rooms,
		"cmd/command":               rooms + " proxy proxy/filter",
		"cmd/dragoman":              rooms + " proxy proxy/filter cmd/command",
		"cmd/proxy":                 rooms + " proxy proxy/filter cmd/command",
	}
	for pkg, may := range allowed {
		out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", pkg, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			name, ours := strings.CutPrefix(dep, module)
			if ours && name != pkg && !strings.Contains(" "+may+" ", " "+name+" ") {
				t.Errorf("%s imports %s", pkg, name)
			}
		}
	}
}
