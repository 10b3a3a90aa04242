package comingfrom

import (
	"errors"
	"slices"
	"strings"
)

// passed are the variables that the Python SDK passes to a server's command, on Windows those behind USER.
const passed = "HOME,LOGNAME,PATH,SHELL,TERM,USER,APPDATA,HOMEDRIVE,HOMEPATH,LOCALAPPDATA,PATHEXT,PROCESSOR_ARCHITECTURE,SYSTEMDRIVE,SYSTEMROOT,TEMP,USERNAME,USERPROFILE"

func mcpProxyPy(g *given, l *Line) error {
	server := slices.Concat(g.rest, g.behind)
	if len(server) == 0 {
		server = g.values["SSE_URL"]
	}
	if len(server) == 0 && len(g.values["--named-server"])+len(g.values["--named-server-config"]) == 0 {
		return errors.New("no server is named: write its URL or its command")
	}
	if len(server) > 0 && (strings.HasPrefix(server[0], "http://") || strings.HasPrefix(server[0], "https://")) {
		switch strings.ToLower(g.last("--verify-ssl", "")) {
		case "0", "false", "no", "off":
			l.flag("--verify-ssl", "--verify", "none")
			l.flag("--verify-ssl", "--login", "never")
			delete(g.values, "--verify-ssl")
		case "", "1", "true", "yes", "on":
			delete(g.values, "--verify-ssl")
		}
		l.connect("command_or_url", server[0])
		return nil
	}
	if _, set := g.getenv("DRAGOMAN_LISTEN"); g.last("--host", "") == "" && (!set || g.last("--port", "") != "") {
		g.values["--host"] = []string{"127.0.0.1"}
	}
	g.listen(l, "0")
	if g.last("--pass-environment", "false") == "false" {
		g.preset(l, "--pass-environment", "DRAGOMAN_UPSTREAM_PASS_ENV", passed)
	}
	g.preset(l, "/status", "DRAGOMAN_HEALTH_PATHS", "/status")
	l.Command = "serve"
	if len(server) > 0 {
		l.run(server, "", false)
	}
	return nil
}

func tbxark(g *given, l *Line) error {
	file := g.last("-config", "config.json")
	if strings.Contains(file, "://") {
		return errors.New("-config: what answers at a URL would choose the command that runs; download the file, and name it")
	}
	g.preset(l, "-config", "DRAGOMAN_UPSTREAM_PASS_ENV", "*")
	l.Command = "serve"
	l.flag("-config", "--config", file)
	return nil
}
