package comingfrom

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

func mcpRemote(g *given, l *Line) error {
	if len(g.rest) == 0 {
		return errors.New("no server is named: write the URL of the server first")
	}
	if err := l.connect("URL", g.rest[0]); err != nil {
		return err
	}
	const client, registration = "--static-oauth-client-info", "--static-oauth-client-metadata"
	info, err := g.members(client)
	if err != nil {
		return err
	}
	if err := g.callback(l, info != nil); err != nil {
		return err
	}
	if g.values["--client-credentials"] != nil && info == nil {
		return errors.New("--client-credentials: needs the client's client_id and client_secret in " + client)
	}
	if info != nil {
		id := os.Expand(info["client_id"], func(name string) string { v, _ := g.getenv(name); return v })
		if id == "" {
			return errors.New(client + ": client_id is missing")
		}
		l.flag(client, "--oauth", "client_id="+id)
		if info["client_secret"] != "" {
			l.set(client, "DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET", info["client_secret"])
		}
	}
	metadata, err := g.members(registration)
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		switch text := metadata[name]; {
		case text == "" && (name == "scope" || name == "client_name"):
			l.ignore(registration, name+" is no text")
		case name == "scope":
			l.flag(registration, "--oauth", "scopes="+text)
		case name == "client_name":
			l.flag(registration, "--oauth", "client_name="+text)
		case slices.Contains([]string{"token_endpoint_auth_method", "grant_types", "response_types"}, name): // found out
		default:
			l.ignore(registration, name+" has no counterpart")
		}
	}
	g.preset(l, "--disable-cookies", "DRAGOMAN_UPSTREAM_COOKIES", "all")
	return err
}

// members returns the texts in the JSON object of an option, which is in the line or in a file; nil if the option is not given.
func (g *given) members(theirs string) (map[string]string, error) {
	text := []byte(g.last(theirs, ""))
	if file, ok := bytes.CutPrefix(text, []byte("@")); ok {
		var err error
		if text, err = os.ReadFile(string(file)); err != nil {
			return nil, fmt.Errorf("%s: %w", theirs, err)
		}
	}
	var members map[string]any
	if len(text) > 0 && json.Unmarshal(text, &members) != nil { // whose error may show a secret
		return nil, fmt.Errorf("%s: expected a JSON object, or @ and the file of one", theirs)
	}
	if members == nil {
		return nil, nil
	}
	texts := map[string]string{}
	for name, value := range members {
		texts[name], _ = value.(string)
	}
	return texts, nil
}

// callback sets the redirect URI where the line says any part of it, or a client is registered.
func (g *given) callback(l *Line, registered bool) error {
	theirs, port := "callback-port", ""
	if len(g.rest) > 1 {
		word := g.rest[1]
		if port = word[:len(word)-len(strings.TrimLeft(word, "0123456789"))]; port == "" {
			l.ignore("callback-port", "what stands there is no number")
		}
		if n, err := strconv.Atoi(cmp.Or(port, "0")); err != nil || n > 65535 {
			return fmt.Errorf("callback-port: %s is not a port from 0 to 65535", port)
		}
	}
	for _, part := range []string{"--host", "--callback-path"} {
		if g.values[part] != nil && port == "" {
			theirs, registered = part, true
		}
	}
	path := g.last("--callback-path", "/oauth/callback")
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("--callback-path: %q does not begin with /", path)
	}
	if g.values["--client-credentials"] == nil && g.values["--device-code"] == nil && (port != "" || registered) {
		l.flag(theirs, "--oauth", "redirect_uri=http://"+g.last("--host", "localhost")+":"+cmp.Or(port, g.derivedPort())+path)
	}
	return nil
}

// derivedPort is the port of the callback where the line has none: mcp-remote derives it from what tells servers apart, and a
// client may be registered with it.
func (g *given) derivedPort() string {
	parts := g.rest[:1:1]
	if r := strings.TrimSpace(g.last("--resource", "")); r != "" && g.values["--disable-resource-parameter"] == nil {
		parts = append(parts, r)
	}
	for _, of := range [][2]string{{"--authorize-param", "="}, {"--header", ":"}} {
		members := map[string]string{}
		for _, v := range g.values[of[0]] {
			name, value, _ := strings.Cut(v, of[1])
			members[name] = strings.TrimLeft(value, " ")
		}
		if len(members) > 0 {
			var b strings.Builder
			to := json.NewEncoder(&b)
			to.SetEscapeHTML(false)
			_ = to.Encode(members) // texts
			parts = append(parts, strings.TrimSuffix(b.String(), "\n"))
		}
	}
	parts = slices.Concat(parts, g.values["--client-metadata-url"], g.values["--token-endpoint"])
	sum := md5.Sum([]byte(strings.Join(parts, "|")))
	return strconv.Itoa(3335 + int(binary.BigEndian.Uint16(sum[:]))%45816)
}
