package comingfrom

import (
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
	from := slices.DeleteFunc([]string{"--stdio", "--sse", "--streamableHttp"}, func(flag string) bool { return strings.TrimSpace(g.last(flag, "")) == "" })
	switch len(from) {
	case 0:
		return errors.New("no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL")
	case 1:
	default:
		return fmt.Errorf("two servers are given, %s and %s: keep one", from[0], from[1])
	}
	server, out := g.last(from[0], ""), g.last("--outputTransport", "")
	if from[0] != "--stdio" {
		if out != "stdio" && out != "" {
			return fmt.Errorf("--outputTransport: %q goes with --stdio; a server at a URL is served on stdio", out)
		}
		return l.connect(from[0], server)
	}
	switch {
	case out == "ws":
		return errors.New("--outputTransport: ws is a WebSocket, which no revision of MCP has; write streamableHttp, or sse for old clients")
	case out == "stdio":
		return errors.New("--outputTransport: stdio goes with a server at a URL; leave it out to serve over HTTP")
	case slices.ContainsFunc(g.values["--cors"], func(origin string) bool { return strings.HasPrefix(origin, "/") }):
		return errors.New("--cors: a pattern is not an origin; write each origin, as in https://page.example, or * for all")
	}
	g.listen(l, "8000")
	if stateful := g.last("--stateful", "false") == "true"; !stateful {
		delete(g.values, "--sessionTimeout")
		if out == "streamableHttp" {
			g.preset(l, "--stateful", "DRAGOMAN_SESSION_WITHOUT", "open")
		}
	}
	g.values["--healthEndpoint"] = slices.DeleteFunc(g.values["--healthEndpoint"], func(path string) bool { return path == "/healthz" || path == "/ping" })
	if base := g.last("--baseUrl", ""); base != "" {
		l.set("--baseUrl", "DRAGOMAN_OAUTH_PUBLIC_URL", strings.TrimRight(base, "/")+g.last("--streamableHttpPath", "/mcp"))
	}
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
	g.listen(l, "8080")
	l.run(command, strings.Join(command, " "), g.last("--shell", "false") == "true")
	return nil
}

// plain matches a command line that means the same without a shell.
var plain = pattern.Later(`^\s*[A-Za-z0-9_./@:,+^-]+(\s+[A-Za-z0-9_./@:,+=^-]+)*\s*$`)

// run makes a command the server of a line of serve: its words, or a line of the shell.
func (l *Line) run(words []string, line string, shell bool) {
	l.Command, l.Program = "serve", words[0]
	if shell {
		words, l.Program = []string{"sh", "-c", line}, ""
		if runtime.GOOS == "windows" {
			words = []string{"cmd", "/d", "/s", "/c", line}
		}
	}
	l.Server = append([]string{"--"}, words...)
}

// connect makes a URL the server of a line of stdio. theirs is the option with it.
func (l *Line) connect(theirs, server string) error {
	at, err := url.Parse(server)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("%s: the URL of the server must begin with http:// or https://", theirs) // it may hold a secret
	}
	l.Command, l.Server = "stdio", []string{server}
	return nil
}

// listen makes a line of serve listen where the tool does. The address of the environment wins over the tool's default.
func (g *given) listen(l *Line, usual string) {
	host, port, theirs := g.last("--host", ""), g.last("--port", ""), "--port"
	if given, _ := g.getenv("DRAGOMAN_LISTEN"); given != "" && host+port == "" {
		return
	}
	if port == "" {
		theirs, port = "--host", usual
	}
	l.flag(theirs, "--listen", net.JoinHostPort(strings.Trim(strings.TrimSuffix(host, "::"), "[]"), port))
}
