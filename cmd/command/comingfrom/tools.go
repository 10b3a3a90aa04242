package comingfrom

import (
	"errors"
	"strings"
)

func mcpRemote(g *given, l *Line) error {
	l.Face = "stdio"
	if len(g.rest) == 0 {
		return errors.New("no server is named: write the URL of the server first")
	}
	l.Server = g.rest[:1]
	return nil
}

func supergateway(g *given, l *Line) error {
	stdio, sse, http := g.take("--stdio"), g.take("--sse"), g.take("--streamableHttp")
	switch {
	case len(stdio) > 0:
		l.Face = "serve"
		l.Server = append([]string{"--"}, strings.Fields(stdio[0])...)
	case len(sse) > 0:
		l.Face, l.Server = "stdio", sse
	case len(http) > 0:
		l.Face, l.Server = "stdio", http
	default:
		return errors.New("no server is named: write --stdio COMMAND, --sse URL or --streamableHttp URL")
	}
	return nil
}

func mcpProxy(g *given, l *Line) error {
	l.Face = "serve"
	command := g.behind
	if len(command) == 0 {
		command = g.rest
	}
	if len(command) == 0 {
		return errors.New("no server is named: write -- and the server's command")
	}
	l.Server = append([]string{"--"}, command...)
	return nil
}
