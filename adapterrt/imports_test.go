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
	{"clean", ""},
	{"escape", ""},
	{"failure", ""},
	{"near", ""},
	{"gate", "clean"},
	{"file", "clean escape near gate"},
	{"httpcall", "clean escape failure near gate file"},
	{"credential", "clean escape failure near gate file httpcall"},
	{"guard", "clean escape failure near gate file httpcall"},
	{"present", "clean escape failure near gate file httpcall guard"},
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
	for _, r := range rooms {
		out, err := exec.Command("go", "list", "-deps", module+"adapterrt/"+r.name).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", r.name, err)
		}
		for _, dep := range strings.Fields(string(out)) {
			path, ours := strings.CutPrefix(dep, module)
			below, room := strings.CutPrefix(path, "adapterrt/")
			switch {
			case !ours, path == "translate/wire", below == r.name:
			case !room, !slices.Contains(strings.Fields(r.may), below):
				t.Errorf("%s imports %s", r.name, path)
			}
		}
	}
}
