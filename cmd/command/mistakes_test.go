package command

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestMistakesOfAStranger: the error for a usual mistake on the command line has the correct command, at most three lines and no secrets.
func TestMistakesOfAStranger(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"npx", "python"} {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("HOME", dir)
	t.Setenv("DRAGOMAN_ADMIN_LISTEN", "")
	t.Chdir(dir)
	write(t, "server.py", "")
	write(t, "mcp.json", `{"mcpServers": {"everything": {"command": "npx", "args": ["-y", "x", "--api-key", "canary-canary"], "env": {"API_KEY": "canary-canary"}},
		"remote": {"type": "http", "url": "https://ann:canary@mcp.example.com/mcp?key=canary", "headers": {"Authorization": "Bearer canary"}}}}`)
	write(t, "c.yaml", "listen: 127.0.0.1:0\n")
	write(t, "tab.yaml", "upstream:\n  url: http://127.0.0.1:1/mcp\n\tversion: x\n")
	write(t, "at.yaml", "listen: 127.0.0.1:0\npath: @x\n")
	write(t, "top.yaml", "timezzz: x\n")
	write(t, "url.yaml", "url: http://127.0.0.1:1/mcp\n")
	write(t, "cmd.yaml", "command: [npx]\n")
	write(t, "home.yaml", "session: {max: 0}\n")
	write(t, "text.yaml", "upstream:\n  command: npx -y @a/x --token canary-canary\n")
	write(t, "quoted.yaml", "upstream:\n  command: [npx -y @a/x, 5]\n")
	const (
		url = "http://127.0.0.1:1/mcp"
		two = "write serve if clients connect over HTTP, or stdio if a client starts dragoman:\n  dragoman serve *\n  dragoman stdio *"
		npx = "write -- before the server's command: dragoman serve -- npx -y x"
		one = "write -- before the server's command, and no quotes around it: dragoman serve -- npx -y x"
		ofs = "mcp.json: has 2 servers; choose one: --server NAME, which is one of everything remote"
	)
	both := func(server string) string { return strings.ReplaceAll(two, "*", server) }
	for _, c := range []struct{ args, want string }{ // arguments are apart at |
		// Flags.
		{"serve|--max-token|100|" + url, "unknown flag --max-token; did you mean --max-tokens?"},
		{"serve|--max_tokens=100|" + url, "unknown flag --max_tokens; did you mean --max-tokens?"},
		{"serve|--lissten|127.0.0.1:0|" + url, "unknown flag --lissten; did you mean --listen?"},
		{"serve|-listen|127.0.0.1:0|" + url, "unknown flag -listen; did you mean --listen?"},
		{"serve|--LISTEN|127.0.0.1:0|" + url, "unknown flag --LISTEN; did you mean --listen?"},
		{"serve|--version-upstream|x|" + url, "unknown flag --version-upstream; if it is one of the server's command: dragoman serve -- COMMAND [ARG...]; see dragoman serve --help"},
		{"serve|--port=[::]:9000|" + url, `--port: "[::]:9000" is not a port from 0 to 65535; see dragoman serve --help`},
		{"serve|--port|99999|" + url, `--port: "99999" is not a port from 0 to 65535; see dragoman serve --help`},
		{"serve|--port|-1|" + url, `--port: "-1" is not a port from 0 to 65535; see dragoman serve --help`},
		{"serve|--port|9000|--listen|127.0.0.1:0|" + url, "--listen and --port exclude each other: keep one"},
		{"--port|9000|--listen|0", "--listen and --port exclude each other: keep one"},
		{"serve|--cors|--header|Authorization: Bearer canary|" + url, "--cors: cors.origins: * lets every web page use the credentials in upstream; name the origins"},
		{"serve|--cors|https://page.example|--cors=page.example|" + url, `--cors: cors.origins: "page.example" is neither an origin such as https://page.example:8443 nor *`},
		{"serve|--cors|https://page.example/|" + url, "two URLs are given, https://page.example/ and " + url + ": an origin of --cors has no path, not even /"},
		{"serve|--allow-origin|https://page.example|" + url, "unknown flag --allow-origin; write --cors ORIGIN"},
		{"serve|--host|::1|" + url, "unknown flag --host; write --listen [::1]:8808"},
		{"serve|--host=[::1]|" + url, "unknown flag --host; write --listen [::1]:8808"},
		{"serve|--token|a.canary:9000|" + url, "unknown flag --token; write --header 'Authorization: Bearer ${TOKEN}'"},
		{"serve|-p|9000|" + url, "unknown flag -p; write --port 9000"},
		{"serve|-p", "unknown flag -p; write --port PORT"},
		{"serve|--port", "flag needs an argument: --port; see dragoman serve --help"},
		{"stdio|--port|9000|" + url, "unknown flag --port; it is a flag of dragoman doctor, dragoman serve"},
		{"serve|--host|0.0.0.0|" + url, "unknown flag --host; write --listen 0.0.0.0:8808"},
		{"serve|--url|" + url, "unknown flag --url; it needs no flag: dragoman serve URL"},
		{"probe|--url|" + url, "unknown flag --url; it needs no flag: dragoman probe URL"},
		{"serve|--headers|A: canary|" + url, "unknown flag --headers; write --header 'Name: value'"},
		{"serve|-H|A: canary|" + url, "unknown flag -H; write --header 'Name: value'"},
		{"serve|--token|canary|" + url, "unknown flag --token; write --header 'Authorization: Bearer ${TOKEN}'"},
		{"serve|--verbose|" + url, "unknown flag --verbose; write --log-level debug"},
		{"serve|-v|" + url, "unknown flag -v; write --log-level debug"},
		{"stdio|--env|=canary|--|npx", "--env: expected NAME=VALUE, or the NAME of a variable"},
		{"serve|-e|a canary|--|npx", "--env: expected NAME=VALUE, or the NAME of a variable"},
		{"probe|-e|UNSET_VARIABLE_X|--|npx", "--env: environment variable UNSET_VARIABLE_X is not set"},
		{"stdio|-e|ghp_canary0|--|npx", "--env: environment variable … is not set"},
		{"footprint|-e|A=canary|" + url, "--env: applies only to a server's COMMAND"},
		{"serve|--cwd|/tmp|" + url, "--cwd: applies only to a server's COMMAND"},
		{"serve|-e|A=canary|--env=B=canary|-eC=canary\ncanary|npx|-y|x", "write -- before the server's command: dragoman serve -e A=… --env=… -eC=… -- npx -y x"},
		{"serve|--command|npx -y x", "unknown flag --command; it needs no flag: dragoman serve -- COMMAND [ARG...]"},
		{"serve|--stdio|npx -y x", "unknown flag --stdio; it is supergateway's: write dragoman serve -- COMMAND; or dragoman as supergateway …"},
		{"stdio|" + url + "|--transport|sse-only", "unknown flag --transport; it is mcp-remote's and mcp-proxy (Python)'s: leave it out, dragoman finds it out; --upstream-transport http or sse for one alone; or dragoman as mcp-remote … or dragoman as mcp-proxy-py …"},
		{"stdio|" + url + "|--static-oauth-client-info|{\"client_secret\":\"canary\"}", "unknown flag --static-oauth-client-info; it is mcp-remote's: write --oauth client_id=ID and DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET='${SECRET}'; or dragoman as mcp-remote …"},
		{"stdio|" + url + "|--host|127.0.0.1", "unknown flag --host; it is mcp-remote's: write --oauth redirect_uri=http://NAME:PORT/oauth/callback; or dragoman as mcp-remote …"},
		{"stdio|" + url + "|3334", "3334 follows the server's URL, as in a line of mcp-remote: leave it out; for a client that is registered with this port: --oauth redirect_uri=http://localhost:3334/oauth/callback; or dragoman as mcp-remote …"},
		{"serve|--host|0.0.0.0|--port|9000|" + url, "unknown flag --host; write --listen 0.0.0.0:9000 in the place of --port"},
		{"mcp-remote|" + url + "|--header|A: canary", "this is the line of another tool; write dragoman as mcp-remote …"},
		{"supergateway|--stdio|npx -y x", "this is the line of another tool; write dragoman as supergateway …"},
		{"tbxark|-config|x", "this is the line of another tool; write dragoman as tbxark …"},
		{"npx|-y|mcp-remote@latest|" + url, "this is the line of another tool; write dragoman as mcp-remote …"},
		{"stdio|npx|-y|mcp-remote|" + url, "this is the line of another tool; write dragoman as mcp-remote …"},
		{"serve|npx|-y|supergateway|--stdio|x", "this is the line of another tool; write dragoman as supergateway …"},
		{"stdio|uvx|mcp-proxy-for-aws@1.6.4|" + url, "write -- before the server's command: dragoman stdio -- uvx mcp-proxy-for-aws@1.6.4 " + url},
		{"serve|--api-key|canary|" + url, "unknown flag --api-key; write --header 'Authorization: Bearer ${TOKEN}'"},
		{"serve|--debug|" + url, "unknown flag --debug; it is mcp-remote's and mcp-proxy (npm)'s: write --log-level debug; or dragoman as mcp-remote … or dragoman as mcp-proxy …"},
		{"serve|--allow-origin|*|" + url, "unknown flag --allow-origin; write --cors ORIGIN"},
		{"serve|--named-server|a|b|" + url, "unknown flag --named-server; it is mcp-proxy (Python)'s: dragoman is in front of one server; run one for each, or keep this tool, which has several behind one address"},
		{"stdio|--region|us-east-1|" + url, "unknown flag --region; it is mcp-proxy-for-aws's: requests are signed for it, and dragoman does not sign; keep mcp-proxy-for-aws as the server's command, behind dragoman stdio --"},
		{"serve|--ssePath|/x|" + url, "unknown flag --ssePath; it is supergateway's: write DRAGOMAN_SSE_PATH=/PATH; or dragoman as supergateway …"},
		{"serve|--sse-path|/x|" + url, "unknown flag --sse-path; it is supergateway's: write DRAGOMAN_SSE_PATH=/PATH; or dragoman as supergateway …"},
		{"stdio|--listen|127.0.0.1:1|" + url, "unknown flag --listen; it is a flag of dragoman doctor, dragoman serve"},
		{"version|--json", "unknown flag --json; it is a flag of dragoman doctor, dragoman footprint, dragoman probe"},
		{"tokens|--modle|gpt-4", "unknown flag --modle; did you mean --model?"},
		{"adapter|import|--fetc|x", "unknown flag --fetc; did you mean --fetch?"},
		{"config|check|--jsn", "unknown flag --jsn; did you mean --json?"},
		{"doctor|--cal|echo", "unknown flag --cal; did you mean --call?"},
		{"probe|--format|json|" + url, "unknown flag --format; write --json"},
		{"login|-help", "unknown flag -help; did you mean --help?"},
		{"serve|--allowed-hosts|x|" + url, "unknown flag --allowed-hosts; did you mean --allow-host?"},
		{"serve|--allow-host|https://ann:canary@mcp.example.com/mcp?canary|" + url, "--allow-host: a host has no path: write mcp.example.com"},
		{"serve|--allow-host|mcp.example.com:8808/|" + url, "--allow-host: a host has no path: write mcp.example.com:8808"},
		{"serve|--session.max|5|" + url, "unknown flag --session.max; it is the setting session.max: in the file of --config, or the variable DRAGOMAN_SESSION_MAX"},
		{"serve|--key_file|x|" + url, "unknown flag --key_file; if it is one of the server's command: dragoman serve -- COMMAND [ARG...]; see dragoman serve --help"},
		{"serve|--cert|x|" + url, "unknown flag --cert; it is the setting tls.cert: in the file of --config, or the variable DRAGOMAN_TLS_CERT"},
		{"serve|--share-childs|" + url, "unknown flag --share-childs; did you mean --share-child?"},
		{"-V", "unknown flag -V; write --version"},
		{"serve|--max-tokens|4k|" + url, `--max-tokens: "4k" is not a whole number; see dragoman serve --help`},
		{"serve|--inspect=yes|" + url, `--inspect: "yes" is not true or false; the flag alone means true; see dragoman serve --help`},
		{"transform|--call|last", `--call: "last" is not a whole number; see dragoman transform --help`},
		{"transform|--call|-1", "--call: calls are numbered from 1; see dragoman transform --help"},
		{"transform|--call|99999999999999999999", `--call: "99999999999999999999" is too large; see dragoman transform --help`},
		{"serve|--max-tokens", "flag needs an argument: --max-tokens; see dragoman serve --help"},
		{"serve|--config|c.yaml|--config|d.yaml|" + url, "--config: is given twice, as c.yaml and as d.yaml: keep one; see dragoman serve --help"},
		{"adapter|list|--config|c.yaml|--config|c.yaml", "--config: is given twice, as c.yaml and as c.yaml: keep one; see dragoman adapter list --help"},
		{"config|check|c.yaml|--config|d.yaml", "two files are given, c.yaml and --config d.yaml: keep one"},

		// Servers.
		{url, both(url)},
		{"127.0.0.1:1/mcp", both(url)},
		{"https://ann:canary@mcp.example.com/mcp?token=canary", both("https://mcp.example.com/mcp?…")},
		{"npx|-y|x", both("-- npx -y x")},
		{"npx|x", both("-- npx x")},
		{"--|npx|-y|x", both("-- npx -y x")},
		{"npx -y x", both("-- npx -y x")},
		{"npx|-y|x|--api-key|canary-canary", both("-- npx -y x --api-key …")},
		{"server.py", both("-- python server.py")},
		{"serve|npx|-y|x", npx},
		{"serve|npx|-y|x|--api-key=canary-canary", npx + " --api-key=…"},
		{"serve|--listen|127.0.0.1:0|npx|-y|x", "write -- before the server's command: dragoman serve --listen 127.0.0.1:0 -- npx -y x"},
		{"serve|--header|Authorization: Bearer canary|npx|-y|x", "write -- before the server's command: dragoman serve --header 'Authorization: …' -- npx -y x"},
		{"serve|npx -y x", one},
		{"serve|server.py", "write -- before the server's command: dragoman serve -- python server.py"},
		{"serve|--|npx -y x", "no quotes around the command: dragoman serve -- npx -y x"},
		{"serve|--|npx -y x --token canary-canary", "no quotes around the command: dragoman serve -- npx -y x --token …"},
		{"stdio|--|npx -y|x", "no quotes around the command: dragoman stdio -- npx -y x"},
		{"config|print|--|npx -y x", "no quotes around the command: dragoman config print -- npx -y x"},
		{"serve|--config|text.yaml", "text.yaml:2: upstream.command: is a list: [npx, -y, \"@a/x\", --token, …]"},
		{"serve|--config|quoted.yaml", "quoted.yaml:2: upstream.command[0]: is a whole command line, and no program has this name; write [npx, -y, \"@a/x\", 5]"},
		{"probe|npx|-y|x", strings.Replace(npx, "dragoman serve", "dragoman probe", 1)},
		{"serve|--upstream|npx -y x", "command line: upstream.url: is not a URL; a command is written behind --, or as upstream.command: [PROGRAM, ARG] in a file"},
		{"serve|", "an argument is empty: is a variable of the shell not set?"},
		{"serve|--inspect|true|" + url, `"true" is not a server; a flag has its value behind =, as in --inspect=true`},
		{"serve|9301", "9301 is a port; for a server there: dragoman serve http://127.0.0.1:9301/mcp; for clients to connect there: --listen 127.0.0.1:9301"},
		{"stdio|9301", "9301 is a port; for a server there: dragoman stdio http://127.0.0.1:9301/mcp"},
		{"serve|help", `"help" is not a server; for help: dragoman serve --help`},
		{"stdio|nowhere.yaml", "nowhere.yaml is not a server, and there is no such file"},
		{"serve|'http://a.example/mcp?token=canary'", "command line: upstream.url: is not a URL; did you mean http://a.example/mcp?…, without what is around it?"},
		{"serve|<https://a.example/mcp>", "command line: upstream.url: is not a URL; did you mean https://a.example/mcp, without what is around it?"},
		{"serve|http://127.0.0.1:99999/mcp", "command line: upstream.url: has a port above 65535"},
		{"serve|mcp.example.com/mcp", `"mcp.example.com/mcp" is not a URL; did you mean https://mcp.example.com/mcp?`},
		{"serve|https:/mcp.example.com/mcp", `"https:/mcp.example.com/mcp" is not a URL; did you mean https://mcp.example.com/mcp?`},
		{"login|mcp.example.com/mcp", `"mcp.example.com/mcp" is not a URL; did you mean https://mcp.example.com/mcp?`},
		{"serve|--header|Authorization: Bearer |" + url, `--header Authorization: "Bearer" has no token: is a variable not set?`},
		{"stdio|--header|Authorization: Bearer |" + url, `--header Authorization: "Bearer" has no token: is a variable not set?`},
		{"serve|--header|Authorization=canary|" + url, "--header: write 'Authorization: …', with a colon"},
		{"serve|--header|X-Api-Key=canary|" + url, "--header: write 'X-Api-Key: …', with a colon"},
		{"serve|--header|canary=|" + url, "--header: expected 'Name: value'"},
		{"serve|c.yaml", "c.yaml is a file, not a server; if it is dragoman's configuration: dragoman serve --config c.yaml"},
		{"footprint", "no server is named: write dragoman footprint URL, or dragoman footprint -- COMMAND [ARG...]"},
		{"probe", "no server is named: write dragoman probe URL, or dragoman probe -- COMMAND [ARG...]"},
		{"serve|--cors|http://a.example", "no server is named: write dragoman serve URL, dragoman serve -- COMMAND [ARG...], or dragoman serve --adapters DIR; --cors takes http://a.example as the origin of pages: a server there is http://a.example/"},
		{"serve|--config|c.yaml", "no server is named: write dragoman serve URL, dragoman serve -- COMMAND [ARG...], or dragoman serve --adapters DIR; or set upstream.url in c.yaml"},

		// Files.
		{"serve|--config|mcp.json", ofs},
		{"stdio|--config|mcp.json", ofs},
		{"probe|--config|mcp.json", ofs},
		{"config|print|--config|mcp.json", ofs},
		{"serve|--config|mcp.json|--server|http://ann:canary@x.example/?key=canary", "mcp.json: has no server http://x.example/?…; --server names one of everything remote"},
		{"serve|--config|mcp.json|--server|remote", "mcp.json: mcpServers.remote: upstream.url: holds a password; use upstream.headers (--header)"},
		{"serve|--config|mcp.json|--server|everything|" + url, "command line: two servers are given, this one and mcp.json: mcpServers.everything: keep one"},
		{"adapter|list|--config|mcp.json", "mcp.json: is the configuration of a client, not dragoman's; dragoman serve, stdio, probe and doctor take it"},
		{"serve|--server|" + url, "--server: chooses a server in a client's configuration: --config FILE is missing; a URL needs no flag"},
		{"serve|mcp.json", "mcp.json is the configuration of a client; for a server in it: dragoman serve --config mcp.json"},
		{"stdio|mcp.json", "mcp.json is the configuration of a client; for a server in it: dragoman stdio --config mcp.json"},
		{"serve|--config|tab.yaml", "tab.yaml:3: not YAML: a tab: indent with spaces"},
		{"serve|--config|at.yaml", "at.yaml:2: not YAML: found character that cannot start any token"},
		{"serve|--config|top.yaml|" + url, "top.yaml:1: timezzz: unknown setting; the configuration may have adapters, "},
		{"serve|--config|url.yaml", "url.yaml:1: url: unknown setting; did you mean upstream.url or store.url?"},
		{"serve|--config|cmd.yaml", "cmd.yaml:1: command: unknown setting; did you mean upstream.command?"},
		{"serve|--config=~/home.yaml|" + url, filepath.Join(dir, "home.yaml") + ":1: session.max: must be greater than 0"},
		{"serve|--config=~/nowhere.yaml|" + url, "configuration file: open " + filepath.Join(dir, "nowhere.yaml") + ": "},
		{"serve|--adapters|~/nowhere", "adapters: " + filepath.Join(dir, "nowhere") + ": error: file cannot be read: "},
		{"footprint|--baseline=~/nowhere|" + url, "--baseline: open " + filepath.Join(dir, "nowhere") + ": "},

		// Addresses.
		{"serve|--listen|99999|" + url, `--listen: "127.0.0.1:99999" has a port above 65535`},
		{"serve|--listen|::1:8808|" + url, `--listen: "::1:8808" is not host:port; did you mean [::1]:8808?`},
		{"serve|--listen|[::1]|" + url, `--listen: "[::1]" is not host:port; did you mean [::1]:8808?`},
		{"serve|--listen|[$(POD_IP)]:8808|" + url, `--listen: "[$(POD_IP)]:8808" holds $(POD_IP), which Kubernetes has not replaced; the container's env must set POD_IP before the variable that uses it`},
		{"serve|--listen|http://127.0.0.1:9000/|" + url, `--listen: "http://127.0.0.1:9000/" is not host:port; did you mean 127.0.0.1:9000?`},
		{"serve|--listen|127.0.0.1:nope|" + url, `--listen: "127.0.0.1:nope": there is no port "nope"; write host:port, such as 127.0.0.1:8808`},

		// Commands and their arguments.
		{"start", `unknown command "start"; did you mean dragoman serve?`},
		{"proxy|" + url, `unknown command "proxy"; did you mean dragoman serve?`},
		{"config|show", `unknown command "show"; did you mean dragoman config print?`},
		{"config|validate", `unknown command "validate"; did you mean dragoman config check?`},
		{"adapter|check", `unknown command "check"; did you mean dragoman adapter validate?`},
		{"help|nonsense", `unknown command "nonsense"; see dragoman --help`},
		{"help|config|chek", `unknown command "chek"; did you mean dragoman config check?`},
		{"nonsense", `unknown command "nonsense"; see dragoman --help`},
		{"logout", "takes 1 argument, and none is given; usage: dragoman logout URL | --all"},
		{"adapter|call", "takes at least 2 arguments, and none is given; usage: dragoman adapter call NAME OPERATION [KEY=VALUE...]"},
		{"adapter|show", "takes between 1 and 2 arguments, and none is given; usage: dragoman adapter show NAME [OPERATION]"},
		{"adapter|call|x-adapter.md|y", `"x-adapter.md" is a file: dragoman adapter call --adapters x-adapter.md, with the name of the adapter in it in its place`},
		{"adapter|call|x|y|--id|7", "unknown flag --id; a parameter of the operation is written without dashes: id=VALUE"},
		{"adapter|call|x|y|--dry-rum", "unknown flag --dry-rum; did you mean --dry-run?"},
		{"login|" + url + "|--device|--paste", "--device and --paste exclude each other: keep one"},
		{"doctor|" + url + "|--call|echo|message=canary", `--call echo takes the tool's arguments as one JSON object: '{"message": …}'`},
		{"doctor|" + url + "|--call|echo|{bad", `--call echo: what follows is not a JSON object; write it in single quotes, such as '{"message": "hello"}'`},
		{"translate|--from|2025-6-18", `--from: "2025-6-18" is not a revision; there are 2026-07-28, `},
		{"footprint|" + url + "|--max-bytes|-5", "--max-bytes: must not be below 0"},
		{"translate|--from|2025-06-18", "--to is missing: write --from REVISION --to REVISION, each one of "},
	} {
		_, _, err := run(t.Context(), "", strings.Split(c.args, "|")...)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s:\n got  %v\n want %s", c.args, err, c.want)
			continue
		}
		if strings.Count(err.Error(), "\n") > 2 || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", c.args, err)
		}
		if exitCode(err) != exitUsage {
			t.Errorf("%s: exit code %d", c.args, exitCode(err))
		}
	}
}

// TestAFileOfAnotherProgramListsTheSettingsOnce.
func TestAFileOfAnotherProgramListsTheSettingsOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, "{compilerOptions: {}, includes: [], dependencies: {}}\n")
	_, _, err := run(t.Context(), "", "serve", "--config", path, "http://127.0.0.1:1/mcp")
	if err == nil || strings.Count(err.Error(), "unknown setting") != 3 || strings.Count(err.Error(), "the configuration may have") != 1 {
		t.Error(err)
	}
}
