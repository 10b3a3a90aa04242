package comingfrom

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

func supergateway(g *given, l *Line) error {
	var from []string
	for _, flag := range []string{"--stdio", "--sse", "--streamableHttp"} {
		if g.last(flag, "") != "" {
			from = append(from, flag)
		}
	}
	switch len(from) {
	case 0:
		return errors.New("no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL")
	case 1:
	default:
		return fmt.Errorf("two servers are given, %s and %s: keep one", from[0], from[1])
	}
	server := g.take(from[0])[0]
	g.verifies()
	if from[0] != "--stdio" {
		if out := g.last("--outputTransport", "stdio"); out != "stdio" {
			return fmt.Errorf("--outputTransport: %q goes with --stdio; a server at a URL is served on stdio", out)
		}
		l.flag(from[0], "--upstream-transport", map[string]string{"--sse": "sse", "--streamableHttp": "http"}[from[0]])
		return l.connect(from[0], server)
	}
	out := g.last("--outputTransport", "sse")
	switch {
	case out == "ws":
		return errors.New("--outputTransport: ws is a WebSocket, which no revision of MCP has; write streamableHttp, or sse for old clients")
	case out == "stdio":
		return errors.New("--outputTransport: stdio goes with a server at a URL; leave it out to serve over HTTP")
	case g.has("--header"):
		return errors.New("--header: with --stdio it is a header of each response, which dragoman does not set; a reverse proxy in front can, or leave it out")
	case slices.ContainsFunc(g.values["--cors"], func(origin string) bool { return strings.HasPrefix(origin, "/") }):
		return errors.New("--cors: a pattern is not an origin; write each origin, as in https://page.example, or * for all")
	case g.has("--oauth2Bearer"):
		l.ignore("--oauth2Bearer", g.tool.row("--oauth2Bearer").Note)
	}
	l.Face = "serve"
	g.listen(l, "8000")
	if out == "streamableHttp" && !g.on("--stateful") {
		g.preset(l, "--stateful", "DRAGOMAN_SESSION_WITHOUT", "open")
	}
	if base := strings.TrimRight(g.last("--baseUrl", ""), "/"); base != "" {
		l.set("--baseUrl", "DRAGOMAN_OAUTH_PUBLIC_URL", base+g.last("--streamableHttpPath", "/mcp"))
	}
	if out != "streamableHttp" || !g.on("--stateful") {
		g.take("--sessionTimeout")
	}
	g.values["--healthEndpoint"] = slices.DeleteFunc(g.values["--healthEndpoint"], func(path string) bool { return path == "/healthz" || path == "/ping" })
	g.take("--baseUrl")
	l.run(strings.Fields(server), server, !plain().MatchString(server))
	return nil
}

func mcpProxy(g *given, l *Line) error {
	command := g.behind
	if len(command) == 0 {
		command = g.rest
	}
	if len(command) == 0 {
		return errors.New("no server is named: write -- and the server's command")
	}
	l.Face = "serve"
	g.listen(l, "8080")
	if g.last("--eventStore", "true") == "false" {
		g.take("--eventStoreMaxEvents")
		l.set("--eventStore", "DRAGOMAN_LIMITS_REPLAY", "0")
	}
	if g.last("--modern", "true") == "false" {
		l.ignore("--no-modern", "each client gets the revision that it speaks")
	}
	l.run(command, strings.Join(command, " "), g.on("--shell"))
	return nil
}

// plain matches a command line that means the same without a shell.
var plain = pattern.Later(`^\s*[A-Za-z0-9_./@:,+^-][^\s=]*(\s+[A-Za-z0-9_./@:,+=^-]+)*\s*$`)

// run makes a command the server: its words, or a line of the shell.
func (l *Line) run(words []string, line string, shell bool) {
	switch {
	case !shell:
		l.Program = words[0]
	case runtime.GOOS == "windows":
		words = []string{"cmd", "/d", "/s", "/c", line}
	default:
		words = []string{"sh", "-c", line}
	}
	l.Server = append([]string{"--"}, words...)
}

// connect makes the server at a URL the server. theirs is the option with it.
func (l *Line) connect(theirs, server string) error {
	at, err := url.Parse(server)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("%s: the URL of the server must begin with http:// or https://", theirs) // it may hold a secret
	}
	l.Face, l.Server = "stdio", []string{server}
	return nil
}

// listen makes l listen where the tool does. The address of the environment wins over its default.
func (g *given) listen(l *Line, port string) {
	host, flag := g.last("--host", "::"), "--port"
	if g.has("--host") && !g.has("--port") {
		flag = "--host"
	}
	if _, set := g.getenv("DRAGOMAN_LISTEN"); set && !g.has("--host") && !g.has("--port") {
		return
	}
	if host == "::" {
		host = ""
	}
	l.flag(flag, "--listen", net.JoinHostPort(strings.Trim(host, "[]"), cmp.Or(g.last("--port", ""), port)))
}

// verifies drops NODE_TLS_REJECT_UNAUTHORIZED unless it switches verification off.
func (g *given) verifies() {
	if g.last("NODE_TLS_REJECT_UNAUTHORIZED", "") != "0" {
		g.take("NODE_TLS_REJECT_UNAUTHORIZED")
	}
}
