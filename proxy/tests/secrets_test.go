package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// planted are the places where a client or a server may put a secret: messages in which %s is the inside of a JSON string.
var planted = struct{ client, server []string }{
	client: []string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"a":"%s","%s":[{"b":"x%sy"}]},"_meta":{` + sampledParent + `,"progressToken":"%s"}}}`,
		`{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"file:///a?b=%s&c=1#%s","_meta":{` + sampledParent + `}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"%s"}}`,
		`%s`,
		`{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"%s","arguments":{},"_meta":{` + sampledParent + `}}}`,
		`{"jsonrpc":"2.0","id":9,"method":"prompts/get","params":{"name":"%s","arguments":{"a":"%s"},"_meta":{` + sampledParent + `}}}`,
		`{"jsonrpc":"2.0","id":10,"method":"x/%s","params":{"_meta":{` + sampledParent + `}}}`,
	},
	server: []string{
		`"result":{"content":[{"type":"text","text":"%s"},{"type":"text","text":"{\"a\":[\"%s\"]}"},{"type":"resource_link","name":"r","uri":"https://h/p?q=%s"}],"structuredContent":{"%s":{"b":"%s"}}}`,
		`"result":{"isError":true,"content":[{"type":"text","text":"failed with %s"}]}`,
		`"error":{"code":-32603,"message":"upstream said %s","data":{"url":"https://h/?x=%s","%s":1}}`,
	},
}

// embeddedPlace is a place in JSON that is text.
const embeddedPlace = `{\"a\":[\"%s\"]}`

// TestSecretsAreInNothingThatIsShown plants a secret of the configuration into every place.
func TestSecretsAreInNothingThatIsShown(t *testing.T) {
	for _, secret := range []string{"planted-secret-1", `pl"anted\secret/2+3`, "plänted-sécret"} {
		t.Run("", func(t *testing.T) { plantAndSearch(t, secret) })
	}
}

// FuzzSecretsAreInNothingThatIsShown plants any text.
func FuzzSecretsAreInNothingThatIsShown(f *testing.F) {
	f.Add("planted-secret-1")
	f.Add("tools/call=")
	f.Fuzz(func(t *testing.T, secret string) {
		secret = "Zq" + strings.ToValidUTF8(secret, "") + "qZ" // so that it is no word of dragoman's own
		if len(secret) < 10 || strings.ContainsAny(secret, "\x00\r\n") || strings.TrimSpace(secret) != secret {
			t.Skip()
		}
		plantAndSearch(t, secret)
	})
}

// plantAndSearch searches the rows and calls of the page, a recording, the spans and the log for the secret.
func plantAndSearch(t *testing.T, secret string) {
	to := collectortest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	inside := string(wire.AppendQuotedInner(nil, secret))
	twice := string(wire.AppendQuotedInner(nil, inside))
	put := func(place string) string {
		place = strings.ReplaceAll(place, embeddedPlace, strings.ReplaceAll(embeddedPlace, "%s", twice))
		return strings.ReplaceAll(place, "%s", inside)
	}
	answers := 0
	f := newFake(initializing("2025-11-25", func(m string) ([]string, error) {
		id := gjson.Get(m, "id").Raw
		if id == "" || !gjson.Get(m, "method").Exists() {
			return nil, nil
		}
		answers++
		return one(put(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}`),
			`{"jsonrpc":"2.0","id":`+id+`,`+put(planted.server[answers%len(planted.server)])+`}`)
	}))
	o := f.origin()
	o.Stderr = new(pipes.Watch)
	file := filepath.Join(t.TempDir(), "r.jsonl")
	srv := frontOf(t, o, func(cfg *config.Config) {
		cfg.Record.File = file
		cfg.Upstream.Headers = map[string]string{"Authorization": "Bearer " + secret}
	})
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	ring := observe.NewRing(srv.Now().Redactor)
	detach := srv.Observer.Attach("page", ring)
	session := srv.initializeWith("2025-06-18", put(`{"experimental":{"%s":{"a":"%s"}}}`))
	for _, place := range planted.client {
		srv.post(session, put(place), "Mcp-Param-A", secret, "Mcp-Name", secret, "Authorization", "Bearer "+secret, "X-Other", secret)
	}
	(*o.Stderr.Load())("started with " + secret)
	detach()
	srv.EndRecording()
	srv.Tracer.Close()

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{"the recording": string(text), "the spans": fmt.Sprintf("%+v", to.Spans(t, 2))}
	ring.Each(0, func(row observe.Row, _ []*observe.Message) bool {
		d, _ := ring.Detail(row.N)
		call, err := json.Marshal(d)
		if err != nil {
			t.Error(err)
		}
		shown["the page"] += string(call) + "\n"
		for i := range d.Messages {
			beside, _ := ring.Compare(row.N, d.Messages[i].Seq)
			lines, err := json.Marshal(beside)
			if err != nil {
				t.Error(err)
			}
			shown["the page"] += string(lines) + "\n"
		}
		return true
	})
	for _, line := range srv.logs.All() {
		fields, err := json.Marshal(line.ContextMap())
		if err != nil {
			t.Error(err)
		}
		shown["the log"] += line.Message + string(fields) + "\n"
	}
	for where, text := range shown {
		if len(text) < 100 && where != "the log" {
			t.Errorf("%s has only %q", where, text)
		}
		for _, spelling := range []string{secret, inside, twice} {
			if at := strings.Index(text, spelling); at >= 0 {
				t.Errorf("%q is in %s: …%s…", secret, where, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
}
