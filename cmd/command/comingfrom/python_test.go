package comingfrom

import (
	"strings"
	"testing"
)

// linesOfPython are as lines, of tools that are not run from npm. ENV stands for the settings that each line of serve has.
var linesOfPython = []struct{ theirs, ours string }{
	// Python's mcp-proxy in front of a URL: the lines of its documentation.
	{"mcp-proxy-py http://a.example/sse", "dragoman stdio http://a.example/sse"},
	{"mcp-proxy-py --transport streamablehttp http://a.example/mcp", "dragoman stdio --upstream-transport http http://a.example/mcp"},
	{"mcp-proxy-py --transport=sse http://a.example/sse", "dragoman stdio --upstream-transport sse http://a.example/sse"},
	{"mcp-proxy-py --headers Authorization Bearer·geheim http://a.example/sse", "dragoman stdio --header 'Authorization: …' http://a.example/sse"},
	{"mcp-proxy-py http://a.example/sse -H X-A b -H X-C d", "dragoman stdio --header 'X-A: …' --header 'X-C: …' http://a.example/sse"},
	{"API_ACCESS_TOKEN=geheim mcp-proxy-py -H Authorization geheim http://a.example/sse", "dragoman stdio --header 'Authorization: …' --header 'Authorization: Bearer ${API_ACCESS_TOKEN}' http://a.example/sse"},
	{"SSE_URL=http://a.example/sse mcp-proxy-py", "dragoman stdio http://a.example/sse"},
	{"SSE_URL=http://a.example/sse mcp-proxy-py http://b.example/sse", "dragoman stdio http://b.example/sse"},
	{"mcp-proxy-py --no-verify-ssl https://a.example/sse", "dragoman stdio --verify none --login never https://a.example/sse"},
	{"mcp-proxy-py https://a.example/sse --verify-ssl False", "dragoman stdio --verify none --login never https://a.example/sse"},
	{"mcp-proxy-py https://a.example/sse --verify-ssl", "dragoman stdio https://a.example/sse"},
	{"mcp-proxy-py https://a.example/sse --verify-ssl=yes", "dragoman stdio https://a.example/sse"},
	{"mcp-proxy-py https://a.example/sse --verify-ssl /etc/ca.pem", "dragoman stdio --ca /etc/ca.pem https://a.example/sse"},
	{"mcp-proxy-py --client-id me --client-secret geheim --token-url https://t.example/t https://a.example/sse", "DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET=… dragoman stdio --oauth type=client_credentials --oauth client_id=me --oauth token_endpoint=https://t.example/t https://a.example/sse"},
	{"mcp-proxy-py http://a.example/sse --port 8080 --env A b --debug", "dragoman stdio --log-level debug http://a.example/sse"},
	{"mcp-proxy-py --log-level WARNING --debug http://a.example/sse", "dragoman stdio --log-level warn --log-level debug http://a.example/sse"},
	// In front of a command.
	{"mcp-proxy-py uvx mcp-server-fetch", "ENV dragoman serve --listen 127.0.0.1:0 -- uvx mcp-server-fetch"},
	{"mcp-proxy-py --port=8080 uvx mcp-server-fetch", "ENV dragoman serve --listen 127.0.0.1:8080 -- uvx mcp-server-fetch"},
	{"mcp-proxy-py --host=0.0.0.0 --port=8080 uvx mcp-server-fetch", "ENV dragoman serve --listen 0.0.0.0:8080 -- uvx mcp-server-fetch"},
	{"mcp-proxy-py --sse-host=0.0.0.0 --sse-port=8080 uvx mcp-server-fetch", "ENV dragoman serve --listen 0.0.0.0:8080 -- uvx mcp-server-fetch"},
	{"mcp-proxy-py --sse-host 0.0.0.0 --sse-port 8080 --host 1.2.3.4 --port 1 x", "ENV dragoman serve --listen 1.2.3.4:1 -- x"},
	{"mcp-proxy-py --port=8080 -- uvx mcp-server-fetch --user-agent=Me --port 9", "ENV dragoman serve --listen 127.0.0.1:8080 -- uvx mcp-server-fetch --user-agent=Me --port 9"},
	{"mcp-proxy-py --pass-environment --port=8096 --sse-host 0.0.0.0 uvx mcp-server-fetch", "DRAGOMAN_HEALTH_PATHS=/status dragoman serve --listen 0.0.0.0:8096 -- uvx mcp-server-fetch"},
	{"mcp-proxy-py cmd --port 8080 -e KEY VALUE -e TOKEN geheim --cwd /tmp", "ENV dragoman serve --listen 127.0.0.1:8080 -e KEY=… -e TOKEN=… --cwd /tmp -- cmd"},
	{"mcp-proxy-py cmd --port 8080 --allow-origin=*", "CORS='*' ENV dragoman serve --listen 127.0.0.1:8080 -- cmd"},
	{"mcp-proxy-py --port 8080 --allow-origin https://a.example https://b.example --stateless -- cmd -1 -v", "CORS=https://a.example,https://b.example STATELESS dragoman serve --listen 127.0.0.1:8080 -- cmd -1 -v"},
	{"mcp-proxy-py --allow-origin x --expose-header X-A --no-stateless -- cmd", "CORS=x ENV dragoman serve --listen 127.0.0.1:0 -- cmd # --expose-header: pages can read all headers of MCP, and dragoman sends no others"},
	{"DRAGOMAN_LISTEN=:1 DRAGOMAN_UPSTREAM_PASS_ENV=A DRAGOMAN_HEALTH_PATHS=/x mcp-proxy-py cmd", "dragoman serve -- cmd"},
	{"DRAGOMAN_LISTEN=:1 mcp-proxy-py --port 2 cmd", "ENV dragoman serve --listen 127.0.0.1:2 -- cmd"},
	{"API_ACCESS_TOKEN=geheim mcp-proxy-py cmd --transport sse", "ENV dragoman serve --listen 127.0.0.1:0 -- cmd"},
	// Refused, and wrong.
	{"mcp-proxy-py", "! no server is named: write its URL or its command"},
	{"mcp-proxy-py --port 8080 --named-server fetch uvx·mcp-server-fetch --named-server b c", "! --named-server: dragoman is in front of one server; run one for each, or keep this tool, which has several behind one address"},
	{"mcp-proxy-py cmd --named-server fetch uvx·mcp-server-fetch", "! --named-server: dragoman is in front of one server; run one for each, or keep this tool, which has several behind one address"},
	{"mcp-proxy-py --named-server-config ./servers.json", "! --named-server-config: dragoman is in front of one server; run one for each (dragoman serve --config FILE --server NAME), or keep this tool, which has several behind one address"},
	{"mcp-proxy-py --named-server fetch x http://a.example/sse", "dragoman stdio http://a.example/sse"},
	{"mcp-proxy-py uvx mcp-server-fetch --user-agent=Me", "! --user-agent is no option of mcp-proxy (Python) 0.10.0; write -- before the server's command, whose options follow"},
	{"mcp-proxy-py --port x cmd", `! --port: "x" is not a number`},
	{"mcp-proxy-py --transport ws http://a.example/", `! --transport: "ws" is not one of sse, streamablehttp`},
	{"mcp-proxy-py --log-level verbose cmd", `! --log-level: "verbose" is not one of DEBUG, INFO, WARNING, ERROR, CRITICAL`},
	{"mcp-proxy-py --headers A http://a.example/ --debug -H B", "! -H: expected two words, NAME VALUE"},
	{"mcp-proxy-py -H=A b http://a.example/", "! -H: expected two words, NAME VALUE"},
	{"mcp-proxy-py --headers Authorization:·Bearer·geheim http://a.example/", "! --headers: expected two words, NAME VALUE"},
	{"mcp-proxy-py -e A=geheim cmd", "! -e: expected two words, NAME VALUE"},
	{"mcp-proxy-py --prot 9 cmd", "! --prot is no option of mcp-proxy (Python) 0.10.0; did you mean --port?"},
	{"mcp-proxy-py --apiKey geheim -- cmd", "! --apiKey is no option of mcp-proxy (Python) 0.10.0; mcp-proxy (npm) has it: dragoman as mcp-proxy …"},
	{"mcp-proxy-py cmd --port", "! --port: a value is missing"},
	{"mcp-proxy-py http://", "dragoman stdio http:"},

	// TBXark's mcp-proxy.
	{"tbxark -config servers.json", "DRAGOMAN_UPSTREAM_PASS_ENV='*' dragoman serve --config servers.json"},
	{"tbxark --config=servers.json -http-timeout 10 -insecure", "DRAGOMAN_UPSTREAM_PASS_ENV='*' dragoman serve --config servers.json # -insecure: it is for a configuration at a URL # -http-timeout: it is for a configuration at a URL"},
	{"tbxark -expand-env -insecure=false", "DRAGOMAN_UPSTREAM_PASS_ENV='*' dragoman serve --config config.json"},
	{"tbxark -expand-env=true", "DRAGOMAN_UPSTREAM_PASS_ENV='*' dragoman serve --config config.json"},
	{"DRAGOMAN_UPSTREAM_PASS_ENV=A tbxark", "dragoman serve --config config.json"},
	{"tbxark -expand-env=false", `! -expand-env: "false" is not one of true`},
	{"tbxark -config https://a.example/config.json -http-headers A:geheim", "! -config: what answers at a URL would choose the command that runs; download the file, and name it"},
	{"tbxark -http-timeout x", `! -http-timeout: "x" is not a number`},
	{"tbxark -port 9", "! -port is no option of TBXark's mcp-proxy 0.43.2"},

	// mcp-proxy-for-aws signs.
	{"mcp-proxy-for-aws https://a.example/mcp --region us-east-1", "! requests of AWS are signed with the keys of an account (SigV4), and dragoman does not sign; write dragoman stdio -- before the line: it then runs as the server's command"},
}

// shortOfPython are words of linesOfPython that stand for several.
var shortOfPython = strings.NewReplacer(
	"CORS=", "DRAGOMAN_CORS_ORIGINS=", "ENV", "DRAGOMAN_HEALTH_PATHS=/status DRAGOMAN_UPSTREAM_PASS_ENV="+passed,
	"STATELESS", "DRAGOMAN_HEALTH_PATHS=/status DRAGOMAN_SESSION_WITHOUT=open DRAGOMAN_UPSTREAM_PASS_ENV="+passed,
)

func TestLinesOfPython(t *testing.T) {
	for _, c := range linesOfPython {
		if got, want := translated(t, c.theirs), c.ours; got != shortOfPython.Replace(want) && got != want {
			t.Errorf("%s\n got  %s\n want %s", c.theirs, got, shortOfPython.Replace(want))
		}
	}
}

// TestEveryOptionOfPython: the rows have every option that the parser of the tool has, each in the form in which its help writes it.
func TestEveryOptionOfPython(t *testing.T) {
	for name, all := range map[string]string{
		"mcp-proxy-py":      "-h --help --version -H --headers --transport --verify-ssl --no-verify-ssl -e --env --cwd --client-id --client-secret --token-url --pass-environment --no-pass-environment --log-level --debug --no-debug --named-server --named-server-config --port --host --stateless --no-stateless --sse-port --sse-host --allow-origin --expose-header",
		"tbxark":            "-config -expand-env -http-headers -http-timeout -insecure -version -help",
		"mcp-proxy-for-aws": "-h --help --service --profile --region --metadata --read-only --log-level --retries --timeout --connect-timeout --read-timeout --write-timeout --tool-timeout --disable-telemetry --skip-auth",
	} {
		tool, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for flag := range strings.FieldsSeq(all) {
			if tool.Row(flag) == nil {
				t.Errorf("%s: no row for %s", name, flag)
			}
		}
	}
}
