package comingfrom

import (
	"slices"
	"strings"
	"testing"
)

// lines are lines of other tools, with what dragoman runs in their place, as one types it, or the error behind "! ". What has no
// effect follows behind " # ". Words are separated by spaces; · stands for a space within one. Variables are written in front.
var lines = []struct{ theirs, ours string }{
	// mcp-remote: published lines.
	{"mcp-remote https://a.example/mcp", "COOKIES dragoman stdio https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp 3334", "COOKIES dragoman stdio --oauth redirect_uri=http://localhost:3334/oauth/callback https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --header Authorization:·Bearer·${TOKEN}", "COOKIES dragoman stdio --header 'Authorization: Bearer ${TOKEN}' https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --header Authorization:${AUTH} --header X-Team:·a", "COOKIES dragoman stdio --header 'Authorization:${AUTH}' --header 'X-Team: …' https://a.example/mcp"},
	{"mcp-remote https://a.example/sse --transport sse-only --allow-http --debug", "COOKIES dragoman stdio --upstream-transport sse --oauth allow_http=true --log-level debug https://a.example/sse"},
	{"mcp-remote https://a.example/mcp --header-file /etc/h 3334 --transport http-only", "COOKIES dragoman stdio --oauth redirect_uri=http://localhost:3334/oauth/callback --header-file /etc/h --upstream-transport http https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp 3334 --host 127.0.0.1 --callback-path /cb", "COOKIES dragoman stdio --oauth redirect_uri=http://127.0.0.1:3334/cb https://a.example/mcp"},
	// A client is registered with a port that is derived from the URL, and from more where that is given.
	{"mcp-remote https://mcp.example.com/mcp --host 127.0.0.1", "COOKIES dragoman stdio --oauth redirect_uri=http://127.0.0.1:0/oauth/callback https://mcp.example.com/mcp"},
	{`mcp-remote https://mcp.example.com/mcp --static-oauth-client-info {"client_id":"abc"}`, "COOKIES dragoman stdio --oauth redirect_uri=http://localhost:41409/oauth/callback --oauth client_id=abc https://mcp.example.com/mcp"},
	{`mcp-remote https://mcp.example.com/mcp --static-oauth-client-info {"client_id":"abc"} --header X-A:v`, "! --static-oauth-client-info: write the callback port that the client is registered with behind the URL; mcp-remote derives it from other options, too, and has it in its log"},
	{`mcp-remote https://a.example/mcp 3334 --static-oauth-client-info {"client_id":"${ID}","client_secret":"${SECRET}"}`, "! --static-oauth-client-info: client_id is missing"},
	{`ID=abc mcp-remote https://a.example/mcp 3334 --static-oauth-client-info {"client_id":"${ID}","client_secret":"geheim"}`, "COOKIES_AND_SECRET dragoman stdio --oauth redirect_uri=http://localhost:3334/oauth/callback --oauth client_id=abc https://a.example/mcp"},
	{`mcp-remote https://a.example/mcp --client-credentials --token-endpoint https://t.example/t --static-oauth-client-info {"client_id":"abc"} --static-oauth-client-metadata {"scope":"read·write","client_name":"Me","token_endpoint_auth_method":"client_secret_basic"}`, "COOKIES dragoman stdio --oauth client_id=abc --oauth client_name=Me --oauth 'scopes=read write' --oauth type=client_credentials --oauth token_endpoint=https://t.example/t https://a.example/mcp"},
	{`mcp-remote https://a.example/mcp --static-oauth-client-metadata {"client_uri":"https://c.example"}`, "COOKIES dragoman stdio https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --static-oauth-client-metadata {", "! --static-oauth-client-metadata: expected a JSON object, or @ and the file of one"},
	{"mcp-remote https://a.example/mcp --static-oauth-client-info @/does/not/exist", "! --static-oauth-client-info: open /does/not/exist: no such file or directory"},
	{"mcp-remote https://a.example/mcp --static-oauth-client-info {}", "! --static-oauth-client-info: client_id is missing"},
	{"mcp-remote https://a.example/mcp --device-code --client-metadata-url https://c.example/m", "COOKIES dragoman stdio --oauth client_metadata_url=https://c.example/m --login device https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --resource https://r.example/ --authorize-param audience=https://api.example", "COOKIES dragoman stdio --oauth resource=https://r.example/ --oauth params.audience=https://api.example https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --resource https://r.example/ --disable-resource-parameter", "COOKIES dragoman stdio --oauth resource=https://r.example/ --oauth resource=none https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --connect-timeout 2.50 --headers-timeout 10 --body-timeout 0 --auth-timeout 120", "BODY dragoman stdio --oauth wait=120s https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --headers-timeout 100 --body-timeout 20", "DRAGOMAN_UPSTREAM_COOKIES=all DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=20s dragoman stdio https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --keep-alive --disable-cookies", "DRAGOMAN_UPSTREAM_COOKIES=none DRAGOMAN_UPSTREAM_KEEPALIVE=30s dragoman stdio https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --keep-alive --ping-interval 5", "DRAGOMAN_UPSTREAM_COOKIES=all DRAGOMAN_UPSTREAM_KEEPALIVE=5s dragoman stdio https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --silent --protocol auto --enable-proxy", "COOKIES dragoman stdio --log-level error https://a.example/mcp"},
	{"DRAGOMAN_UPSTREAM_COOKIES=none mcp-remote https://a.example/mcp", "dragoman stdio https://a.example/mcp"},
	{"MCP_REMOTE_CONFIG_DIR=/data mcp-remote https://a.example/mcp", "DRAGOMAN_CREDENTIALS=/data DRAGOMAN_UPSTREAM_COOKIES=all dragoman stdio https://a.example/mcp"},
	{"NODE_TLS_REJECT_UNAUTHORIZED=0 mcp-remote https://a.example/mcp", "COOKIES dragoman stdio --verify none --login never https://a.example/mcp"},
	{"NODE_TLS_REJECT_UNAUTHORIZED=1 NODE_EXTRA_CA_CERTS=/ca mcp-remote https://a.example/mcp", "COOKIES dragoman stdio https://a.example/mcp"},
	// What has no counterpart.
	{"mcp-remote https://a.example/mcp --ipv4", "COOKIES dragoman stdio https://a.example/mcp # --ipv4: addresses of both families are tried, and one that does not answer delays the other little"},
	{"mcp-remote https://a.example/mcp --auth-success-url https://x.example", "COOKIES dragoman stdio https://a.example/mcp # --auth-success-url: the browser shows dragoman's own page after the login"},
	{"mcp-remote https://a.example/mcp --use-id-token", "! --use-id-token: an ID token names the user to the client, and a server that takes it as a key takes that of any other client; leave the option out, and give the server an access token"},
	{"mcp-remote https://a.example/mcp --ignore-tool delete*", "! --ignore-tool: dragoman passes all tools of the server on, and without the option the model could use these; switch them off in the client's settings, and leave the option out"},
	// Wrong lines.
	{"mcp-remote", "! no server is named: write the URL of the server first"},
	{"mcp-remote a.example/mcp", "COOKIES dragoman stdio a.example/mcp"},
	{"mcp-remote https://a.example/mcp --authorize-param audience", "! --authorize-param: expected KEY=VALUE"},
	{"mcp-remote https://a.example/mcp --transport websocket", `! --transport: "websocket" is not one of http-first, sse-first, http-only, sse-only`},
	{"mcp-remote https://a.example/mcp --connect-timeout 0", `! --connect-timeout: "0" is less than 0.001`},
	{"mcp-remote https://a.example/mcp --body-timeout NaN", `! --body-timeout: "NaN" is not a number`},
	{"mcp-remote https://a.example/mcp --ping-interval -1", `! --ping-interval: "-1" is less than 0.001`},
	{"mcp-remote https://a.example/mcp --callback-path cb", "! --callback-path: expected /PATH"},
	{"mcp-remote https://a.example/mcp --host", "! --host: a value is missing"},
	{"mcp-remote https://a.example/mcp --header apikey:·geheim --header DD-API-KEY:·geheim --header PRIVATE-TOKEN:·geheim", "COOKIES dragoman stdio --header 'apikey: …' --header 'DD-API-KEY: …' --header 'PRIVATE-TOKEN: …' https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --client-credentials", "! --client-credentials: needs the client's client_id and client_secret in --static-oauth-client-info"},
	{"mcp-remote https://a.example/mcp --hedaer A:·geheim", "COOKIES dragoman stdio https://a.example/mcp # --hedaer: is no option of mcp-remote 0.15.1, which has no use for it either; did you mean --header?"},
	// How it reads words: flags anywhere.
	{"mcp-remote --header A:·b https://a.example/mcp 3334", "COOKIES dragoman stdio --oauth redirect_uri=http://localhost:3334/oauth/callback --header 'A: …' https://a.example/mcp"},
	{"mcp-remote --debug https://a.example/mcp", "COOKIES dragoman stdio --log-level debug https://a.example/mcp"},
	{"mcp-remote https://a.example/mcp --new-token=geheim", "COOKIES dragoman stdio https://a.example/mcp # --new-token: is no option of mcp-remote 0.15.1, which has no use for it either"},
	{"mcp-remote https://a.example/mcp --new-flag", "COOKIES dragoman stdio https://a.example/mcp # --new-flag: is no option of mcp-remote 0.15.1, which has no use for it either"},

	// supergateway: published lines.
	{"supergateway --stdio uvx·mcp-server-git", "dragoman serve --listen :8000 -- uvx mcp-server-git"},
	{"supergateway --stdio npx·-y·@modelcontextprotocol/server-filesystem·./my-folder --port 8000 --baseUrl http://localhost:8000 --ssePath /sse --messagePath /message", "DRAGOMAN_OAUTH_PUBLIC_URL=http://localhost:8000/mcp DRAGOMAN_SSE_PATH=/sse dragoman serve --listen :8000 -- npx -y @modelcontextprotocol/server-filesystem ./my-folder"},
	{"supergateway --sse https://a.example", "dragoman stdio --upstream-transport sse https://a.example"},
	{"supergateway --sse https://a.example --oauth2Bearer geheim --header X-My:·v --header Y:·w", "dragoman stdio --upstream-transport sse --header 'X-My: …' --header 'Y: …' --header 'Authorization: …' https://a.example"},
	{"supergateway --streamableHttp https://a.example/mcp --oauth2Bearer ${T}", "dragoman stdio --upstream-transport http --header 'Authorization: Bearer ${T}' https://a.example/mcp"},
	{"supergateway --stdio x --outputTransport streamableHttp --port 8000", "DRAGOMAN_SESSION_WITHOUT=open dragoman serve --listen :8000 -- x"},
	{"supergateway --stdio x --outputTransport streamableHttp --stateful --sessionTimeout 60000 --port 8000", "DRAGOMAN_SESSION_IDLE_TIMEOUT=60000ms dragoman serve --listen :8000 -- x"},
	{"supergateway --stdio x --sessionTimeout -5", "dragoman serve --listen :8000 -- x"},
	{"supergateway --port 8000 --stdio x --cors --healthEndpoint /healthz --healthEndpoint /readyz --logLevel none", "DRAGOMAN_CORS_ORIGINS='*' DRAGOMAN_HEALTH_PATHS=/readyz dragoman serve --listen :8000 --log-level error -- x"},
	{"supergateway --stdio x --cors https://a.example https://b.example --healthEndpoint /ping", "DRAGOMAN_CORS_ORIGINS=https://a.example,https://b.example dragoman serve --listen :8000 -- x"},
	{"supergateway --stdio x --outputTransport streamableHttp --streamableHttpPath /v1 --baseUrl https://u.example/p/", "DRAGOMAN_OAUTH_PUBLIC_URL=https://u.example/p/v1 DRAGOMAN_PATH=/v1 DRAGOMAN_SESSION_WITHOUT=open dragoman serve --listen :8000 -- x"},
	// The command is for a shell.
	{"supergateway --stdio node·x.js·--root=/data", "dragoman serve --listen :8000 -- node x.js --root=/data"},
	{"supergateway --stdio A=b·node·x.js", "dragoman serve --listen :8000 -- sh -c 'A=b node x.js'"},
	{"supergateway --stdio node·x.js·$HOME", "dragoman serve --listen :8000 -- sh -c 'node x.js $HOME'"},
	{"supergateway --stdio cd·/x·&&·API_KEY=geheim·node·x.js·--token·geheim", "dragoman serve --listen :8000 -- sh -c 'cd /x && API_KEY=… node x.js --token …'"},
	{"mcp-remote https://a.example/mcp --header Authorization·Bearer·geheim", "! --header: expected 'Name: value'"},
	{"supergateway --stdio cd·/x·&&·node·x.js", "dragoman serve --listen :8000 -- sh -c 'cd /x && node x.js'"},
	// The environment counts, and what the line has wins.
	{"DRAGOMAN_LISTEN=127.0.0.1:1 DRAGOMAN_SESSION_WITHOUT=refuse supergateway --stdio x --outputTransport streamableHttp", "dragoman serve -- x"},
	{"DRAGOMAN_LISTEN=127.0.0.1:1 supergateway --stdio x --port 9", "dragoman serve --listen :9 -- x"},
	{"NODE_TLS_REJECT_UNAUTHORIZED=0 supergateway --sse https://a.example", "dragoman stdio --upstream-transport sse --verify none --login never https://a.example"},
	{"NODE_TLS_REJECT_UNAUTHORIZED=0 supergateway --stdio x", "dragoman serve --listen :8000 -- x"},
	// Wrong lines, and what has no counterpart.
	{"supergateway", "! no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL"},
	{"supergateway --stdio --port 1", "! no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL"},
	{"supergateway --stdio ·", "! no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL"},
	{"supergateway --sdtio x --port 1", "! no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL; --sdtio is no option of supergateway 4.0.0; did you mean --stdio?"},
	{"supergateway --stdio https://a.example/mcp", "! --stdio takes a command; write --streamableHttp or --sse before a URL"},
	{"supergateway --stdio x --sse https://a.example", "! two servers are given, --stdio and --sse: keep one"},
	{"supergateway --stdio x --outputTransport ws", "! --outputTransport: ws is a WebSocket, which no revision of MCP has; write streamableHttp, or sse for old clients"},
	{"supergateway --stdio x --outputTransport stdio", "! --outputTransport: stdio goes with a server at a URL; leave it out to serve over HTTP"},
	{"supergateway --stdio x --outputTransport http", `! --outputTransport: "http" is not one of stdio, sse, ws, streamableHttp`},
	{"supergateway --sse https://a.example --outputTransport sse", `! --outputTransport: "sse" goes with --stdio; a server at a URL is served on stdio`},
	{"supergateway --sse a.example", "dragoman stdio --upstream-transport sse a.example"},
	{"supergateway --stdio x --port abc", `! --port: "abc" is not a number`},
	{"supergateway --stdio x --logLevel verbose", `! --logLevel: "verbose" is not one of debug, info, none`},
	{"supergateway --stdio x --outputTransport streamableHttp --stateful --sessionTimeout 0", `! --sessionTimeout: "0" is less than 1`},
	{"supergateway --stdio x --header A:·b", "! --header: with --stdio it is a header of each response, which dragoman does not set; a reverse proxy in front can, or leave it out"},
	{"supergateway --stdio x --oauth2Bearer t", "dragoman serve --listen :8000 -- x # --oauth2Bearer: with --stdio supergateway sends the token to its clients, which have no use for it"},
	{"supergateway --stdio x --cors /example/", "! --cors: a pattern is not an origin; write each origin, as in https://page.example, or * for all"},
	// How it reads words.
	{"supergateway --stdio=x --port=9", "dragoman serve --listen :9 -- x"},
	{"supergateway --output-transport streamableHttp --stateful --stdio x", "dragoman serve --listen :8000 -- x"},
	{"supergateway --stateful false --stdio x --outputTransport streamableHttp", "DRAGOMAN_SESSION_WITHOUT=open dragoman serve --listen :8000 -- x"},
	{"supergateway --no-stateful --stdio x --outputTransport streamableHttp", "DRAGOMAN_SESSION_WITHOUT=open dragoman serve --listen :8000 -- x"},
	{"supergateway --port 1 --port 2 --stdio x", "dragoman serve --listen :2 -- x"},
	{"supergateway --stdio x --new-flag y -q", "dragoman serve --listen :8000 -- x # --new-flag: is no option of supergateway 4.0.0, which has no use for it either # -q: is no option of supergateway 4.0.0, which has no use for it either"},

	// mcp-proxy of npm: published lines.
	{"mcp-proxy npx -y @modelcontextprotocol/server-filesystem /path", "dragoman serve --listen :8080 -- npx -y @modelcontextprotocol/server-filesystem /path"},
	{"mcp-proxy --port 8080 --shell -- tsx server.js", "dragoman serve --listen :8080 -- sh -c 'tsx server.js'"},
	{"mcp-proxy --port 8080 --stateless --server stream -- tsx server.js", "DRAGOMAN_SESSION_WITHOUT=open dragoman serve --listen :8080 -- tsx server.js # --server: both transports are served; the one that is not used costs nothing"},
	{"mcp-proxy --port 8080 --apiKey geheim -- tsx server.js", "DRAGOMAN_AUTH_HEADER=X-API-Key DRAGOMAN_AUTH_TOKENS=… dragoman serve --listen :8080 -- tsx server.js"},
	{"MCP_PROXY_API_KEY=geheim mcp-proxy -- tsx server.js", "DRAGOMAN_AUTH_HEADER=X-API-Key DRAGOMAN_AUTH_TOKENS=… dragoman serve --listen :8080 -- tsx server.js"},
	{"MCP_PROXY_PORT=9 MCP_PROXY_SHELL=true mcp-proxy -- a $B", "dragoman serve --listen :9 -- sh -c 'a $B'"},
	{"MCP_PROXY_PORT=9 MCP_PROXY_SHELL=1 mcp-proxy --port 10 -- a $B", "dragoman serve --listen :10 -- a '$B'"},
	{"mcp-proxy --host 127.0.0.1 -- a", "dragoman serve --listen 127.0.0.1:8080 -- a"},
	{"mcp-proxy --host ::1 --port 9 -- a", "dragoman serve --listen [::1]:9 -- a"},
	{"mcp-proxy --streamEndpoint /m --sseEndpoint /s --debug -- a", "DRAGOMAN_PATH=/m DRAGOMAN_SSE_PATH=/s dragoman serve --listen :8080 --log-level debug -- a"},
	{"mcp-proxy --requestTimeout 1000 --connectionTimeout 2000 --gracefulShutdownTimeout 3000 --sessionIdleTimeout 0 --maxBodySize 0 -- a", "DRAGOMAN_LIMITS_CLIENT_MESSAGE=1073741824 DRAGOMAN_SESSION_IDLE_TIMEOUT=86400000ms DRAGOMAN_SHUTDOWN_DRAIN=3000ms DRAGOMAN_UPSTREAM_HANDSHAKE_TIMEOUT=2000ms DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=1000ms dragoman serve --listen :8080 -- a"},
	{"mcp-proxy --no-eventStore --eventStoreMaxEvents 5 -- a", "DRAGOMAN_LIMITS_REPLAY=0 dragoman serve --listen :8080 -- a"},
	{"mcp-proxy --eventStoreMaxEvents 5 --no-modern --upstreamProtocol auto -- a", "DRAGOMAN_LIMITS_REPLAY=5 dragoman serve --listen :8080 -- a # --no-modern: each client gets the revision that it speaks"},
	{"mcp-proxy --sslCert /c --sslKey /k --sslCa /a -- a", "DRAGOMAN_TLS_CERT=/c DRAGOMAN_TLS_KEY=/k dragoman serve --listen :8080 -- a # --sslCa: mcp-proxy asks no client for a certificate, so that it has no effect there either"},
	{"mcp-proxy --cors -- a", "DRAGOMAN_CORS_ORIGINS='*' dragoman serve --listen :8080 -- a"},
	{"mcp-proxy --corsAddAllowedHeader X-A --corsAddAllowedHeader X-B --cors https://a.example -- a", "DRAGOMAN_CORS_HEADERS=X-A,X-B DRAGOMAN_CORS_ORIGINS=https://a.example dragoman serve --listen :8080 -- a"},
	{"mcp-proxy x -- a", "dragoman serve --listen :8080 -- a"},
	{"mcp-proxy node server.js --port 9 --verbose", "dragoman serve --listen :9 -- node server.js --verbose"},
	{"mcp-proxy --tunnel -- a", "! --tunnel: dragoman opens no tunnel through another company's machine, and without it nothing is reachable there; start a tunnel of your own, such as cloudflared, to the port, and leave the option out"},
	{"mcp-proxy", "! no server is named: write -- and the server's command"},
	{"mcp-proxy --prot 9 -- a", "dragoman serve --listen :8080 -- a # --prot: is no option of mcp-proxy (npm) 6.7.19, which has no use for it either; did you mean --port?"},
	{"supergateway --stdio x --allow-host mcp.example.com", "dragoman serve --listen :8000 -- x # --allow-host: is no option of supergateway 4.0.0, which has no use for it either; dragoman has it: DRAGOMAN_ALLOWED_HOSTS=VALUE before the line"},
	// The line of another tool of that name.
	{"mcp-proxy https://a.example/mcp", "! mcp-proxy of npm takes a command; with a URL the line is of Python's: dragoman as mcp-proxy-py …"},
	{"mcp-proxy --transport sse", "! no server is named: write -- and the server's command; --transport is no option of mcp-proxy (npm) 6.7.19; mcp-proxy (Python) has it: dragoman as mcp-proxy-py …"},
	{"mcp-proxy --named-server fetch x", "dragoman serve --listen :8080 -- x # --named-server: is no option of mcp-proxy (npm) 6.7.19, which has no use for it either; mcp-proxy (Python) has it: dragoman as mcp-proxy-py …"},
	{"mcp-proxy -- a --connection Server=h;Password=geheim;Port=1", "dragoman serve --listen :8080 -- a --connection 'Server=h;Password=…;Port=1'"},
	{"mcp-proxy --config config.json", "! no server is named: write -- and the server's command; --config is no option of mcp-proxy (npm) 6.7.19; TBXark's mcp-proxy has it: dragoman as tbxark …"},
	{"mcp-proxy --server http -- a", `! --server: "http" is not one of sse, stream`},
	{"mcp-proxy --requestTimeout 5m -- a", `! --requestTimeout: "5m" is not a number`},
	{"mcp-proxy --maxBodySize -1 -- a", `! --maxBodySize: "-1" is less than 0`},
}

// short are words of lines that stand for several.
var short = strings.NewReplacer(
	"COOKIES_AND_SECRET", "DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET=… DRAGOMAN_UPSTREAM_COOKIES=all", "COOKIES", "DRAGOMAN_UPSTREAM_COOKIES=all",
	"BODY", "DRAGOMAN_UPSTREAM_CONNECT_TIMEOUT=2.5s DRAGOMAN_UPSTREAM_COOKIES=all DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=86400s",
)

func TestLines(t *testing.T) {
	for _, c := range lines {
		want := c.ours
		if strings.HasPrefix(want, "COOKIES") || strings.HasPrefix(want, "BODY") {
			want = short.Replace(want)
		}
		if got := translated(t, c.theirs); got != want {
			t.Errorf("%s\n got  %s\n want %s", c.theirs, got, want)
		}
	}
}

// translated returns what lines has for a line.
func translated(t *testing.T, theirs string) string {
	t.Helper()
	env := map[string]string{}
	words := strings.Fields(theirs)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "·", " ")
	}
	at := slices.IndexFunc(words, func(w string) bool { return slices.Contains(Names(), w) })
	for _, w := range strings.Fields(theirs)[:at] {
		name, value, _ := strings.Cut(w, "=")
		env[name] = value
	}
	tool, err := Load(words[at], words...)
	if err != nil {
		t.Fatal(err)
	}
	line, err := tool.Translate(words[at+1:], func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		return "! " + err.Error()
	}
	return strings.Join(append([]string{line.String()}, line.Ignored...), " # ")
}

// TestHeadersReachTheLine: a header whose value is not shown is in the line.
func TestHeadersReachTheLine(t *testing.T) {
	for tool, words := range map[string][]string{
		"mcp-remote":   {"https://a.example/mcp", "--header", "X-A:b", "--header", "X-C: d"},
		"supergateway": {"--sse", "https://a.example", "--header", "X-A:b", "--header", "X-C: d"},
		"mcp-proxy-py": {"https://a.example", "-H", "X-A", "b", "-H", "X-C", "d"},
	} {
		of, err := Load(tool)
		if err != nil {
			t.Fatal(err)
		}
		line, err := of.Translate(words, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		all := strings.ReplaceAll(strings.Join(line.Words(), " "), ": ", ":")
		if !strings.Contains(all, "--header X-A:b --header X-C:d") || strings.Contains(line.String(), "d'") {
			t.Errorf("%s: %s\n%s", tool, all, line)
		}
	}
}
