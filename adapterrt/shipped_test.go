package adapterrt

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// shipped are the adapters in deploy, by name, with the operations each must have.
var shipped = map[string]int{"github": 20, "notion": 12, "linear": 10}

func shippedFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files, _ := filepath.Glob("../deploy/adapters/*-adapter.md")
	out := map[string][]byte{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = data
	}
	if len(out) < len(shipped) {
		t.Fatalf("%d adapters, want %d", len(out), len(shipped))
	}
	return out
}

// TestShippedAdapters shows that each shipped adapter loads without a warning, and that each
// of its operations has an example that succeeds and one that fails.
func TestShippedAdapters(t *testing.T) {
	for path, data := range shippedFiles(t) {
		done, problems := Rehearse(path, data, &Options{StrictFiles: true})
		for _, p := range problems {
			t.Errorf("%s:%d: %s %s", path, p.Line, p.Path, p.Message)
		}
		for _, r := range done {
			if r.Fault != "" {
				t.Errorf("%s:%d: %s %s", path, r.Line, r.Operation, r.Fault)
			}
		}
		a, _ := Parse(path, data, &Options{})
		if a == nil {
			t.Fatal(path)
		}
		if least := shipped[a.Name]; len(a.Operations) < least {
			t.Errorf("%s has %d operations, want %d", path, len(a.Operations), least)
		}
		examples, _ := file.Examples(a.Documentation, 1)
		shown := map[string]bool{} // operation, and whether it succeeds
		for _, e := range examples {
			shown[batchName(e.Request)+" "+string(wire.Member(e.Want, "success"))] = true
		}
		for _, op := range a.Operations {
			for _, outcome := range []string{"true", "false"} {
				if !shown[op.Name+" "+outcome] {
					t.Errorf("%s: no example of %s with success %s", path, op.Name, outcome)
				}
			}
			if op.Description == "" {
				t.Errorf("%s: %s has no description", path, op.Name)
			}
			for _, p := range op.Params {
				if p.Description == "" && !p.Hidden {
					t.Errorf("%s: %s.%s has no description", path, op.Name, p.Name)
				}
			}
		}
	}
}

// TestShippedAdaptersConfirm shows that the shipped adapters delete and merge only after a
// confirmation.
func TestShippedAdaptersConfirm(t *testing.T) {
	for path, data := range shippedFiles(t) {
		rt := start(t, fromEnv("GITHUB_TOKEN", "a", "NOTION_TOKEN", "b", "LINEAR_API_KEY", "c"), map[string]string{path: string(data)})
		sends := capture(rt, `{"data":{}}`)
		a := rt.live.Load().adapters[0]
		examples, _ := file.Examples(a.Documentation, 1)
		asked := map[string]bool{}
		for _, e := range examples {
			op := a.Index[batchName(e.Request)]
			if a.guard.Verdict(op) != guard.Confirm || len(e.Exchanges) == 0 || asked[op.Name] {
				continue
			}
			asked[op.Name] = true
			*sends = nil
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: e.Request, Session: "s"})
			if r.Failure == nil || r.Failure.Code != failure.ConfirmationRequired || len(*sends) > 0 {
				t.Errorf("%s: %s went ahead: %s", path, op.Name, r.JSON())
				continue
			}
			token := wire.Unquoted(wire.Member(r.Failure.Details, "confirmation_token"))
			again := bytes.Replace(e.Request, []byte(`"params":{`), []byte(`"params":{"_confirmation":"`+string(token)+`",`), 1)
			if r = rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: again, Session: "s"}); r.Failure != nil || len(*sends) != 1 {
				t.Errorf("%s: %s did not run: %s", path, op.Name, r.JSON())
			}
		}
		for _, op := range a.Operations {
			if op.Category == file.Delete && !asked[op.Name] {
				t.Errorf("%s: %s needs no confirmation", path, op.Name)
			}
		}
	}
}

// TestShippedAdaptersSignIn shows the headers that each API needs, with the secrets masked.
func TestShippedAdaptersSignIn(t *testing.T) {
	opt := fromEnv("GITHUB_TOKEN", "ghp_abcdefghijkl", "NOTION_TOKEN", "ntn_abcdefghijkl", "LINEAR_API_KEY", "lin_api_abcdefghijkl")
	opt.UserAgent = "dragoman/test"
	for name, want := range map[string][]string{
		"github": {"Accept: application/vnd.github+json", "X-GitHub-Api-Version: 2022-11-28", "User-Agent: dragoman/test", "Authorization: Bearer ghp_..."},
		"notion": {"Notion-Version: 2025-09-03", "Authorization: Bearer ntn_..."},
		"linear": {"Content-Type: application/json", "Authorization: lin_..."},
	} {
		path := name + "-adapter.md"
		rt := start(t, opt, map[string]string{path: string(shippedFiles(t)[path])})
		p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"get_me"}`)})
		if f != nil {
			t.Fatal(name, f)
		}
		var have strings.Builder
		for _, h := range p.Header {
			have.WriteString(h.Name + ": " + h.Value + "\n")
		}
		for _, w := range want {
			if !strings.Contains("\n"+have.String(), "\n"+w+"\n") {
				t.Errorf("%s: no %q in\n%s", name, w, have.String())
			}
		}
	}
}

// TestDiscoveryBudget bounds what the tools cost a model before it has called any:
// 6 KiB for one adapter with up to 40 operations, 1.5 KiB as one tool.
func TestDiscoveryBudget(t *testing.T) {
	for path, data := range shippedFiles(t) {
		for mode, limit := range map[present.Mode]int{present.Semantic: 6 << 10, present.Single: 3 << 9} {
			for _, per := range []bool{false, true} {
				rt := start(t, Options{Shown: Shown{Mode: mode}, PerAdapter: per}, map[string]string{path: string(data)})
				size := 0
				for _, tool := range rt.Tools("") {
					var compact bytes.Buffer
					if err := json.Compact(&compact, tool.JSON); err != nil {
						t.Fatal(err)
					}
					size += compact.Len() + len(",")
				}
				t.Logf("%s: %d tools, %d bytes (%s, per adapter %v)", path, len(rt.Tools("")), size, mode, per)
				if size > limit {
					t.Errorf("%s in mode %s takes %d bytes, more than %d", path, mode, size, limit)
				}
			}
		}
	}
}

// TestTheAdapterInTheDocsIsValid checks the adapter in docs/adapters.md, as a reader would copy it.
func TestTheAdapterInTheDocsIsValid(t *testing.T) {
	page, err := os.ReadFile("../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	const name = "posts-adapter.md"
	_, text, found := strings.Cut(string(page), name+" <<'EOF'\n")
	text, _, closed := strings.Cut(text, "\n    EOF\n")
	if !found || !closed {
		t.Fatal("docs/adapters.md has none")
	}
	text = strings.ReplaceAll("\n"+text, "\n    ", "\n")[1:]
	done, problems := Rehearse(name, []byte(text), &Options{StrictFiles: true})
	if len(problems) > 0 || len(done) != 1 || done[0].Fault != "" {
		t.Error(problems, done)
	}
}
