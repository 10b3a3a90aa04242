package adapterrt

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages below this one, each with those of them that it may import. No
// package imports one that comes later in the list, and none imports adapterrt.
var rooms = []struct{ name, may string }{
	{"children", ""},
	{"pattern", ""},
	{"plaintext", ""},
	{"secret", ""},
	{"clean", "pattern secret"},
	{"escape", ""},
	{"failure", ""},
	{"near", ""},
	{"brief", ""},
	{"find", ""},
	{"gate", "pattern secret clean"},
	{"file", "pattern plaintext secret clean escape near brief gate"},
	{"httpcall", "pattern plaintext secret clean escape failure near brief gate file"},
	{"credential", "children pattern plaintext secret clean escape failure near brief gate file httpcall"},
	{"guard", "pattern plaintext secret clean escape failure near brief gate file httpcall"},
	{"present", "pattern plaintext secret clean escape failure near brief find gate file httpcall guard"},
	{"openapi", "pattern plaintext secret clean escape near brief gate file"},
}

func TestPackagesImportDownwards(t *testing.T) {
	const module = "github.com/dragoman-proxy/dragoman/"
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "testdata" && !slices.ContainsFunc(rooms, func(r struct{ name, may string }) bool { return r.name == e.Name() }) {
			t.Errorf("%s has no line here", e.Name())
		}
	}
	ask := []string{"list", "-f", `{{.ImportPath}}{{range .Deps}} {{.}}{{end}}`}
	for _, r := range rooms {
		ask = append(ask, module+"adapterrt/"+r.name)
	}
	out, err := exec.Command("go", ask...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		imports[names[0]] = names[1:]
	}
	for _, r := range rooms {
		deps := imports[module+"adapterrt/"+r.name]
		if len(deps) == 0 {
			t.Errorf("go list does not name %s", r.name)
		}
		for _, dep := range deps {
			path, ours := strings.CutPrefix(dep, module)
			below, room := strings.CutPrefix(path, "adapterrt/")
			switch {
			case !ours, path == "translate/wire", path == "oauthclient", path == "dial":
			case !room, !slices.Contains(strings.Fields(r.may), below):
				t.Errorf("%s imports %s", r.name, path)
			}
		}
	}
}
