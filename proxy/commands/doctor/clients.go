package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// clients says what to write into the configurations of the usual clients.
func clients(_ context.Context, e *exam) {
	name, args := e.clientName(), e.clientArguments()
	entry := func(more string) string {
		return fmt.Sprintf(`{%s"command": %s, "args": %s}`, more, asJSON(e.Program), asJSON(args))
	}
	quotedName := asJSON(name)
	e.info("Claude Desktop (claude_desktop_config.json), Claude Code (.mcp.json), Cursor (.cursor/mcp.json), Windsurf (mcp_config.json), Gemini CLI (settings.json)", "",
		fmt.Sprintf(`{"mcpServers": {%s: %s}}`, quotedName, entry("")))
	e.info("VS Code (.vscode/mcp.json)", "", fmt.Sprintf(`{"servers": {%s: %s}}`, quotedName, entry(`"type": "stdio", `)))
	e.info("Zed (settings.json)", "", fmt.Sprintf(`{"context_servers": {%s: %s}}`, quotedName, entry("")))
	e.info("Codex (~/.codex/config.toml)", "", fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = %s", name, asJSON(e.Program), asJSON(args)))
	const connecting = "clients that connect by HTTP, while dragoman serve runs"
	if path, err := unixsocket.Path(e.cfg.Listen); unixsocket.Is(e.cfg.Listen) && err == nil {
		at := unixsocket.URL(&net.UnixAddr{Name: path}, e.cfg.Path)
		e.info(connecting, "", "curl "+unixsocket.Curl(at)+"; clients that start a command: "+e.Program+" stdio "+at)
	} else {
		e.info(connecting, "", fmt.Sprintf(`{"mcpServers": {%s: {"type": "http", "url": "%s"}}}`, quotedName, e.endpoint()))
	}
	if hasCommand(e) {
		e.info("variables that the server needs belong into the client's entry", "", `"env": {"NAME": "value"}`)
	}
}

var notInNames = pattern.Later(`[^a-z0-9]+`)

// clientName returns a short name for the server.
func (e *exam) clientName() string {
	about := e.quote(e.session.about().Get("name").String())
	about = about[strings.LastIndex(about, "/")+1:]
	name := strings.Trim(notInNames().ReplaceAllString(strings.ToLower(about), "-"), "-")
	if name == "" || len(name) > 40 {
		return "server"
	}
	return name
}

// clientArguments returns the arguments with which a client starts dragoman in front of the server.
func (e *exam) clientArguments() []string {
	args := []string{"stdio"}
	inFile := false
	if e.Sources.File != "" {
		if path, err := filepath.Abs(e.Sources.File); err == nil {
			args = append(args, "--config", path)
		}
	}
	values, _ := e.Sources.Effective() // it was read before without an error
	for _, v := range values {
		switch header, is := strings.CutPrefix(v.Path, "upstream.headers."); {
		case is && v.Origin == "--header":
			args = append(args, "--header", header+": ${"+strings.ToUpper(strings.ReplaceAll(header, "-", "_"))+"}")
		case v.Path == "upstream.ca_file" && v.Origin == "--ca":
			if path, err := filepath.Abs(e.cfg.Upstream.CAFile); err == nil {
				args = append(args, "--ca", path)
			}
		case v.Path == "upstream.verify" && v.Origin == "--verify" && e.cfg.Upstream.Unverified():
			args = append(args, "--verify", "none", "--login", "never")
		case (v.Path == "upstream.url" || v.Path == "upstream.command") && strings.HasPrefix(v.Origin, e.Sources.File+":"):
			inFile = inFile || e.Sources.File != ""
		}
	}
	switch {
	case inFile:
	case hasURL(e):
		args = append(args, config.SafeURL(e.cfg.Upstream.URL))
	default:
		line := config.SafeCommand(e.cfg.Upstream.WrittenCommand())
		if strings.ContainsRune(line[0], filepath.Separator) { // clients start commands in a folder of their own
			if path, err := filepath.Abs(filepath.Join(e.cfg.Upstream.Dir, line[0])); err == nil && !filepath.IsAbs(line[0]) {
				line[0] = path
			}
		}
		args = append(append(args, "--"), line...)
	}
	return args
}

// endpoint returns the URL at which dragoman serves clients by HTTP.
func (e *exam) endpoint() string {
	return e.scheme() + e.cfg.Listen + e.cfg.Path
}

// scheme begins the URLs of dragoman's listeners for clients.
func (e *exam) scheme() string {
	if e.cfg.TLS.Cert != "" {
		return "https://"
	}
	return "http://"
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return `""`
	}
	spaced := strings.ReplaceAll(string(text), `","`, `", "`)
	if !gjson.Valid(spaced) {
		return string(text)
	}
	return spaced
}
