package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
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

// mostNamed is how many servers of a client's configuration an error names.
const mostNamed = 10

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
		if proxy, ok := top["mcpProxy"].(object); ok {
			e.layProxy(name, proxy, entry)
		}
		e.lay(entry)
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

// entryMembers are the members of a server's entry that count.
var entryMembers = strings.Fields("type transporttype transport url serverurl httpurl headers command args env environment cwd disabled enabled")

// lay writes the entry into the configuration.
func (e *clientEntry) lay(entry object) {
	if words, ok := entry["command"].([]any); ok {
		args, _ := entry["args"].([]any)
		entry["args"] = append(words, args...)
		delete(entry, "command")
	}
	var program, args any
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		switch low := strings.ToLower(name); {
		case low == "command":
			program = entry[name]
		case low == "args":
			args = entry[name]
		case !slices.Contains(entryMembers, low):
			unused = append(unused, name)
			delete(entry, name)
		}
	}
	written := texts(program, args) // before variables are replaced
	var of struct {
		Type, TransportType, Transport, URL, ServerURL, HTTPURL, Command, Cwd string
		Args                                                                  []string
		Headers, Env, Environment                                             map[string]string
	}
	of.Environment = map[string]string{}
	if !e.decode(e.at, entry, &of) {
		return
	}
	command := of.Args
	if of.Command != "" {
		command = slices.Insert(command, 0, of.Command)
	}
	kind := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(cmp.Or(of.Type, of.TransportType, of.Transport)))
	server := cmp.Or(of.URL, of.ServerURL, of.HTTPURL)
	switch {
	case !slices.Contains([]string{"", "stdio", "local", "http", "streamablehttp", "remote", "sse"}, kind):
		e.wrong(e.at, "its type is none of stdio, http and sse")
	case len(command) > 0 && (kind == "" || kind == "stdio" || kind == "local"):
		e.bridge(written)
		e.c.Upstream.Written = written
		maps.Copy(of.Environment, of.Env)
		e.set(object{"upstream.command": command, "upstream.dir": of.Cwd, "upstream.env": of.Environment})
	case server != "" && kind != "stdio" && kind != "local":
		e.set(object{"upstream.url": server, "upstream.headers": of.Headers})
		if kind == "sse" {
			e.set(object{"upstream.transport": kind})
		}
	default:
		e.wrong(e.at, "expected a url, or a command with args")
	}
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

// texts returns the words of a command as they are written.
func texts(program, args any) (all []string) {
	if program != nil {
		all = append(all, fmt.Sprint(program))
	}
	list, _ := args.([]any)
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return all
}

// layProxy writes what the configuration of TBXark's mcp-proxy says of itself and, in the server's options, of its clients.
func (e *clientEntry) layProxy(name string, proxy, entry object) {
	all, _ := proxy["options"].(object)
	own, _ := entry["options"].(object)
	delete(entry, "options")
	tokens := own["authTokens"]
	if tokens == nil {
		tokens = all["authTokens"]
	}
	var of struct {
		BaseURL, Addr string
		AuthTokens    []string
		ToolFilter    struct{ List []string }
	}
	if !e.decode(e.at, object{"baseURL": proxy["baseURL"], "addr": proxy["addr"], "authTokens": tokens, "toolFilter": own["toolFilter"]}, &of) {
		return
	}
	if len(of.ToolFilter.List) > 0 {
		e.wrong(e.at+".toolFilter", "dragoman passes all tools of the server on: take it out, and switch tools off in the client or the server")
	}
	base, err := url.Parse(of.BaseURL)
	if err != nil {
		base = new(url.URL)
	}
	hosts := slices.DeleteFunc([]string{base.Hostname()}, func(name string) bool { return name == "" })
	e.set(object{
		"listen": cmp.Or(of.Addr, ":80"), "auth.tokens": of.AuthTokens, "allowed_hosts": hosts,
		"path": path.Join("/", base.Path, name, "mcp"), "sse_path": path.Join("/", base.Path, name, "sse"),
	})
}

// decode reads a value without the client's variables, and reports whether it has the form of into.
func (e *clientEntry) decode(at string, value, into any) bool {
	text, err := json.Marshal(e.filled(at, value, true))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		e.wrong(at+"."+strings.ToLower(wrong.Field), "expected %s", setting.Form(wrong.Type))
	}
	return err == nil
}

// set writes settings by their paths.
func (e *clientEntry) set(values object) {
	_ = e.c.EachSetting(func(path string, v reflect.Value) error {
		if value, ok := values[path]; ok {
			v.Set(reflect.ValueOf(value))
			e.layers.Flag(path, e.at)
		}
		return nil
	})
}

func (e *clientEntry) remark(what, do string) {
	e.c.Remarks = append(e.c.Remarks, Remark{what, e.at, do})
}

// clientVariable matches ${NAME}, ${env:NAME}, ${NAME:-default} and ${input:NAME}.
var clientVariable = pattern.Later(`\$\{[^}]*\}`)

// filled returns a value of the entry with texts in the place of numbers, and without the client's variables: they are replaced with
// their values now, or with ${NAME}, which [Config.Expand] replaces.
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
	case bool, json.Number:
		return fmt.Sprint(v)
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
