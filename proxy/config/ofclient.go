package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/jsonc"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// clientKeys are the keys under which configurations of clients have their servers.
var clientKeys = []string{"mcpServers", "servers", "context_servers", "mcp"}

// clientText matches the configuration of a client, also one that cannot be read.
var clientText = pattern.Later(`(?m)^\s*[{,]?\s*"(mcpServers|context_servers)"\s*:|^\s*\[mcp_servers\b|^mcpServers:`)

type object = map[string]any

// OfClient reports whether a file is the configuration of a client, such as mcp.json.
func OfClient(file string) bool {
	text, err := ReadSmall(file)
	if err != nil {
		return false
	}
	key, _, _, err := clientServers(text)
	return key != "" || err != nil
}

// clientServers returns the servers in the configuration of a client, the key that has them, and all of it. The key is "" for other texts.
func clientServers(text []byte) (key string, servers, top object, err error) {
	plain := json.NewDecoder(bytes.NewReader(jsonc.ToJSON(text)))
	plain.UseNumber()
	if err := plain.Decode(&top); err != nil {
		if !clientText().Match(text) {
			return "", nil, nil, nil
		}
		at := int64(len(text))
		if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = min(at, wrong.Offset)
		}
		return "", nil, nil, fmt.Errorf("is the configuration of a client, and not JSON in line %d", 1+bytes.Count(text[:at], []byte("\n")))
	}
	for _, key := range clientKeys {
		in, ok := top[key]
		if !ok {
			continue
		}
		servers, _ = in.(object)
		if inner, ok := servers["servers"].(object); ok && key == "mcp" { // settings of VS Code
			return "mcp.servers", inner, top, nil
		}
		return key, servers, top, nil
	}
	return "", nil, nil, nil
}

// layClient writes a server of a client's configuration into c. at is its place; it is "" for the text of another file.
func (s Sources) layClient(text []byte, c *Config, l *setting.Layers) (at string) {
	wrong := func(format string, a ...any) string {
		l.Add(setting.Mistake{Where: s.File, Text: fmt.Sprintf(format, a...)})
		return s.File
	}
	key, servers, top, err := clientServers(text)
	all := slices.Sorted(maps.Keys(servers))
	var some []string
	for _, name := range all[:min(len(all), mostNamed)] {
		some = append(some, brief(name))
	}
	names := "one of " + AsTyped(some)
	switch {
	case err != nil:
		return wrong("%v; correct it, or write the URL or the command of its server", err)
	case key == "" && s.Server != nil && *s.Server != "":
		return wrong("is not the configuration of a client: it has no servers from which --server can choose")
	case key == "":
		return ""
	case s.Server == nil:
		return wrong("is the configuration of a client, not dragoman's; dragoman serve, stdio, probe and doctor take it")
	case len(all) == 0:
		return wrong("%s: expected servers by their names", key)
	}
	name := *s.Server
	if name == "" {
		if all = slices.DeleteFunc(all, func(name string) bool { return isOff(servers[name]) }); len(all) != 1 {
			return wrong("has %d servers; choose one: --server NAME, which is %s", len(servers), names)
		}
		name = all[0]
	}
	at = s.File + ": " + key + "." + name
	if entry, ok := servers[name].(object); ok {
		e := &clientEntry{environ: s.Environ, at: at, c: c, layers: l}
		e.lay(name, entry, top)
		return at
	}
	return wrong("has no server %s; --server names %s", AsTyped([]string{name}), names)
}

// isOff reports whether an entry says that the client does not use its server.
func isOff(entry any) bool {
	e, _ := entry.(object)
	options, _ := e["options"].(object)
	return e["disabled"] == true || options["disabled"] == true || e["enabled"] == false
}

// A clientEntry is a server in a client's configuration.
type clientEntry struct {
	environ []string
	at      string
	c       *Config
	layers  *setting.Layers

	mistakes int
}

func (e *clientEntry) wrong(at, format string, a ...any) {
	if e.mistakes++; e.mistakes <= mostNamed {
		e.layers.Add(setting.Mistake{Where: at, Text: fmt.Sprintf(format, a...)})
	}
}

// entryMembers are the members of a server's entry, which clients write in any letters, and the settings of upstream that they are. The others that
// count have none.
var entryMembers = map[string]string{
	"url": "url", "serverurl": "url", "httpurl": "url", "headers": "headers", "env": "env", "environment": "env", "cwd": "dir",
	"type": "", "transporttype": "", "transport": "", "command": "", "args": "", "disabled": "", "enabled": "",
}

// lay writes the entry into the configuration, and what the file says of its listener, if it is one of TBXark's mcp-proxy.
func (e *clientEntry) lay(name string, entry, top object) {
	settings := object{}
	if proxy, ok := top["mcpProxy"].(object); ok {
		settings = e.listener(name, proxy, entry)
	}
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		low := strings.ToLower(name)
		if _, known := entryMembers[low]; known && low != name {
			entry[low] = entry[name]
			delete(entry, name)
		}
	}
	written := slices.Concat(words(entry["command"]), words(entry["args"])) // before variables are replaced
	e.filled(e.at, entry, true)
	server, kind := object{}, ""
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		is, known := entryMembers[name]
		switch {
		case is != "":
			server[is] = entry[name]
		case name[:min(1, len(name))] == "t" && known:
			kind = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(fmt.Sprint(entry[name])))
		case !known:
			unused = append(unused, name)
		}
	}
	counts := []string{"url", "headers", "transport"}
	command, list := entry["command"].([]any)
	if !list && entry["command"] != nil {
		command = []any{entry["command"]}
	}
	args, list := entry["args"].([]any)
	if !list && entry["args"] != nil {
		e.wrong(e.at+".args", "expected a list of texts such as [a, b]")
	}
	switch {
	case !slices.Contains([]string{"", "stdio", "local", "http", "streamablehttp", "remote", "sse"}, kind):
		e.wrong(e.at, "its type is none of stdio, http and sse")
	case len(command)+len(args) > 0 && (kind == "" || kind == "stdio" || kind == "local"):
		e.c.Upstream.Written = written
		server["command"], counts = append(command, args...), []string{"command", "env", "dir"}
	case kind == "stdio" || kind == "local" || server["url"] == nil:
		e.wrong(e.at, "expected a url, or a command with args")
	case kind == "sse":
		server["transport"] = kind
	}
	maps.DeleteFunc(server, func(name string, _ any) bool { return !slices.Contains(counts, name) })
	settings["upstream"] = server
	text, _ := json.Marshal(settings) // it was JSON
	e.layers.Part(e.at, text)
	e.bridge(e.c.Upstream.Written)
	if len(unused) > 0 {
		e.remark("not used: "+brief(strings.Join(unused, ", ")), "write flags or the settings of dragoman for what they do")
	}
}

// brief returns the beginning of a name in a client's configuration, for a line of text.
func brief(name string) string {
	const most = 200
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// words returns a command, or its arguments, as they are written.
func words(value any) (all []string) {
	list, is := value.([]any)
	if !is && value != nil {
		list = []any{value}
	}
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}

// listener returns what the configuration of TBXark's mcp-proxy says of itself and, in the server's options, of its clients.
func (e *clientEntry) listener(name string, proxy, entry object) object {
	all, _ := proxy["options"].(object)
	own, _ := entry["options"].(object)
	delete(entry, "options")
	tokens := own["authTokens"]
	if tokens == nil {
		tokens = all["authTokens"]
	}
	filter, _ := own["toolFilter"].(object)
	if tools, _ := filter["list"].([]any); len(tools) > 0 {
		e.wrong(e.at+".toolFilter", "dragoman passes all tools of the server on: take it out, and switch tools off in the client or the server")
	}
	said := object{"baseURL": proxy["baseURL"], "addr": proxy["addr"], "authTokens": tokens}
	e.filled(e.at, said, true)
	address, _ := said["baseURL"].(string)
	base, err := url.Parse(address)
	if err != nil {
		base = new(url.URL)
	}
	if said["addr"] == nil {
		said["addr"] = ":80"
	}
	hosts := slices.DeleteFunc([]string{base.Hostname()}, func(name string) bool { return name == "" })
	return object{
		"listen": said["addr"], "auth": object{"tokens": said["authTokens"]}, "allowed_hosts": hosts,
		"path": path.Join("/", base.Path, name, "mcp"), "sse_path": path.Join("/", base.Path, name, "sse"),
	}
}

func (e *clientEntry) remark(what, do string) {
	e.c.Remarks = append(e.c.Remarks, Remark{what, e.at, do})
}

// clientVariable matches ${NAME}, ${env:NAME}, ${NAME:-default} and ${input:NAME}.
var clientVariable = pattern.Later(`\$\{[^}]*\}`)

// filled returns a value of the entry without the client's variables: they are replaced with their values now, or with ${NAME}, which [Config.Expand] replaces.
func (e *clientEntry) filled(at string, value any, now bool) any {
	switch v := value.(type) {
	case object:
		for name, one := range v {
			if one == nil {
				delete(v, name)
				continue
			}
			v[name] = e.filled(at+"."+name, one, now && name != "headers" && name != "env" && name != "environment")
		}
	case []any:
		for i, one := range v {
			v[i] = e.filled(fmt.Sprintf("%s[%d]", at, i), one, now)
		}
	case string:
		return clientVariable().ReplaceAllStringFunc(v, func(whole string) string {
			name, instead, has := strings.Cut(strings.TrimPrefix(whole[2:len(whole)-1], "env:"), ":-")
			if name == "userHome" {
				name = "HOME"
			}
			value, ok := lookup(e.environ, name)
			switch {
			case strings.Contains(name, ":"):
				e.wrong(at, "only the client can fill in ${%s}: write ${NAME}, and set the variable NAME", brief(name))
			case !ok && has:
				return instead
			case now && !ok:
				e.wrong(at, "environment variable %s is not set", brief(name))
			case now:
				return value
			}
			return "${" + name + "}"
		})
	}
	return value
}

// starters are words of a command that stand before the program.
var starters = strings.Fields("npx npm pnpm pnpx bunx bun yarn dlx exec tool run x uvx uv pipx cmd env")

// bridge says that a command starts another bridge, and refuses dragoman, which would perhaps read this file again, and so on.
func (e *clientEntry) bridge(command []string) {
	for i, word := range command {
		name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(filepath.Base(word)), ".exe"), ".cmd"), "@")
		switch {
		case strings.HasPrefix(word, "-"), strings.EqualFold(word, "/c"), slices.Contains(starters, name):
			continue
		case name == "dragoman":
			e.wrong(e.at, "starts dragoman itself; run that: %s", AsTyped(command[i:]))
		case slices.Contains([]string{"mcp-remote", "supergateway", "mcp-proxy", "mcp-proxy-for-aws"}, name):
			e.remark("its command starts "+name+", which is a bridge as well", "put the URL or the command behind it into the entry: dragoman needs no other bridge")
		}
		return
	}
}
