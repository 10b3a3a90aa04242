package openapi

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// adapter is what an adapter file says of the API. The judge reads files with its own types, so
// that it does not share a mistake with the program that writes and reads them.
type adapter struct {
	Auth       map[string]any
	Operations map[string][]*operation
}

type operation struct {
	Name    string
	MapsTo  string `yaml:"maps_to"`
	Params  map[string]*definition
	Request struct {
		From string `yaml:"body_from"`
	}
	Pagination struct {
		Style   string
		Param   string `yaml:"param_name"`
		PerPage string `yaml:"per_page_param"`
	}

	file     string
	auth     map[string]any
	findings []finding
}

type definition struct {
	Type       string
	Required   bool
	WireName   string `yaml:"wire_name"`
	In         string
	Items      *definition
	Properties map[string]*definition
}

// finding is a line of the report.
type finding struct {
	File, Operation, Class, What string
}

type report struct {
	Selected, Dropped int
	Left              map[string]int `json:"left_out"`
	Findings          []finding
}

// imported are the operations that adapter import wrote, by method and path without the names
// of placeholders, and its report.
type imported struct {
	report
	operations map[string]*operation
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// place returns a method and path without the names of placeholders.
func place(mapsTo string) string { return placeholder.ReplaceAllString(mapsTo, "{}") }

// importDocument runs the command as a user does, and reads what it wrote.
func importDocument(t *testing.T, bin, document, split string) *imported {
	t.Helper()
	out := t.TempDir()
	list := filepath.Join(out, "report.json")
	cmd := exec.CommandContext(t.Context(), bin, "adapter", "import", document, "-o", filepath.Join(out, "files"), "--name", "judged",
		"--split", split, "--max-ops", "0", "--deprecated", "--allow-partial", "--report", list)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	in := &imported{operations: map[string]*operation{}}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &in.report); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(out, "files", "*.md"))
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var a adapter
		parts := bytes.SplitN(data, []byte("---\n"), 3)
		if len(parts) != 3 {
			t.Fatalf("%s has no front matter", path)
		}
		if err := yaml.Unmarshal(parts[1], &a); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, list := range a.Operations {
			for _, op := range list {
				op.file, op.auth = filepath.Base(path), a.Auth
				for _, f := range in.Findings {
					if f.File == op.file && f.Operation == op.Name {
						op.findings = append(op.findings, f)
					}
				}
				key := place(op.MapsTo)
				if in.operations[key] != nil {
					t.Errorf("%s is in the files twice", key)
				}
				in.operations[key] = op
			}
		}
	}
	return in
}

// places returns the parameters by the place where the API gets them and the name that it has
// there. Those of the path have their number instead of a name, and the whole body is "body *".
func (op *operation) places() map[string]*definition {
	method, path, _ := strings.Cut(op.MapsTo, " ")
	var inPath []string
	for _, name := range placeholder.FindAllString(path, -1) {
		if name = strings.Trim(name, "{}"); !slices.Contains(inPath, name) {
			inPath = append(inPath, name)
		}
	}
	out := map[string]*definition{}
	for name, d := range op.Params {
		wire, in := name, d.In
		if d.WireName != "" {
			wire = d.WireName
		}
		number := slices.Index(inPath, name)
		switch {
		case number >= 0:
			in, wire = "path", strconv.Itoa(number+1)
		case name == op.Request.From:
			in, wire = "body", "*"
		case in == "" && (method == "GET" || method == "DELETE"):
			in = "query"
		case in == "":
			in = "body"
		}
		out[in+" "+wire] = d
	}
	return out
}

// told reports whether the report has a finding of the operation with all the words.
func (op *operation) told(words ...string) bool { return told(op.findings, words...) }

func told(findings []finding, words ...string) bool {
	return slices.ContainsFunc(findings, func(f finding) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.What, w) })
	})
}

// authenticates reports whether the auth block of the file names a header or parameter.
func (op *operation) authenticates(name string) bool {
	text, _ := json.Marshal(op.auth)
	return strings.Contains(strings.ToLower(string(text)), strings.ToLower(`"`+name+`"`))
}
