package adapterrt

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

const status = "read:\n- {name: get_status, maps_to: GET /status, description: Get the status}"

func TestFrontMatter(t *testing.T) {
	good := front("https://api.example.com", status)
	for name, c := range map[string]struct{ text, fault string }{
		"plain":                    {good, ""},
		"BOM":                      {"\ufeff" + good, ""},
		"CRLF":                     {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"blanks behind delimiters": {strings.ReplaceAll(good, "---\n", "---  \t\n"), ""},
		"empty body":               {strings.TrimSuffix(good, "# Docs\n"), ""},
		"no newline at the end":    {strings.TrimSuffix(good, "\n# Docs\n"), ""},
		"dashes inside a string":   {strings.Replace(good, "An API for tests", "An API --- for tests", 1), ""},
		"indented dashes":          {strings.Replace(good, "description: An API for tests", "description: |\n  An API for tests\n  ---\n  and more", 1), ""},
		"two BOMs":                 {"\ufeff\ufeff" + good, "must start with ---"},
		"empty line first":         {"\n" + good, "must start with ---"},
		"four dashes":              {"-" + good, "must start with ---"},
		"no front matter":          {"# Docs\n", "must start with ---"},
		"empty":                    {"", "must start with ---"},
		"not closed":               {strings.Replace(good, "\n---\n# Docs", "\n# Docs", 1), "not closed"},
		"closed by dots":           {strings.Replace(good, "\n---\n# Docs", "\n...\n# Docs", 1), "not closed"},
		"two documents":            {strings.Replace(good, "\n---\n# Docs", "\n...\nname: x\n---\n# Docs", 1), "single YAML document"},
		"empty YAML":               {"---\n---\n", "empty"},
		"a list":                   {"---\n- a\n---\n", "must be a map"},
		"bad YAML":                 {"---\nname: [\n---\n", "not valid YAML"},
		"key twice":                {strings.Replace(good, "type: adapter", "type: adapter\ntype: adapter", 1), `"type" is given twice`},
		"custom tag":               {strings.Replace(good, "type: adapter", "type: !python/object adapter", 1), "tag"},
		"binary tag":               {strings.Replace(good, "type: adapter", "type: !!binary YWRhcHRlcg==", 1), "tag"},
		"not UTF-8":                {strings.Replace(good, "Docs", "D\xffcs", 1), "not valid UTF-8"},
		"too large":                {good + strings.Repeat("x", file.MaxFile), "larger than"},
		"alias":                    {strings.Replace(good, "description: An API for tests", "description: &d An API for tests\nauthor: *d", 1), ""},
		"merge key":                {strings.Replace(good, "type: adapter", "x-base: &b {type: adapter}\n<<: *b", 1), ""},
		"anchor inside itself":     {strings.Replace(good, "type: adapter", "type: adapter\nx-a: &a [*a]", 1), ""},
		"deep":                     {strings.Replace(good, "type: adapter", "type: adapter\nx-a: "+strings.Repeat("[", 100)+strings.Repeat("]", 100), 1), "nested deeper"},
		"aliases that multiply": {strings.Replace(good, "type: adapter", "type: adapter\nx-a: &a [1,1,1,1,1,1,1,1,1,1]\n"+
			"x-b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nx-c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nx-d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\nx-e: [*d,*d]", 1), "aliases expand"},
	} {
		t.Run(name, func(t *testing.T) {
			a, problems := Parse("test-api-adapter.md", []byte(c.text), &Options{})
			if name == "anchor inside itself" { // the message does not matter, but loading must end
				if a != nil {
					t.Error("loaded")
				}
				return
			}
			if c.fault == "" {
				if a == nil {
					t.Fatal(problems)
				}
				return
			}
			if a != nil || len(problems) != 1 || problems[0].Code != file.SchemaParseError || !strings.Contains(problems[0].Message, c.fault) {
				t.Errorf("got %v, want %q", problems, c.fault)
			}
		})
	}
}

func TestDocumentationIsKeptVerbatim(t *testing.T) {
	text := front("https://api.example.com", status)
	text = strings.Replace(text, "# Docs\n", "# Docs\r\n\n---\nmore: [\n", 1)
	a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
	if a == nil {
		t.Fatal(problems)
	}
	if a.Documentation != "# Docs\r\n\n---\nmore: [\n" {
		t.Errorf("got %q", a.Documentation)
	}
}

func TestAdapterFilesAreFoundByTheirName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b-adapter.md", "a-adapter.md", "readme.md", "adapter.md", "sub/c-adapter.md", "..data/d-adapter.md"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	base := func(paths []string) (names []string) {
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}
	files, problems := file.Find([]file.Source{{Path: dir}})
	if got := base(files); len(problems) > 0 || !slices.Equal(got, []string{"a-adapter.md", "b-adapter.md"}) {
		t.Error(got, problems)
	}
	files, _ = file.Find([]file.Source{{Path: dir, Recursive: true}})
	if got := base(files); !slices.Equal(got, []string{"a-adapter.md", "b-adapter.md", "c-adapter.md"}) {
		t.Error(got)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err == nil { // on Windows, this needs a permission
		files, problems = file.Find([]file.Source{{Path: link}})
		if got := base(files); len(problems) > 0 || !slices.Equal(got, []string{"a-adapter.md", "b-adapter.md"}) || !strings.HasPrefix(files[0], link) {
			t.Error(files, problems)
		}
	}
	_, problems = file.Find([]file.Source{{Path: filepath.Join(dir, "readme.md")}, {Path: filepath.Join(dir, "none")}})
	if len(problems) != 2 || !file.HasError(problems) {
		t.Error(problems)
	}
}

func TestAllMistakesOfAllFilesAreReported(t *testing.T) {
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, paths := write(t, map[string]string{
		"a-adapter.md":        "---\nname: 5\n---\n",
		"b-adapter.md":        "no front matter",
		"test-api-adapter.md": front("https://api.example.com", status),
	})
	problems, err := rt.Load(paths)
	var le *file.LoadError
	if !errors.As(err, &le) || len(rt.Adapters()) != 0 {
		t.Fatal("loaded in spite of errors", err)
	}
	files := map[string]int{}
	for _, p := range problems {
		if p.Severity == file.Error {
			files[filepath.Base(p.File)]++
		}
	}
	if files["a-adapter.md"] < 5 || files["b-adapter.md"] != 1 || files["test-api-adapter.md"] != 0 {
		t.Error(files)
	}
	skip, _ := New(Options{SkipInvalid: true})
	if _, err := skip.Load(paths); err != nil || len(skip.Adapters()) != 1 {
		t.Error("the valid one was not loaded", err)
	}
	skip.Close()
}

func TestSameNameTwiceIsRefused(t *testing.T) {
	rt, _ := New(Options{})
	good := front("https://api.example.com", status)
	_, paths := write(t, map[string]string{"test-api-adapter.md": good, "x-adapter.md": good})
	problems, err := rt.Load(paths)
	if err == nil || problems[len(problems)-1].Code != file.SchemaDuplicateName {
		t.Error(problems, err)
	}
}

// TestReloadSeesASwappedLink changes a directory as Kubernetes changes a ConfigMap: the files
// are links through a link to a directory, and that link is replaced.
func TestReloadSeesASwappedLink(t *testing.T) {
	dir := t.TempDir()
	version := func(name, v string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(front("https://api.example.com", status), "1.0.0", v, 1)
		if err := os.WriteFile(filepath.Join(dir, name, "test-api-adapter.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	version("..v1", "1.0.1")
	version("..v2", "1.0.2")
	if err := os.Symlink("..v1", filepath.Join(dir, "..data")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(filepath.Join("..data", "test-api-adapter.md"), filepath.Join(dir, "test-api-adapter.md")); err != nil {
		t.Fatal(err)
	}
	rt, _ := New(Options{})
	t.Cleanup(rt.Close)
	files, problems := file.Find([]file.Source{{Path: dir, Recursive: true}})
	if _, err := rt.Load(files); err != nil || len(problems) > 0 || rt.Adapters()[0].Version != "1.0.1" {
		t.Fatal(err, problems)
	}
	if err := os.Symlink("..v2", filepath.Join(dir, "..next")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	files, _ = file.Find([]file.Source{{Path: dir, Recursive: true}})
	if _, changed, err := rt.Reload(files); !changed || err != nil || rt.Adapters()[0].Version != "1.0.2" {
		t.Error(changed, err)
	}
}

func TestReloadKeepsAdaptersWhoseFileIsWrong(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", status)
	path := rt.Adapters()[0].File
	replace := func(text string) ([]file.Problem, bool) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		problems, changed, err := rt.Reload([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		return problems, changed
	}
	if problems, changed := replace("---\nbroken: [\n---\n"); changed || !file.HasError(problems) || len(rt.Adapters()) != 1 {
		t.Error("a broken change took the adapter away", problems)
	}
	text := front("https://api.example.com", status)
	if _, changed := replace(text); changed {
		t.Error("the same text counts as a change")
	}
	if problems, changed := replace(strings.Replace(text, "1.0.0", "1.0.1", 1)); !changed || file.HasError(problems) || rt.Adapters()[0].Version != "1.0.1" {
		t.Error("a good change was not taken", problems)
	}
	if _, changed, _ := rt.Reload(nil); !changed || len(rt.Adapters()) != 0 {
		t.Error("a removed file left its adapter")
	}
}

func TestRefresh(t *testing.T) {
	text := front("https://api.example.com", status)
	other := strings.Replace(text, "name: test-api", "name: other-api", 1)
	dir, _ := write(t, map[string]string{"test-api-adapter.md": text})
	single, named := write(t, map[string]string{"other-api-adapter.md": other})
	sources := []file.Source{{Path: dir}, {Path: named[0]}}
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, step := range []struct {
		name    string
		do      func() error
		loaded  string
		changed bool
		told    string
	}{
		{"first", func() error { return nil }, "test-api other-api", true, ""},
		{"again", func() error { return nil }, "test-api other-api", false, ""},
		{"the directory is gone", func() error { return os.Rename(dir, dir+"-away") }, "test-api other-api", false, dir},
		{"the directory is back", func() error { return os.Rename(dir+"-away", dir) }, "test-api other-api", false, ""},
		{"a named file is gone", func() error { return os.Rename(named[0], filepath.Join(single, "away")) }, "test-api other-api", false, named[0]},
		{"a file of the directory is gone", func() error { return os.Remove(filepath.Join(dir, "test-api-adapter.md")) }, "other-api", true, named[0]},
		{"a named file is back", func() error { return os.Rename(filepath.Join(single, "away"), named[0]) }, "other-api", false, ""},
		{"a file is new", func() error { return os.WriteFile(filepath.Join(dir, "test-api-adapter.md"), []byte(text), 0o600) }, "test-api other-api", true, ""},
		{"its link leads nowhere", func() error {
			_ = os.Remove(filepath.Join(dir, "test-api-adapter.md"))
			return os.Symlink("nowhere", filepath.Join(dir, "test-api-adapter.md"))
		}, "test-api other-api", false, "test-api-adapter.md"},
	} {
		if err := step.do(); err != nil {
			t.Fatal(step.name, err)
		}
		problems, changed, err := rt.Refresh(sources)
		var names []string
		for _, a := range rt.Adapters() {
			names = append(names, a.Name)
		}
		if err != nil || changed != step.changed || strings.Join(names, " ") != step.loaded {
			t.Errorf("%s: %v %v %v %v", step.name, names, changed, problems, err)
		}
		if errs := slices.DeleteFunc(problems, func(p file.Problem) bool { return p.Severity != file.Error }); (step.told == "") != (len(errs) == 0) ||
			step.told != "" && !strings.Contains(errs[0].String(), step.told) {
			t.Errorf("%s: told %v", step.name, errs)
		}
	}
}

// TestRefreshReportsEveryMistake shows that Refresh reports all problems of a changed file, and
// does not report the files of a source that cannot be read in addition to the source.
func TestRefreshReportsEveryMistake(t *testing.T) {
	dir, _ := write(t, map[string]string{"test-api-adapter.md": front("https://api.example.com", status)})
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	sources := []file.Source{{Path: dir}}
	if _, _, err := rt.Refresh(sources); err != nil {
		t.Fatal(err)
	}
	wrong := strings.NewReplacer("type: adapter", "type: adaptor", "GET /", "GOT /").Replace(front("https://api.example.com", status))
	if err := os.WriteFile(filepath.Join(dir, "test-api-adapter.md"), []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	problems, _, _ := rt.Refresh(sources)
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if want := []string{"type", "operations.read[0].maps_to"}; !slices.Equal(paths, want) {
		t.Errorf("told of %q, want %q", paths, want)
	}
}
