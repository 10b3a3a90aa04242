package children

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryProcessIsStartedHere: of one that another package starts, this one could take the exit status.
func TestEveryProcessIsStartedHere(t *testing.T) {
	const module = "github.com/dragoman-proxy/dragoman/"
	// godbus starts a message bus only if there is no address of one: without, package oauth doesn't ask for the keyring.
	const others = "os/exec github.com/godbus/dbus/v5"
	out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{.Dir}} {{join .GoFiles ","}} {{join .Imports ","}}`, module+"cmd/dragoman").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	makes := regexp.MustCompile(`\bexec\.(Command|CommandContext)\(|\bexec\.Cmd\{`)
	starts := regexp.MustCompile(`\bcmd\.(Start|Run|Output|CombinedOutput|Wait)\(\)|\bos\.StartProcess\(|\bexec\.Command(Context)?\([^\n]*\)\.`)
	seen := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.Contains(","+f[3]+",", ",os/exec,") {
			continue
		}
		if !strings.HasPrefix(f[0], module) {
			if !strings.Contains(" "+others+" ", " "+f[0]+" ") {
				t.Errorf("%s may start processes", f[0])
			}
			continue
		}
		if f[0] == module+"adapterrt/children" {
			continue
		}
		for name := range strings.SplitSeq(f[2], ",") {
			text, err := os.ReadFile(filepath.Join(f[1], name))
			if err != nil {
				t.Fatal(err)
			}
			if makes.Match(text) {
				seen++
			}
			if found := starts.Find(text); found != nil {
				t.Errorf("%s/%s has %s: call it by package children", strings.TrimPrefix(f[0], module), name, found)
			}
		}
	}
	if seen == 0 {
		t.Error("nothing starts a process")
	}
}
