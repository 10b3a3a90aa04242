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
	const carried = "dial adapterrt/children adapterrt/secret proxy/unpack proxy/unixsocket proxy/callctx proxy/samehead proxy/rawio proxy/upstream/orphans proxy/upstream proxy/sse proxy/lines proxy/large proxy/envelope proxy/inbuf translate/wire"
	const configured = carried + " proxy/mcp proxy/memlimit proxy/openfiles proxy/oauth proxy/store proxy/setting adapterrt transform translate " + parts + " " + adapting
	const rooms = configured + " proxy/observe/instances proxy/config proxy/sealed proxy/quota proxy/idmap proxy/downstream proxy/results proxy/processes proxy/ended proxy/failures proxy/repeats proxy/dialect proxy/toolindex proxy/memo proxy/demo proxy/replicas proxy/trace proxy/losses proxy/principal proxy/gate proxy/server proxy/outbox proxy/mcpheader proxy/metrics proxy/oauthrelay proxy/requests proxy/clienterror proxy/report proxy/era proxy/host proxy/bridge proxy/bridge/legacyclient proxy/bridge/modernclient proxy/restart proxy/share proxy/origin proxy/shape proxy/owntools proxy/adapters proxy/stateless proxy/replay proxy/footprint proxy/probe proxy/telemetry proxy/observe proxy/redact proxy/observe/recording proxy/observe/inspect proxy/observe/page proxy/store proxy/store/redisstore proxy/store/storeconfig"
	const reporting = configured + " proxy/redact proxy/config proxy/idmap proxy/failures proxy/quota proxy/downstream proxy/requests proxy/processes proxy/server proxy/clienterror proxy/metrics proxy/repeats proxy/trace proxy/oauthrelay"
	const hosted = reporting + " proxy/store proxy/report proxy/losses proxy/host proxy/telemetry"
	const seen = " proxy/observe"
	const made = hosted + " proxy/store/storeconfig proxy/store/redisstore proxy/adapters proxy/ended proxy/era proxy/footprint proxy/gate proxy/origin proxy/owntools proxy/principal proxy/quota proxy/redact proxy/restart proxy/results proxy/sealed proxy/shape proxy/share proxy/toolindex"
	const talking = made + seen + " proxy/setup proxy/bridge proxy/bridge/legacyclient proxy/mcpheader proxy/replay proxy/stateless proxy/memo"
	const entering = talking + " proxy/session proxy/exchange proxy/handshake proxy/bridge/modernclient proxy/outbox proxy/probe proxy/dialect proxy/replicas"
	const all = rooms + " proxy/setup proxy/session proxy/exchange proxy/handshake proxy/clients proxy/clients/web proxy/clients/pipe"
	allowed := map[string]string{
		"proxy/setup":               made,
		"proxy/session":             talking,
		"proxy/exchange":            talking + " proxy/session proxy/dialect",
		"proxy/handshake":           talking + " proxy/session proxy/bridge/modernclient proxy/outbox proxy/dialect proxy/replicas",
		"proxy/clients":             entering,
		"proxy/clients/web":         entering + " proxy/clients",
		"proxy/clients/pipe":        entering + " proxy/clients",
		"translate/wire":            "",
		"translate":                 "translate/wire",
		"proxy/sse":                 "proxy/envelope proxy/inbuf",
		"proxy/lines":               "proxy/large proxy/envelope proxy/inbuf",
		"proxy/envelope":            "",
		"proxy/inbuf":               "",
		"proxy/idmap":               "translate/wire",
		"proxy/large":               "",
		"proxy/setting":             "adapterrt/near adapterrt/pattern",
		"proxy/mcp":                 "proxy/sse proxy/envelope proxy/inbuf translate translate/wire",
		"proxy/config":              configured,
		"proxy/memlimit":            "",
		"proxy/openfiles":           "",
		"proxy/callctx":             "",
		"proxy/samehead":            "",
		"proxy/unpack":              "",
		"proxy/rawio":               "",
		"proxy/unixsocket":          "",
		"proxy/downstream":          "proxy/quota proxy/unixsocket proxy/callctx proxy/samehead proxy/rawio proxy/mcp translate proxy/sse proxy/lines proxy/large proxy/envelope proxy/inbuf translate/wire",
		"proxy/upstream":            "dial adapterrt/children adapterrt/secret proxy/unpack proxy/unixsocket proxy/callctx proxy/samehead proxy/rawio proxy/upstream/orphans proxy/sse proxy/lines proxy/large proxy/envelope proxy/inbuf translate/wire",
		"proxy/upstream/orphans":    "adapterrt/children",
		"proxy/quota":               "",
		"proxy/sealed":              configured + " proxy/config proxy/ended",
		"proxy/results":             carried,
		"proxy/trace":               carried + " proxy/mcp translate",
		"proxy/losses":              carried + " proxy/mcp proxy/trace translate",
		"proxy/principal":           configured + " proxy/config proxy/sealed proxy/ended proxy/quota proxy/downstream proxy/results",
		"proxy/replicas":            configured + " proxy/config proxy/sealed proxy/ended proxy/quota proxy/downstream proxy/store",
		"proxy/dialect":             "translate/wire",
		"proxy/server":              configured + " proxy/config proxy/idmap proxy/failures proxy/redact",
		"proxy/outbox":              configured + " proxy/quota proxy/downstream",
		"proxy/mcpheader":           configured + " proxy/toolindex",
		"proxy/metrics":             configured + " proxy/failures proxy/redact proxy/trace",
		"proxy/oauthrelay":          configured + " proxy/quota proxy/downstream",
		"proxy/gate":                configured + " proxy/config",
		"proxy/filter":              configured + " proxy/config proxy/failures proxy/redact proxy/observe proxy/observe/recording",
		"proxy/doctor":              hosted + seen + " proxy/quota proxy/era proxy/share proxy/restart proxy/sealed proxy/ended proxy/origin proxy/probe proxy/bridge proxy/bridge/legacyclient proxy/results proxy/mcpheader proxy/toolindex proxy/dialect proxy/memo proxy/replicas proxy/store/redisstore proxy/store/storeconfig proxy/adapters proxy/owntools proxy/principal proxy/shape",
		"proxy/demo":                carried + " proxy/mcp proxy/quota proxy/downstream translate",
		"proxy/memo":                "translate translate/wire",
		"proxy/toolindex":           "transform translate translate/wire proxy/mcp proxy/sse proxy/envelope proxy/inbuf " + parts,
		"proxy/failures":            carried + " adapterrt/pattern transform/tree proxy/redact",
		"proxy/repeats":             "",
		"proxy/ended":               "proxy/store",
		"proxy/requests":            "translate/wire",
		"proxy/clienterror":         configured + " proxy/redact proxy/config proxy/idmap proxy/failures proxy/quota proxy/downstream proxy/requests proxy/processes proxy/server",
		"proxy/report":              reporting,
		"proxy/host":                reporting + " proxy/report proxy/losses proxy/store",
		"proxy/bridge":              "proxy/mcp proxy/sse proxy/envelope proxy/inbuf translate translate/wire",
		"proxy/bridge/legacyclient": hosted + seen + " proxy/quota proxy/era proxy/bridge proxy/results proxy/sealed proxy/ended proxy/mcpheader proxy/toolindex proxy/memo",
		"proxy/bridge/modernclient": hosted + seen + " proxy/era proxy/bridge proxy/results proxy/sealed proxy/ended proxy/mcpheader proxy/toolindex proxy/outbox proxy/quota proxy/stateless",
		"proxy/share":               hosted + " proxy/quota proxy/era proxy/sealed proxy/ended proxy/restart",
		"proxy/restart":             hosted + " proxy/era proxy/sealed proxy/ended",
		"proxy/era":                 hosted,
		"proxy/origin":              hosted + seen + " proxy/quota proxy/store/storeconfig proxy/store/redisstore proxy/era proxy/share proxy/restart proxy/sealed proxy/ended",
		"proxy/shape":               hosted + " proxy/toolindex",
		"proxy/owntools":            hosted + " proxy/toolindex proxy/shape",
		"proxy/adapters":            hosted + " proxy/toolindex proxy/shape proxy/owntools proxy/principal proxy/sealed proxy/ended proxy/results",
		"proxy/stateless":           hosted + " proxy/toolindex proxy/mcpheader proxy/quota proxy/results",
		"proxy/replay":              reporting + " proxy/report",
		"proxy/footprint":           configured + " proxy/config proxy/toolindex",
		"proxy/telemetry":           configured + " proxy/config",
		"proxy/observe":             "translate translate/wire",
		"proxy/redact":              carried + " adapterrt/secret transform/tree",
		"proxy/observe/instances":   "",
		"proxy/observe/recording":   carried + " translate adapterrt/secret transform/tree proxy/redact proxy/observe",
		"proxy/observe/inspect":     carried + " adapterrt/secret transform/tree translate proxy/redact proxy/observe proxy/observe/recording",
		"proxy/observe/page":        "",
		"proxy/probe":               hosted + seen + " proxy/quota proxy/era proxy/bridge proxy/bridge/legacyclient proxy/results proxy/sealed proxy/ended proxy/mcpheader proxy/toolindex proxy/dialect proxy/memo",
		"proxy/processes":           "",
		"proxy/store":               "",
		"proxy/store/redisstore":    "proxy/store",
		"proxy/store/storeconfig":   configured + " proxy/config proxy/store proxy/store/redisstore",
		"proxy/oauth":               "dial adapterrt/children proxy/unpack proxy/store oauthclient adapterrt/plaintext adapterrt/secret translate/wire",
		"oauthclient":               "translate/wire adapterrt/secret",
		"dial":                      "",
		"adapterrt":                 "translate/wire " + adapting,
		"transform/tree":            "translate/wire",
		"transform/fields":          "",
		"transform/tokens":          "",
		"transform/notion":          "translate/wire transform/tree",
		"transform/linear":          "translate/wire transform/tree",
		"transform/footprint":       "translate/wire transform/tree",
		"transform/tape":            "translate/wire",
		"transform/grapheme":        "",
		"transform/schema":          "translate/wire transform/tape",
		"transform/fit":             "translate/wire transform/tape transform/schema transform/grapheme",
		"transform":                 "translate/wire " + parts,
		"proxy":                     all,
		"deploy":                    "",
		"cmd/command":               all + " proxy proxy/filter proxy/doctor proxy/observe/page deploy",
		"cmd/dragoman":              all + " proxy proxy/filter proxy/doctor proxy/observe/page deploy cmd/command",
		"cmd/proxy":                 all + " proxy proxy/filter proxy/doctor proxy/observe/page deploy cmd/command",
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
		if !strings.HasSuffix(name, "test") && !strings.HasPrefix(name, "proxy/peertest/") && !strings.Contains(name, "/internal/") && !strings.HasPrefix(name, "cmd/proxy/e2e") {
			list = append(list, name)
		}
	}
	return list
}
