package openapi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// written imports a document and returns its files with their examples.
func written(t testing.TB, d *openapi.Document, opt openapi.Options) (*openapi.Import, map[string][]byte) {
	t.Helper()
	in, err := d.Import(opt)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range in.Files {
		var drafts []adapterrt.Draft
		for _, d := range f.Drafts {
			drafts = append(drafts, adapterrt.Draft{Request: d.Request, Receives: d.Receives})
		}
		made, problems := adapterrt.Illustrate(f.FileName(), f.Front(), &adapterrt.Options{}, drafts)
		for _, p := range problems {
			t.Error(p)
		}
		var examples []string
		for i, m := range made {
			if f.Drafts[i].Random {
				continue
			}
			if m.Fault != "" {
				t.Errorf("%s: %s: %s\n%s", f.FileName(), f.Drafts[i].Operation, m.Fault, f.Drafts[i].Request)
				continue
			}
			examples = append(examples, m.Example)
		}
		out[f.FileName()] = f.Bytes(d, examples)
	}
	return in, out
}

// played checks that a file loads without a problem and that its examples pass. It returns
// how many there are.
func played(t testing.TB, name string, data []byte) int {
	t.Helper()
	all, problems := adapterrt.Rehearse(name, data, &adapterrt.Options{})
	for _, p := range problems {
		t.Error(p)
	}
	for _, r := range all {
		if r.Fault != "" {
			t.Errorf("%s:%d: %s: %s", name, r.Line, r.Operation, r.Fault)
		}
	}
	return len(all)
}

// The documents of GitHub and Stripe are not in the repository.
const (
	githubPath    = "OPENAPI_GITHUB"    // api.github.com.json of the npm package @octokit/openapi
	stripePath    = "OPENAPI_STRIPE"    // spec3.json of the Go module github.com/stripe/stripe-mock
	documentsPath = "OPENAPI_DOCUMENTS" // a directory with further documents
	outPath       = "OPENAPI_OUT"       // a directory in which to leave what was imported, to look at it
)

func large(t testing.TB, variable string) []byte {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" && variable == stripePath {
		found, _ := filepath.Glob(filepath.Join(moduleCache(), "github.com", "stripe", "stripe-mock@*", "embedded", "openapi", "spec3.json"))
		if len(found) > 0 {
			path = found[len(found)-1]
		}
	}
	if path == "" {
		t.Skip(variable + " does not name the document")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func moduleCache() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(home, "go", "pkg", "mod")
}

func TestLargeDocuments(t *testing.T) {
	for _, c := range []struct {
		name, variable string
		operations     int
		split          openapi.Split
	}{
		{"github", githubPath, 1223, openapi.SplitTag},
		{"stripe", stripePath, 594, openapi.SplitPath},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := openapi.Read(c.name+".json", large(t, c.variable), nil)
			if err != nil {
				t.Fatal(err)
			}
			in, files := written(t, d, openapi.Options{Name: c.name, Split: c.split, Deprecated: true})
			operations, examples, bytes, largest := 0, 0, 0, 0
			for name, data := range files {
				a, problems := file.Parse(name, data, &file.Options{Strict: true})
				if a == nil {
					t.Error(problems)
					continue
				}
				operations += len(a.Operations)
				examples += played(t, name, data)
				bytes += len(data)
				largest = max(largest, len(data))
				if dir := os.Getenv(outPath); dir != "" {
					if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Logf("%d files, %d operations, %d dropped, %d examples, %d bytes, largest %d, %d findings", len(files), operations, in.Dropped, examples, bytes, largest, len(in.Findings))
			if in.Selected != c.operations || operations+in.Dropped != c.operations || in.Dropped*200 > c.operations {
				t.Errorf("%d selected, %d imported, %d dropped", in.Selected, operations, in.Dropped)
			}
			for _, f := range in.Findings {
				if f.Class == openapi.Dropped {
					t.Logf("%+v", f)
				}
				if strings.Contains(f.What, "the format of adapters refuses") {
					t.Error(f)
				}
			}
		})
	}
}

// TestLinesThatNoExampleCanHold checks that a body with a line that would end an example, or begin a section of it, makes
// no example: the file would have mistakes.
func TestLinesThatNoExampleCanHold(t *testing.T) {
	const text = `{"openapi":"3.0.0","info":{"title":"Text","version":"1"},"servers":[{"url":"https://h.example.com"}],"paths":{"/x":{"post":{
		"requestBody":{"required":true,"content":{"text/plain":{"schema":{"type":"string"}}}},"responses":{"200":{"description":"x"}}}}}}`
	in := importOf(t, text)
	for body, fits := range map[string]bool{
		`a\nb`:                     true,
		"a\\n```\\nb":              false,
		"a\\n-- want --\\nb":       false,
		"a\\n-- receives --\\n204": false,
	} {
		draft := adapterrt.Draft{Request: `{"operation":"` + in.Files[0].Drafts[0].Operation + `","params":{"body":"` + body + `"}}`, Receives: "204"}
		made, problems := adapterrt.Illustrate("text-adapter.md", in.Files[0].Front(), &adapterrt.Options{}, []adapterrt.Draft{draft})
		if len(made) != 1 || (made[0].Fault == "") != fits {
			t.Errorf("%s: %+v %v", body, made, problems)
		}
	}
}
