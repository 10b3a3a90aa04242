package comingfrom

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

func mcpRemote(g *given, l *Line) error {
	if len(g.rest) == 0 {
		return errors.New("no server is named: write the URL of the server first")
	}
	l.connect("URL", g.rest[0])
	const client, registration = "--static-oauth-client-info", "--static-oauth-client-metadata"
	var info struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	var metadata struct {
		Scope string `json:"scope"`
		Name  string `json:"client_name"`
	}
	if err := cmp.Or(g.object(client, &info), g.object(registration, &metadata), g.callback(l)); err != nil {
		return err
	}
	id := os.Expand(info.ID, func(name string) string { v, _ := g.getenv(name); return v })
	switch given := g.values[client] != nil; {
	case id == "" && given:
		return errors.New(client + ": client_id is missing")
	case !given && g.values["--client-credentials"] != nil:
		return errors.New("--client-credentials: needs the client's client_id and client_secret in " + client)
	}
	for _, s := range [][3]string{{client, "client_id=", id}, {registration, "client_name=", metadata.Name}, {registration, "scopes=", metadata.Scope}} {
		if s[2] != "" {
			l.flag(s[0], "--oauth", s[1]+s[2])
		}
	}
	if info.Secret != "" {
		l.set(client, "DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET", info.Secret)
	}
	g.preset(l, "--disable-cookies", "DRAGOMAN_UPSTREAM_COOKIES", "all")
	return nil
}

// object reads the JSON object of an option, which is in the line or in a file.
func (g *given) object(theirs string, into any) error {
	text := []byte(g.last(theirs, "{}"))
	if file, ok := bytes.CutPrefix(text, []byte("@")); ok {
		var err error
		if text, err = os.ReadFile(string(file)); err != nil {
			return fmt.Errorf("%s: %w", theirs, err)
		}
	}
	if json.Unmarshal(text, into) != nil { // whose error may show a secret
		return fmt.Errorf("%s: expected a JSON object, or @ and the file of one", theirs)
	}
	return nil
}

// callback sets the redirect URI where the line says any part of it, or has a client, which is registered with one: without a port with
// that which mcp-remote derives.
func (g *given) callback(l *Line) error {
	theirs, port := "callback-port", ""
	if len(g.rest) > 1 {
		port = g.rest[1]
	}
	is := func(option string) bool { return g.values[option] != nil }
	switch client := is("--static-oauth-client-info"); {
	case is("--client-credentials") || is("--device-code") || port == "" && !client && !is("--host") && !is("--callback-path"):
		return nil
	case port == "" && client && slices.ContainsFunc([]string{"--resource", "--header", "--authorize-param", "--client-metadata-url", "--token-endpoint"}, is):
		return errors.New("--static-oauth-client-info: write the callback port that the client is registered with behind the URL; mcp-remote derives it from other options, too, and has it in its log")
	case port == "" && client:
		sum := md5.Sum([]byte(g.rest[0]))
		port = strconv.Itoa(3335 + int(binary.BigEndian.Uint16(sum[:]))%45816)
	case port == "":
		theirs, port = "--host", "0"
	}
	l.flag(theirs, "--oauth", "redirect_uri=http://"+g.last("--host", "localhost")+":"+port+g.last("--callback-path", "/oauth/callback"))
	return nil
}

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
		l.connect(from[0], server)
		return nil
	}
	switch {
	case isURL(server):
		return errors.New("--stdio takes a command; write --streamableHttp or --sse before a URL")
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
	if isURL(command[0]) {
		return errors.New("mcp-proxy of npm takes a command; with a URL the line is of Python's: dragoman as mcp-proxy-py …")
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
func (l *Line) connect(theirs, server string) {
	l.Command, l.Server, l.From["upstream.url"] = "stdio", []string{server}, theirs
}

func isURL(word string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(word), "://")
	return len(scheme) < len(word) && (scheme == "http" || scheme == "https")
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
