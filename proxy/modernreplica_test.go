package proxy

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// TestAnyReplicaServesSessionsOfServersWithoutOne: a session id contains the client's capabilities,
// and any replica can end the session.
func TestAnyReplicaServesSessionsOfServersWithoutOne(t *testing.T) {
	leavesNothing(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m := string(body)
		id, method := gjson.Get(m, "id").Raw, gjson.Get(m, "method").String()
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if method == "initialize" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, rpcError("null", `"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}`))
			return
		}
		if r.Header.Get("MCP-Protocol-Version") != "2026-07-28" || r.Header.Get("Mcp-Method") != method || r.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s with %v", method, r.Header)
		}
		if method == "server/discover" {
			fmt.Fprint(w, result(id, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"prompts":{},"logging":{}}`))
			return
		}
		says := gjson.Get(m, `params._meta.io\.modelcontextprotocol/clientCapabilities`).Raw + gjson.Get(m, `params._meta.io\.modelcontextprotocol/logLevel`).String()
		fmt.Fprint(w, result(id, `"resultType":"complete","description":`+string(mcp.AppendString(nil, says))+`,"messages":[]`))
	}))
	key := make([]byte, sealed.KeyBytes)
	rand.Read(key)
	cfg := config.Default()
	cfg.Upstream.URL = web.URL
	cfg.Upstream.HandshakeTimeout = patience
	cfg.Session.KeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.Session.KeyFile, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []testServer
	for range 2 {
		core, logs := observer.New(zap.DebugLevel)
		srv, err := New(cfg, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, testServer{srv, t, logs})
	}
	defer func() {
		for _, srv := range all {
			srv.close()
		}
		web.CloseClientConnections()
		web.Close()
	}()
	session := all[0].initializeWith("2025-11-25", `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
	const get = `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`
	for _, srv := range all {
		says := gjson.Get(srv.post(session, get).body, "result.description").String()
		can, isInfo := strings.CutSuffix(says, "info")
		if !isInfo {
			t.Errorf("level: %s", says)
		}
		sameJSON(t, can, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
	}
	if r := all[1].exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
		t.Errorf("%+v", r)
	}
	if r := all[1].post(session, get); r.status != 404 {
		t.Errorf("after its end: %+v", r)
	}
}
