package proxy

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dragoman-proxy/dragoman/"

// groups are the folders of proxy, top first, each with its rooms, top first: "." is the folder itself. A room imports rooms below it
// in its group, and groups below. doc.go says what the groups hold, and the comment of each what its rooms do.
var groups = []struct{ name, rooms string }{
	{"session", "clients/web clients/pipe clients handshake exchange . setup"},
	{"commands", "doctor filter demo probe"},
	{"bridge", "modernclient legacyclient stateless outbox"},
	{"features", "adapters owntools shape footprint gate replay"},
	{"origin", ". share restart era"},
	{"ops", "host report losses telemetry metrics trace"},
	{"replicas", "storeconfig principal . sealed processes"},
	{"pipes", "results mcpheader . failures"},
	{"config", ". setting"},
	{"auth", "oauthrelay oauth"},
	{"store", "redisstore ended changes ."},
	{"transport", "downstream upstream upstream/orphans unpack"},
	{"observe", "inspect recording . redact instances page"},
	{"protocol", "toolindex crossing mcp dialect idmap memo requests"},
	{"bytes", "lines sse inbuf envelope large rawio samehead callctx unixsocket quota memlimit openfiles"},
}

// beside are packages that a group may import from outside of proxy, and those below them; a group that is not here may import any.
var beside = map[string]string{
	"store":     "",
	"transport": "dial adapterrt/children adapterrt/secret translate/wire",
	"observe":   "translate translate/wire adapterrt/secret transform/tree",
	"protocol":  "translate translate/wire transform",
	"bytes":     "",
}

// apart are rooms that do not import each other, in whichever order they stand: transports are written once and not once per pair,
// the road's rooms meet in the session, and each way in stands alone.
var apart = [][2]string{
	{"proxy/transport/downstream", "proxy/transport/upstream"},
	{"proxy/session/handshake", "proxy/session/exchange"},
	{"proxy/session/clients/web", "proxy/session/clients/pipe"},
	{"proxy/bridge/legacyclient", "proxy/bridge/modernclient"},
}

// others are the packages beside proxy, with what each may import of this module: translate is pure, so that it can be tested, fuzzed
// and reused without a network; dial opens TCP connections for all, and knows nothing of what they carry; oauthclient sends requests
// to authorization servers, and keeps nothing. The order of the packages of adapterrt has a test there.
var others = map[string]string{
	"translate":           "translate/wire",
	"translate/wire":      "",
	"dial":                "",
	"oauthclient":         "translate/wire adapterrt/secret",
	"transform":           "translate/wire transform/fields transform/tokens transform/tree transform/notion transform/linear transform/footprint transform/schema transform/grapheme transform/fit",
	"transform/tree":      "translate/wire",
	"transform/fields":    "translate/wire transform/tree",
	"transform/tokens":    "",
	"transform/notion":    "translate/wire transform/tree",
	"transform/linear":    "translate/wire transform/tree transform/grapheme",
	"transform/footprint": "translate/wire transform/tree",
	"transform/grapheme":  "",
	"transform/schema":    "translate/wire transform/tree",
	"transform/fit":       "translate/wire transform/tree transform/schema transform/grapheme",
	"deploy":              "",
}

// TestImportsPointDown: what each package of the product imports stands below it, and nothing else. Packages that only tests import are
// not judged.
func TestImportsPointDown(t *testing.T) {
	place := map[string]int{"proxy": 0} // of each package of proxy, from the top
	for _, g := range groups {
		for room := range strings.FieldsSeq(g.rooms) {
			place[path.Join("proxy", g.name, room)] = len(place)
		}
	}
	seen := map[string]bool{}
	for pkg, imports := range imported(t) {
		seen[pkg] = true
		at, within := place[pkg]
		allowed, known := others[pkg]
		if !within && !known && !groupOnly(pkg) && !strings.HasPrefix(pkg, "cmd/") {
			t.Errorf("%s has no place in this file", pkg)
		}
		for _, name := range imports {
			below, ours := place[name]
			switch {
			case known && !slices.Contains(strings.Fields(allowed), name):
				t.Errorf("%s imports %s", pkg, name)
			case within && ours && below <= at:
				t.Errorf("%s imports %s, which stands above it", pkg, name)
			case within && ours && slices.ContainsFunc(apart, func(two [2]string) bool { return two == [2]string{pkg, name} || two == [2]string{name, pkg} }):
				t.Errorf("%s imports %s, and the two stand apart", pkg, name)
			case within && !ours:
				group, _, _ := strings.Cut(strings.TrimPrefix(pkg, "proxy/"), "/")
				if may, narrow := beside[group]; narrow && !slices.Contains(strings.Fields(may), name) || strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "proxy/") {
					t.Errorf("%s imports %s", pkg, name)
				}
			case strings.HasPrefix(pkg, "cmd/") && !ours && strings.HasPrefix(name, "proxy/"):
				t.Errorf("%s imports %s, which has no place in this file", pkg, name)
			}
		}
	}
	for pkg := range place {
		if !seen[pkg] {
			t.Errorf("%s is no more", pkg)
		}
	}
	for pkg := range others {
		if !seen[pkg] {
			t.Errorf("%s is no more", pkg)
		}
	}
}

// groupOnly reports whether pkg is a group whose folder holds nothing but rooms.
func groupOnly(pkg string) bool {
	for _, g := range groups {
		if "proxy/"+g.name == pkg && !slices.Contains(strings.Fields(g.rooms), ".") {
			return true
		}
	}
	return false
}

// imported returns what each package of the product imports of this module.
func imported(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}",
		"../cmd/...", "../deploy", "../dial", "../oauthclient", "../proxy/...", "../transform/...", "../translate/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		if strings.HasSuffix(pkg, "test") || strings.HasPrefix(pkg, "proxy/tests") || strings.Contains(pkg, "/internal/") || strings.HasPrefix(pkg, "cmd/proxy/e2e") {
			continue
		}
		all[pkg] = nil
		for _, name := range fields[1:] {
			if name, ours := strings.CutPrefix(name, module); ours {
				all[pkg] = append(all[pkg], name)
			}
		}
	}
	return all
}

// TestFoldersAreFew: a reader of the folder sees the groups, the composition and little else, and each group says what it holds.
func TestFoldersAreFew(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 30 {
		t.Errorf("%d entries, want 30 at most", len(entries))
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if !slices.ContainsFunc(groups, func(g struct{ name, rooms string }) bool { return g.name == e.Name() }) && e.Name() != "tests" {
			t.Errorf("%s is no group", e.Name())
		}
		if _, err := os.Stat(path.Join(e.Name(), "doc.go")); err != nil {
			t.Error(err)
		}
	}
}
