package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestAdapterCredentialsAreNeverShown gives adapters credentials for APIs that echo them in every way, and searches
// for them in results, in the log at debug level, and in the metrics.
func TestAdapterCredentialsAreNeverShown(t *testing.T) {
	testset.Need(t, testset.Peers)
	secrets := map[string]string{
		"E2E_PLAIN": "no shape that anybody would know 4711",
		"E2E_TOKEN": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
		"E2E_KEY":   "k3y+with/signs=and&more",
	}
	for name, value := range secrets {
		t.Setenv(name, value)
	}
	// Each echoes the whole request, including its head.
	echo := func(format string) func(net.Conn, string) {
		return func(c net.Conn, head string) { io.WriteString(c, strings.ReplaceAll(format, "HEAD", head)) }
	}
	behave := map[string]func(net.Conn, string){
		"refuse": func(c net.Conn, head string) {
			fmt.Fprintf(c, "HTTP/1.1 400 No\r\nConnection: close\r\n\r\n{\"message\":%q}", head)
		},
		"fail": func(c net.Conn, head string) {
			fmt.Fprintf(c, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n{\"errors\":[%q]}", head)
		},
		"page":    echo("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<pre>HEAD</pre>"),
		"words":   echo("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nHEAD"),
		"garbage": echo("HEAD"),
		"behind":  echo("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HEAD"),
		"field":   echo("HTTP/1.1 200 OK\r\nX-Head HEAD"),
	}
	target := listenTo(t, func(c net.Conn, path, head string) {
		if f := behave[path]; f != nil {
			f(c, head)
		}
	})
	var ops strings.Builder
	for name := range behave {
		fmt.Fprintf(&ops, "  - {name: %s, maps_to: GET /%s, description: Says it back}\n", name, name)
	}
	folder := t.TempDir()
	for name, auth := range map[string]string{
		"by-bearer": "{type: bearer, token_env: E2E_PLAIN}", "by-token": "{type: bearer, token_env: E2E_TOKEN}",
		"by-header": "{type: api_key, header_name: X-Api-Key, key_env: E2E_KEY}", "by-query": "{type: api_key, in: query, query_name: key, key_env: E2E_KEY}",
		"by-password": "{type: basic, username_env: E2E_TOKEN, password_env: E2E_PLAIN}",
	} {
		file := "---\nname: " + name + "\ntype: adapter\nversion: \"1.0.0\"\ndescription: Says back what it was sent\nauth: " + auth +
			"\ntarget: {base_url: \"http://" + target + "\", transport: http, protocol: rest, serialization: json}\noperations:\n  read:\n" + ops.String() + "---\n"
		if err := os.WriteFile(filepath.Join(folder, name+"-adapter.md"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := endpoint{stderr: new(output)}
	var said strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := build(t).serve(ctx, streamable, up, []string{"--adapters", folder, "--log-level", "debug"}, func(to endpoint) error {
		client, err := newGoCaller(ctx, "2025-11-25", to)
		if err != nil {
			return err
		}
		for _, adapter := range []string{"by-bearer", "by-token", "by-header", "by-query", "by-password"} {
			for name := range behave {
				text, _ := client.call(t, "mcp_aql_read", fmt.Sprintf(`{"operation":"%s.%s"}`, adapter, name))
				_, result := post(t, strings.TrimSuffix(to.url, "/mcp")+"/adapters/"+adapter+"/read", fmt.Sprintf(`{"operation":%q}`, name))
				said.WriteString(text + "\n" + result + "\n")
			}
			text, _ := client.call(t, "mcp_aql_read", fmt.Sprintf(`{"operation":"introspect","adapter":%q,"params":{"query":"adapter_info"}}`, adapter))
			said.WriteString(text + "\n")
		}
		res, err := http.Get(strings.TrimSuffix(to.url, "/mcp") + "/metrics")
		if err != nil {
			return err
		}
		metrics, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if !strings.Contains(string(metrics), "by-query") {
			t.Errorf("the metrics know no adapter: %s", metrics)
		}
		said.Write(metrics)
		return client.close()
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, up.stderr)
	}
	if !strings.Contains(said.String(), "[redacted]") {
		t.Errorf("nothing was said back: %s", &said)
	}
	password := base64.StdEncoding.EncodeToString([]byte(secrets["E2E_TOKEN"] + ":" + secrets["E2E_PLAIN"]))
	for place, text := range map[string]string{"results": said.String(), "log": up.stderr.String()} {
		for line := range strings.Lines(text) {
			for name, value := range secrets {
				for _, part := range []string{value, value[4 : len(value)-4], url.QueryEscape(value), url.PathEscape(value), password} {
					if strings.Contains(line, part) {
						t.Errorf("%s shows in the %s: %s", name, place, line)
					}
				}
			}
		}
	}
}
