package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/commands/filter"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
)

// TestARecordingBeginsBeforeAnyClient: the file is there, names the configuration by a digest, and is not replaced.
func TestARecordingBeginsBeforeAnyClient(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	toFile := func(cfg *config.Config) { cfg.Record.File = name }
	srv := front(t, newFake(nil), toFile)
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	f, closer, err := recording.OpenFile(name)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	other := config.Default()
	other.Upstream.Headers = map[string]string{"Authorization": "Bearer a"}
	if h := f.Header(); len(h.Configuration) != 16 || h.Version == "" || h.Configuration == other.Digest() {
		t.Errorf("header %+v", h)
	}
	err = front(t, newFake(nil), toFile).Record()
	if err == nil || !strings.Contains(err.Error(), "record.file: "+name+" exists") {
		t.Errorf("the second recording: %v", err)
	}
}

func TestWithoutAFileNothingIsRecorded(t *testing.T) {
	srv := front(t, newFake(nil))
	if err := srv.Record(); err != nil || srv.Observer.Watched() {
		t.Errorf("%v, watched %v", err, srv.Observer.Watched())
	}
}

func TestTheTimeMayBeInTheNameOfARecording(t *testing.T) {
	dir := t.TempDir()
	srv := front(t, newFake(nil), func(cfg *config.Config) { cfg.Record.File = filepath.Join(dir, "r-{time}.jsonl") })
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "r-20") || strings.Contains(entries[0].Name(), "{") {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestLinesOfTheServersProcessAreRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.jsonl")
	o := newFake(nil).origin()
	o.Stderr = new(pipes.Watch)
	srv := frontOf(t, o, func(cfg *config.Config) { cfg.Record.File = file })
	if err := srv.Record(); err != nil {
		t.Fatal(err)
	}
	(*o.Stderr.Load())("listening, password=planted-1")
	srv.EndRecording()
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"kind":"stderr","text":"listening, password=[redacted]"`) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestARecordingReplays: what translate makes of the messages that came in at one edge is what went out at the other one. The
// question loses choices that its answer needs again.
func TestARecordingReplays(t *testing.T) {
	const ask = `{"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["x","y"]}}}}}}`
	for name, piped := range map[string]bool{"over HTTP": false, "on a pipe": true} {
		t.Run(name, func(t *testing.T) {
			f := newFake(nil)
			f.piped = piped
			f.Script = initializing("2025-11-25", func(m string) ([]string, error) {
				id := gjson.Get(m, "id").Raw
				switch gjson.Get(m, "method").String() {
				case "tools/list":
					return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[{"name":"t","title":"T","icons":[{"src":"https://x.example/i.png"}],"inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}}`)
				case "tools/call":
					return one(ask, `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"{\"password\":\"planted-1\"}"}]}}`)
				case "resources/read":
					return one(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32002,"message":"Resource not found"}}`)
				}
				return nil, nil
			})
			file := filepath.Join(t.TempDir(), "r.jsonl")
			srv := front(t, f, func(cfg *config.Config) { cfg.Record.File = file })
			if err := srv.Record(); err != nil {
				t.Fatal(err)
			}
			s := srv.initializeWith("2025-06-18", `{"elicitation":{}}`)
			srv.post(s, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			srv.post(s, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
			question := srv.post(s, callOne).events[0]
			srv.post(s, `{"jsonrpc":"2.0","id":`+gjson.Get(question, "id").Raw+`,"result":{"action":"accept","content":{"c.0":false,"c.1":true}}}`)
			srv.post(s, `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"file:///a"}}`)
			srv.EndRecording()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, edge := range []string{recording.ClientEdge, recording.ServerEdge} {
				var out, notes bytes.Buffer
				err := filter.Filter{Edge: edge, Limits: config.Default().Limits, In: bytes.NewReader(text), Out: &out, Notes: &notes, Explain: filter.ExplainWords}.Run()
				if err != nil {
					t.Errorf("%s: %v\n%s\n%s", edge, err, notes.String(), text)
				}
				var want []string
				for line := range strings.Lines(string(text)) {
					l, ok := recording.Parse([]byte(line))
					if !ok || strings.Contains(line, "planted") {
						t.Errorf("the line %s", line)
					}
					if l.Kind == recording.Message && l.From != 0 && l.Edge != edge && (edge == recording.ServerEdge || l.Method != "initialize") {
						want = append(want, string(l.Payload))
					}
				}
				if len(want) != 5 {
					t.Errorf("%d messages have been translated at this edge\n%s", len(want), text)
				}
				sameList(t, edge, strings.Split(strings.TrimSpace(out.String()), "\n"), want)
			}
		})
	}
}
