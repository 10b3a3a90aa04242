package tests

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestTheFirstCallIsAskedOnTheStandingStream: a server over HTTP may ask on the stream of a GET, and drops what it has to say while
// there is none, as servers on the TypeScript SDK do. A client on a pipe calls at once after initialized.
func TestTheFirstCallIsAskedOnTheStandingStream(t *testing.T) {
	questions, answers := make(chan string, 1), make(chan string, 1)
	open := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		m := string(text)
		id := gjson.Get(m, "id").Raw
		w.Header().Set("Content-Type", "application/json")
		switch method := gjson.Get(m, "method").String(); {
		case r.Method == http.MethodGet:
			time.Sleep(100 * time.Millisecond)
			w.Header().Set("Content-Type", "text/event-stream")
			close(open)
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case q := <-questions:
				fmt.Fprintf(w, "data: %s\n\n", q)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			case <-r.Context().Done():
			}
		case r.Method != http.MethodPost:
		case method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			fmt.Fprint(w, result(id, `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}`))
		case method == "" && id != "":
			answers <- gjson.Get(m, "result.action").String()
			w.WriteHeader(http.StatusAccepted)
		case id == "":
			w.WriteHeader(http.StatusAccepted)
		case method == "tools/call":
			said := "there was no stream to ask on"
			select {
			case <-open:
				questions <- `{"jsonrpc":"2.0","id":0,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`
				said = <-answers
			default:
			}
			fmt.Fprint(w, result(id, `"content":[{"type":"text","text":"`+said+`"}]`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	cfg := config.Default()
	cfg.Upstream.URL = s.URL
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	client := testServer{srv, t, nil}.pipe()
	client.say(initialize("2025-06-18", `{"elicitation":{}}`))
	client.hear()
	client.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	client.say(callOne)
	for {
		m := client.hear()
		if gjson.Get(m, "method").String() == "elicitation/create" {
			client.say(`{"jsonrpc":"2.0","id":` + gjson.Get(m, "id").Raw + `,"result":{"action":"accept","content":{}}}`)
			continue
		}
		if !strings.Contains(m, "accept") {
			t.Errorf("%s", m)
		}
		return
	}
}
