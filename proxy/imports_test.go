package proxy

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImportsPointDown: packages import in one direction only. Each package may import those named
// here, and nothing else of this module:
//
//   - wire scans JSON-RPC messages; sse and lines split streams into messages, which inbuf has read; large has the
//     memory for large messages. They import no other package of this module but inbuf and envelope;
//   - translate is pure: it can be tested, fuzzed and reused without a network;
//   - downstream and upstream are the transports. They do not interpret messages, and neither
//     imports the other, so that each transport is written once and not once per pair;
//   - callctx has the contexts of requests, samehead compares heads of HTTP messages, and rawio reads, writes and watches sockets;
//   - unpack decodes what servers compress unasked;
//   - unixsocket reads the addresses of unix sockets, and listens at them;
//   - failures has the causes of failures of the server, and repeats merges equal log lines;
//   - setting reads a configuration into any struct; config has the proxy's configuration;
//   - mcp has the names, codes and errors of the protocol that the other packages share;
//   - sealed makes the tokens that clients keep for dragoman, such as session ids;
//   - replicas forwards requests to other processes, and has no sessions;
//   - trace has the names of the trace headers, and measures where the time of a request goes;
//   - losses logs and counts what translation removes from messages;
//   - principal identifies the user of a request;
//   - quota divides a limit among clients;
//   - orphans ends the processes that upstream has started if dragoman is killed;
//   - children, of adapterrt, starts all processes of dragoman, and tells them from those that it must reap as PID 1;
//   - results is the cache of results, without any knowledge of clients;
//   - ended holds the numbers of ended sessions;
//   - dial opens TCP connections for all packages, those of adapterrt too, and knows nothing of what they carry;
//   - oauthclient sends requests to authorization servers, and keeps nothing; oauth stores tokens, whatever they are for;
//   - processes counts the clients' processes, and starts none;
//   - toolindex has what is known of a server's tools; the caller lists them;
//   - memo caches translations of lists;
//   - demo is a server to try the proxy with;
//   - server reads one pipe to the server and has a stream for each request;
//   - outbox keeps messages until a client reads them;
//   - mcpheader makes the headers that repeat parts of a message;
//   - metrics has the counters;
//   - oauthrelay forwards the requests of OAuth clients to the server, and reads no token;
//   - requests holds the open requests, and sends none;
//   - clienterror makes the errors that clients get;
//   - report logs and counts failures, and decides nothing;
//   - host holds what the packages of a running proxy share;
//   - bridge/legacyclient lets handshake clients use modern servers, and has no sessions;
//   - bridge/modernclient lets modern clients use handshake servers; it knows a session with the server by an
//     interface of its own;
//   - restart keeps a session when its server restarts; it knows the session by two methods;
//   - origin opens connections to the server, and knows no client;
//   - owntools serves tools of dragoman's own, and knows no session;
//   - adapters serves adapter files as tools and endpoints, and knows no session;
//   - stateless reads what the requests of modern clients say, and sends nothing;
//   - replay keeps the events of streams for clients that reconnect;
//   - footprint keeps lists of tools small, and knows no session;
//   - shape shortens results through package transform, and knows no session;
//   - probe reports what clients get of a server, and opens no connection itself;
//   - secret, of adapterrt, finds secrets in texts, in whatever spelling, and keeps those that were sent;
//   - redact removes secrets from what is shown of messages;
//   - observe/instances keeps files with the URLs of pages, and reads no message;
//   - observe/recording writes and reads files of events, and takes no part in any call;
//   - observe/page has the files of the live page, and nothing else;
//   - telemetry makes spans of messages and sends them, and reads no session;
//   - observe shows what is done to messages, and reads no session;
//   - observe/inspect serves what observe has seen, with the files that it is given;
//   - share lets several clients use one process of a server;
//   - era finds out whether the server has a handshake, and has no sessions or clients;
//   - gate checks a tool call against the output of another tool, which the caller calls;
//   - filter translates lines, without a connection;
//   - dialect updates JSON Schemas in a list;
//   - adapterrt makes tools of HTTP APIs; it knows no MCP messages. The order of its own packages
//     has a test there;
//   - transform shapes results for a model; its parts, which read values, texts and lists of
//     tools, do not import it;
//   - store keeps what replicas share, whatever it is;
//   - doctor examines a configuration and a server, step by step; the command gives it the proxy;
//   - setup has what follows from a configuration, and starts nothing;
//   - session holds sessions; handshake begins them, and exchange carries a message in one: neither imports the other;
//   - clients has what its rooms web and pipe share, through which clients enter; they do not import each other;
//   - deploy has the schema of the configuration, which the command prints;
//   - peertest has the servers and clients of tests, as storetest, oauthtest and collectortest have other peers: only
//     tests import these;
//   - proxy imports all of these, and only the command imports it.
func TestImportsPointDown(t *testing.T) {
	const module = "github.com/dragoman-proxy/dragoman/"
	const parts = "transform/fields transform/tokens transform/tree transform/notion transform/linear transform/footprint " +
		"transform/tape transform/schema transform/grapheme transform/fit"
	const adapting = "dial oauthclient adapterrt/children adapterrt/pattern adapterrt/plaintext adapterrt/secret adapterrt/clean adapterrt/failure adapterrt/escape adapterrt/near adapterrt/brief adapterrt/find adapterrt/gate adapterrt/file adapterrt/httpcall adapterrt/credential adapterrt/guard adapterrt/present adapterrt/openapi"
	const carried = "dial adapterrt/children adapterrt/secret proxy/transport/unpack proxy/bytes/unixsocket proxy/bytes/callctx proxy/bytes/samehead proxy/bytes/rawio proxy/transport/upstream/orphans proxy/transport/upstream proxy/bytes/sse proxy/bytes/lines proxy/bytes/large proxy/bytes/envelope proxy/bytes/inbuf translate/wire"
	const configured = carried + " proxy/protocol/mcp proxy/bytes/memlimit proxy/bytes/openfiles proxy/auth/oauth proxy/store proxy/config/setting adapterrt transform translate " + parts + " " + adapting
	const rooms = configured + " proxy/observe/instances proxy/config proxy/replicas/sealed proxy/bytes/quota proxy/protocol/idmap proxy/transport/downstream proxy/pipes/results proxy/replicas/processes proxy/store/ended proxy/pipes/failures proxy/ops/repeats proxy/protocol/dialect proxy/protocol/toolindex proxy/protocol/memo proxy/commands/demo proxy/replicas proxy/ops/trace proxy/ops/losses proxy/replicas/principal proxy/features/gate proxy/pipes proxy/bridge/outbox proxy/pipes/mcpheader proxy/ops/metrics proxy/auth/oauthrelay proxy/protocol/requests proxy/ops/clienterror proxy/ops/report proxy/origin/era proxy/ops/host proxy/protocol/crossing proxy/bridge/legacyclient proxy/bridge/modernclient proxy/origin/restart proxy/origin/share proxy/origin proxy/features/shape proxy/features/owntools proxy/features/adapters proxy/bridge/stateless proxy/features/replay proxy/features/footprint proxy/commands/probe proxy/ops/telemetry proxy/observe proxy/observe/redact proxy/observe/recording proxy/observe/inspect proxy/observe/page proxy/store proxy/store/redisstore proxy/replicas/storeconfig"
	const reporting = configured + " proxy/observe/redact proxy/config proxy/protocol/idmap proxy/pipes/failures proxy/bytes/quota proxy/transport/downstream proxy/protocol/requests proxy/replicas/processes proxy/pipes proxy/ops/clienterror proxy/ops/metrics proxy/ops/repeats proxy/ops/trace proxy/auth/oauthrelay"
	const hosted = reporting + " proxy/store proxy/ops/report proxy/ops/losses proxy/ops/host proxy/ops/telemetry"
	const seen = " proxy/observe"
	const made = hosted + " proxy/replicas/storeconfig proxy/store/redisstore proxy/features/adapters proxy/store/ended proxy/origin/era proxy/features/footprint proxy/features/gate proxy/origin proxy/features/owntools proxy/replicas/principal proxy/bytes/quota proxy/observe/redact proxy/origin/restart proxy/pipes/results proxy/replicas/sealed proxy/features/shape proxy/origin/share proxy/protocol/toolindex"
	const talking = made + seen + " proxy/session/setup proxy/protocol/crossing proxy/bridge/legacyclient proxy/pipes/mcpheader proxy/features/replay proxy/bridge/stateless proxy/protocol/memo"
	const entering = talking + " proxy/session proxy/session/exchange proxy/session/handshake proxy/bridge/modernclient proxy/bridge/outbox proxy/commands/probe proxy/protocol/dialect proxy/replicas"
	const all = rooms + " proxy/session/setup proxy/session proxy/session/exchange proxy/session/handshake proxy/session/clients proxy/session/clients/web proxy/session/clients/pipe"
	allowed := map[string]string{
		"proxy/session/setup":              made,
		"proxy/session":                    talking,
		"proxy/session/exchange":           talking + " proxy/session proxy/protocol/dialect",
		"proxy/session/handshake":          talking + " proxy/session proxy/bridge/modernclient proxy/bridge/outbox proxy/protocol/dialect proxy/replicas",
		"proxy/session/clients":            entering,
		"proxy/session/clients/web":        entering + " proxy/session/clients",
		"proxy/session/clients/pipe":       entering + " proxy/session/clients",
		"translate/wire":                   "",
		"translate":                        "translate/wire",
		"proxy/bytes/sse":                  "proxy/bytes/envelope proxy/bytes/inbuf",
		"proxy/bytes/lines":                "proxy/bytes/large proxy/bytes/envelope proxy/bytes/inbuf",
		"proxy/bytes/envelope":             "",
		"proxy/bytes/inbuf":                "",
		"proxy/protocol/idmap":             "translate/wire",
		"proxy/bytes/large":                "",
		"proxy/config/setting":             "adapterrt/near adapterrt/pattern",
		"proxy/protocol/mcp":               "proxy/bytes/sse proxy/bytes/envelope proxy/bytes/inbuf translate translate/wire",
		"proxy/config":                     configured,
		"proxy/bytes/memlimit":             "",
		"proxy/bytes/openfiles":            "",
		"proxy/bytes/callctx":              "",
		"proxy/bytes/samehead":             "",
		"proxy/transport/unpack":           "",
		"proxy/bytes/rawio":                "",
		"proxy/bytes/unixsocket":           "",
		"proxy/transport/downstream":       "proxy/bytes/quota proxy/bytes/unixsocket proxy/bytes/callctx proxy/bytes/samehead proxy/bytes/rawio proxy/protocol/mcp translate proxy/bytes/sse proxy/bytes/lines proxy/bytes/large proxy/bytes/envelope proxy/bytes/inbuf translate/wire",
		"proxy/transport/upstream":         "dial adapterrt/children adapterrt/secret proxy/transport/unpack proxy/bytes/unixsocket proxy/bytes/callctx proxy/bytes/samehead proxy/bytes/rawio proxy/transport/upstream/orphans proxy/bytes/sse proxy/bytes/lines proxy/bytes/large proxy/bytes/envelope proxy/bytes/inbuf translate/wire",
		"proxy/transport/upstream/orphans": "adapterrt/children",
		"proxy/bytes/quota":                "",
		"proxy/replicas/sealed":            configured + " proxy/config proxy/store/ended",
		"proxy/pipes/results":              carried,
		"proxy/ops/trace":                  carried + " proxy/protocol/mcp translate",
		"proxy/ops/losses":                 carried + " proxy/protocol/mcp proxy/ops/trace translate",
		"proxy/replicas/principal":         configured + " proxy/config proxy/replicas/sealed proxy/store/ended proxy/bytes/quota proxy/transport/downstream proxy/pipes/results",
		"proxy/replicas":                   configured + " proxy/config proxy/replicas/sealed proxy/store/ended proxy/bytes/quota proxy/transport/downstream proxy/store",
		"proxy/protocol/dialect":           "translate/wire",
		"proxy/pipes":                      configured + " proxy/config proxy/protocol/idmap proxy/pipes/failures proxy/observe/redact",
		"proxy/bridge/outbox":              configured + " proxy/bytes/quota proxy/transport/downstream",
		"proxy/pipes/mcpheader":            configured + " proxy/protocol/toolindex",
		"proxy/ops/metrics":                configured + " proxy/pipes/failures proxy/observe/redact proxy/ops/trace",
		"proxy/auth/oauthrelay":            configured + " proxy/bytes/quota proxy/transport/downstream",
		"proxy/features/gate":              configured + " proxy/config",
		"proxy/commands/filter":            configured + " proxy/config proxy/pipes/failures proxy/observe/redact proxy/observe proxy/observe/recording",
		"proxy/commands/doctor":            hosted + seen + " proxy/bytes/quota proxy/origin/era proxy/origin/share proxy/origin/restart proxy/replicas/sealed proxy/store/ended proxy/origin proxy/commands/probe proxy/protocol/crossing proxy/bridge/legacyclient proxy/pipes/results proxy/pipes/mcpheader proxy/protocol/toolindex proxy/protocol/dialect proxy/protocol/memo proxy/replicas proxy/store/redisstore proxy/replicas/storeconfig proxy/features/adapters proxy/features/owntools proxy/replicas/principal proxy/features/shape",
		"proxy/commands/demo":              carried + " proxy/protocol/mcp proxy/bytes/quota proxy/transport/downstream translate",
		"proxy/protocol/memo":              "translate translate/wire",
		"proxy/protocol/toolindex":         "transform translate translate/wire proxy/protocol/mcp proxy/bytes/sse proxy/bytes/envelope proxy/bytes/inbuf " + parts,
		"proxy/pipes/failures":             carried + " adapterrt/pattern transform/tree proxy/observe/redact",
		"proxy/ops/repeats":                "",
		"proxy/store/ended":                "proxy/store",
		"proxy/protocol/requests":          "translate/wire",
		"proxy/ops/clienterror":            configured + " proxy/observe/redact proxy/config proxy/protocol/idmap proxy/pipes/failures proxy/bytes/quota proxy/transport/downstream proxy/protocol/requests proxy/replicas/processes proxy/pipes",
		"proxy/ops/report":                 reporting,
		"proxy/ops/host":                   reporting + " proxy/ops/report proxy/ops/losses proxy/store",
		"proxy/protocol/crossing":          "proxy/protocol/mcp proxy/bytes/sse proxy/bytes/envelope proxy/bytes/inbuf translate translate/wire",
		"proxy/bridge/legacyclient":        hosted + seen + " proxy/bytes/quota proxy/origin/era proxy/protocol/crossing proxy/pipes/results proxy/replicas/sealed proxy/store/ended proxy/pipes/mcpheader proxy/protocol/toolindex proxy/protocol/memo",
		"proxy/bridge/modernclient":        hosted + seen + " proxy/origin/era proxy/protocol/crossing proxy/pipes/results proxy/replicas/sealed proxy/store/ended proxy/pipes/mcpheader proxy/protocol/toolindex proxy/bridge/outbox proxy/bytes/quota proxy/bridge/stateless",
		"proxy/origin/share":               hosted + " proxy/bytes/quota proxy/origin/era proxy/replicas/sealed proxy/store/ended proxy/origin/restart",
		"proxy/origin/restart":             hosted + " proxy/origin/era proxy/replicas/sealed proxy/store/ended",
		"proxy/origin/era":                 hosted,
		"proxy/origin":                     hosted + seen + " proxy/bytes/quota proxy/replicas/storeconfig proxy/store/redisstore proxy/origin/era proxy/origin/share proxy/origin/restart proxy/replicas/sealed proxy/store/ended",
		"proxy/features/shape":             hosted + " proxy/protocol/toolindex",
		"proxy/features/owntools":          hosted + " proxy/protocol/toolindex proxy/features/shape",
		"proxy/features/adapters":          hosted + " proxy/protocol/toolindex proxy/features/shape proxy/features/owntools proxy/replicas/principal proxy/replicas/sealed proxy/store/ended proxy/pipes/results",
		"proxy/bridge/stateless":           hosted + " proxy/protocol/toolindex proxy/pipes/mcpheader proxy/bytes/quota proxy/pipes/results",
		"proxy/features/replay":            reporting + " proxy/ops/report",
		"proxy/features/footprint":         configured + " proxy/config proxy/protocol/toolindex",
		"proxy/ops/telemetry":              configured + " proxy/config",
		"proxy/observe":                    "translate translate/wire",
		"proxy/observe/redact":             carried + " adapterrt/secret transform/tree",
		"proxy/observe/instances":          "",
		"proxy/observe/recording":          carried + " translate adapterrt/secret transform/tree proxy/observe/redact proxy/observe",
		"proxy/observe/inspect":            carried + " adapterrt/secret transform/tree translate proxy/observe/redact proxy/observe proxy/observe/recording",
		"proxy/observe/page":               "",
		"proxy/commands/probe":             hosted + seen + " proxy/bytes/quota proxy/origin/era proxy/protocol/crossing proxy/bridge/legacyclient proxy/pipes/results proxy/replicas/sealed proxy/store/ended proxy/pipes/mcpheader proxy/protocol/toolindex proxy/protocol/dialect proxy/protocol/memo",
		"proxy/replicas/processes":         "",
		"proxy/store":                      "",
		"proxy/store/redisstore":           "proxy/store",
		"proxy/replicas/storeconfig":       configured + " proxy/config proxy/store proxy/store/redisstore",
		"proxy/auth/oauth":                 "dial adapterrt/children proxy/transport/unpack proxy/store oauthclient adapterrt/plaintext adapterrt/secret translate/wire",
		"oauthclient":                      "translate/wire adapterrt/secret",
		"dial":                             "",
		"adapterrt":                        "translate/wire " + adapting,
		"transform/tree":                   "translate/wire",
		"transform/fields":                 "",
		"transform/tokens":                 "",
		"transform/notion":                 "translate/wire transform/tree",
		"transform/linear":                 "translate/wire transform/tree",
		"transform/footprint":              "translate/wire transform/tree",
		"transform/tape":                   "translate/wire",
		"transform/grapheme":               "",
		"transform/schema":                 "translate/wire transform/tape",
		"transform/fit":                    "translate/wire transform/tape transform/schema transform/grapheme",
		"transform":                        "translate/wire " + parts,
		"proxy":                            all,
		"deploy":                           "",
		"cmd/command":                      all + " proxy proxy/commands/filter proxy/commands/doctor proxy/observe/page deploy",
		"cmd/dragoman":                     all + " proxy proxy/commands/filter proxy/commands/doctor proxy/observe/page deploy cmd/command",
		"cmd/proxy":                        all + " proxy proxy/commands/filter proxy/commands/doctor proxy/observe/page deploy cmd/command",
	}
	for _, pkg := range folders(t) {
		if _, known := allowed[pkg]; !known {
			t.Errorf("%s has no row", pkg)
		}
	}
	ask := []string{"list", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`}
	for pkg := range allowed {
		ask = append(ask, module+pkg)
	}
	out, err := exec.Command("go", ask...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	listed := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(listed) != len(allowed) {
		t.Fatalf("go list names %d packages, want %d", len(listed), len(allowed))
	}
	for _, line := range listed {
		imports := strings.Fields(line)
		pkg := strings.TrimPrefix(imports[0], module)
		for _, dep := range imports[1:] {
			name, ours := strings.CutPrefix(dep, module)
			if ours && !strings.Contains(" "+allowed[pkg]+" ", " "+name+" ") {
				t.Errorf("%s imports %s", pkg, name)
			}
		}
	}
}

// folders returns the packages of the product but those of adapterrt, whose order has a test there, and those for tests.
func folders(t *testing.T) (list []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "../cmd/...", "../deploy", "../dial", "../oauthclient", "../proxy/...", "../transform/...", "../translate/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		name := strings.TrimPrefix(pkg, "github.com/dragoman-proxy/dragoman/")
		if !strings.HasSuffix(name, "test") && !strings.HasPrefix(name, "proxy/tests") && !strings.Contains(name, "/internal/") && !strings.HasPrefix(name, "cmd/proxy/e2e") {
			list = append(list, name)
		}
	}
	return list
}
