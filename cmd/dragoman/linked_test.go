package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheCommandLinksNoLibraryOfTheTests: each of these would add megabytes to the program, or what a test only needs.
func TestTheCommandLinksNoLibraryOfTheTests(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "github.com/dragoman-proxy/dragoman/transform/tokens") {
		t.Fatal("the command links no transform/tokens: this test looks at something else")
	}
	for _, pkg := range linked {
		for _, unwanted := range []string{
			"github.com/tiktoken-go/", // 12 MB of vocabularies: transform/tokens has them compressed
			"github.com/dlclark/regexp2", "github.com/chromedp/", "github.com/getkin/", "go.opentelemetry.io/",
			"github.com/santhosh-tekuri/", "github.com/google/go-cmp/", "pgregory.net/", "testing", "net/http/httptest",
		} {
			if pkg == unwanted || strings.HasSuffix(unwanted, "/") && strings.HasPrefix(pkg, unwanted) || strings.HasPrefix(pkg, unwanted+"/") {
				t.Errorf("the command links %s", pkg)
			}
		}
	}
}

// TestTheLinkerLeavesOutUnusedMethods: code that looks up a method by a name that is no constant (text/template, or
// reflect.Type.Method) makes the linker keep all exported methods of all types, 4.6 MB.
func TestTheLinkerLeavesOutUnusedMethods(t *testing.T) {
	command := filepath.Join(t.TempDir(), "dragoman.exe")
	out, err := exec.Command("go", "build", "-ldflags=-dumpdep", "-o", command, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%.2000s", err, out)
	}
	if !strings.Contains(string(out), "main.main -> ") {
		t.Fatalf("the linker says nothing of main: %.500s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " <ReflectMethod>") {
			t.Errorf("%s", line)
		}
	}
}
