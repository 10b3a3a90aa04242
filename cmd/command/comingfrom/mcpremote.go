package comingfrom

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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
	if id == "" && g.values[client] != nil {
		return errors.New(client + ": client_id is missing")
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
