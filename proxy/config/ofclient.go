package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// clientKeys are the keys under which configurations of clients have their servers.
var clientKeys = []string{"mcpServers", "servers", "context_servers", "mcp"}

// clientText matches a configuration of a client that is not YAML, such as JSON with comments, or TOML.
var clientText = pattern.Later(`(?m)^\s*[{,]?\s*"(mcpServers|context_servers)"\s*:|^\s*\[mcp_servers\b`)

// mostNamed is how many servers of a client's configuration an error names.
const mostNamed = 2

// OfClient returns an error if a file is the configuration of a client, which dragoman cannot use. It says what to write for its
// servers behind command, such as "dragoman stdio", without secrets. OfClient returns nil for other files.
func OfClient(file, command string) error {
	text, err := ReadSmall(file)
	if err != nil {
		return nil
	}
	return ofClient(file, text, command)
}

// ofClient is [OfClient] for the text of a file.
func ofClient(file string, text []byte, command string) error {
	var top map[string]yaml.Node
	if yaml.Unmarshal(text, &top) != nil {
		if clientText().Match(text) {
			return notOurs(file, nil, command)
		}
		return nil
	}
	for _, key := range clientKeys {
		in, ok := top[key]
		if !ok {
			continue
		}
		var inner struct {
			Servers yaml.Node `yaml:"servers"` // settings of VS Code: mcp.servers
		}
		if key == "mcp" && in.Decode(&inner) == nil && inner.Servers.Kind != 0 {
			in = inner.Servers
		}
		return notOurs(file, &in, command)
	}
	return nil
}

// notOurs says that a file is the configuration of a client. servers are those in it; nil if they cannot be read.
func notOurs(file string, servers *yaml.Node, command string) error {
	var names, dos []string
	for i := 0; servers != nil && servers.Kind == yaml.MappingNode && i+1 < len(servers.Content); i += 2 {
		if do := ofServer(servers.Content[i+1]); do != "" {
			names, dos = append(names, strconv.Quote(servers.Content[i].Value)), append(dos, command+" "+do)
		}
	}
	what := fmt.Sprintf("for a server in it write %[1]s URL, or %[1]s -- COMMAND [ARG...]", command)
	switch n := len(names); {
	case n == 1:
		what = "for its server " + names[0] + " write " + dos[0]
	case n > 1:
		which := names[0] + " and " + names[1]
		if more := n - mostNamed; more > 0 {
			which = fmt.Sprintf("%s, %s and %d more", names[0], names[1], more)
		}
		what = "for its servers " + which + " write\n  " + strings.Join(dos[:mostNamed], "\n  ")
	}
	return setting.Mistake{Where: file, Text: "is the configuration of a client, not dragoman's; " + what}
}

// ofServer returns the arguments that name a server of a client's configuration; "" if there is neither a URL nor a command.
func ofServer(n *yaml.Node) string {
	var s struct {
		Command yaml.Node `yaml:"command"` // a text, or a list with the arguments
		Args    []string  `yaml:"args"`
		URL     string    `yaml:"url"`
		HTTPURL string    `yaml:"httpUrl"`
	}
	if n.Decode(&s) != nil {
		return ""
	}
	for _, at := range []string{s.URL, s.HTTPURL} {
		if at != "" {
			return AsTyped([]string{at})
		}
	}
	var command []string
	if s.Command.Kind == yaml.ScalarNode {
		command = []string{s.Command.Value}
	} else if s.Command.Decode(&command) != nil {
		return ""
	}
	if command = slices.Concat(command, s.Args); len(command) == 0 {
		return ""
	}
	return "-- " + AsTyped(command)
}
