package comingfrom

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/hex"
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
	info, err := g.json("--static-oauth-client-info")
	if err != nil {
		return err
	}
	if err := g.callback(l, info != nil); err != nil {
		return err
	}
	if info != nil {
		id := os.Expand(info["client_id"], func(name string) string { v, _ := g.getenv(name); return v })
		if id == "" {
			return errors.New("--static-oauth-client-info: client_id is missing")
		}
		l.flag("--static-oauth-client-info", "--oauth", "client_id="+id)
		if info["client_secret"] != "" {
			l.set("--static-oauth-client-info", "DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET", info["client_secret"])
			l.secret["DRAGOMAN_UPSTREAM_AUTH_CLIENT_SECRET"] = true
		}
	}
	metadata, err := g.json("--static-oauth-client-metadata")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		switch name {
		case "scope":
			l.flag("--static-oauth-client-metadata", "--oauth", "scopes="+metadata[name])
		case "client_name":
			l.flag("--static-oauth-client-metadata", "--oauth", "client_name="+metadata[name])
		case "token_endpoint_auth_method", "grant_types", "response_types": // found out
		default:
			l.ignore("--static-oauth-client-metadata", name+" has no counterpart")
		}
	}
	if g.on("--disable-resource-parameter") {
		g.take("--resource")
	}
	if g.has("--ping-interval") {
		g.take("--keep-alive")
	}
	if !g.on("--disable-cookies") {
		g.preset(l, "--disable-cookies", "DRAGOMAN_UPSTREAM_COOKIES", "all")
	}
	if longer(g.last("--headers-timeout", "-1"), g.last("--body-timeout", "-1")) {
		g.take("--body-timeout")
	}
	g.verifies()
	return nil
}

// longer reports whether of two times in seconds the first is longer; 0 is without end.
func longer(one, other string) bool {
	a, _ := strconv.ParseFloat(one, 64)
	b, _ := strconv.ParseFloat(other, 64)
	return a == 0 || b != 0 && a > b
}

// json returns the texts of an object, which an option has in the line or in a file; nil if the option is not given.
func (g *given) json(theirs string) (map[string]string, error) {
	text := g.last(theirs, "")
	g.take(theirs)
	if text == "" {
		return nil, nil
	}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", theirs, err)
		}
		text = string(data)
	}
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) != nil { // whose error may show a secret
		return nil, fmt.Errorf("%s: expected a JSON object, or @ and the file of one", theirs)
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
		end := strings.IndexFunc(g.rest[1], func(c rune) bool { return c < '0' || c > '9' })
		if end < 0 {
			end = len(g.rest[1])
		}
		if port = g.rest[1][:end]; port == "" {
			l.ignore(g.rest[1], "is no port for the callback")
		}
	}
	for _, part := range []string{"--host", "--callback-path"} {
		if g.has(part) && port == "" {
			theirs, registered = part, true
		}
	}
	path := g.last("--callback-path", "/oauth/callback")
	switch {
	case !strings.HasPrefix(path, "/"):
		return fmt.Errorf("--callback-path: %q does not begin with /", path)
	case g.on("--client-credentials") || g.on("--device-code") || port == "" && !registered:
		return nil
	}
	l.flag(theirs, "--oauth", "redirect_uri=http://"+g.last("--host", "localhost")+":"+cmp.Or(port, g.derivedPort())+path)
	return nil
}

// derivedPort is the port of the callback where the line has none: mcp-remote derives it from what tells servers apart, and a
// client may be registered with it.
func (g *given) derivedPort() string {
	parts := []string{g.rest[0]}
	if r := strings.TrimSpace(g.last("--resource", "")); r != "" && !g.on("--disable-resource-parameter") {
		parts = append(parts, r)
	}
	for _, of := range [][2]string{{"--authorize-param", "="}, {"--header", ":"}} {
		members := map[string]string{}
		for _, v := range g.values[of[0]] {
			name, value, _ := strings.Cut(v, of[1])
			if of[1] == ":" {
				value = strings.TrimLeft(value, " ")
			}
			members[name] = value
		}
		if len(members) > 0 {
			var b bytes.Buffer
			to := json.NewEncoder(&b)
			to.SetEscapeHTML(false)
			_ = to.Encode(members) // texts
			parts = append(parts, strings.TrimSuffix(b.String(), "\n"))
		}
	}
	for _, flag := range []string{"--client-metadata-url", "--token-endpoint"} {
		if g.has(flag) {
			parts = append(parts, g.last(flag, ""))
		}
	}
	sum := md5.Sum([]byte(strings.Join(parts, "|")))
	offset, _ := strconv.ParseInt(hex.EncodeToString(sum[:2]), 16, 32)
	return strconv.FormatInt(3335+offset%45816, 10)
}
