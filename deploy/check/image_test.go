package check

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// image is the name of dragoman's image in all files.
const image = "dragoman:local"

// TestTheImageHasOneName: what the Dockerfile says to build is what manifests and compose files start. A tag other than latest, so that a
// cluster uses an image that was loaded, and does not look for it in a registry.
func TestTheImageHasOneName(t *testing.T) {
	dockerfile := string(read(t, "Dockerfile"))
	if !strings.Contains(dockerfile, "docker build -f deploy/Dockerfile -t "+image+" .\n") {
		t.Errorf("the Dockerfile does not say how %s is built", image)
	}
	named := regexp.MustCompile(`(?m)\bimage: *(\S*dragoman\S*)`)
	for _, file := range []string{"sidecar.yaml", "vendor-front.yaml", "compose.yaml", "compose-replicas.yaml"} {
		text := string(read(t, file))
		found := named.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			if m[1] != image {
				t.Errorf("%s: the image is %s", file, m[1])
			}
		}
		if len(found) != 1 {
			t.Errorf("%s has %d images of dragoman", file, len(found))
		}
		if strings.HasPrefix(file, "compose") != strings.Contains(text, "dockerfile: deploy/Dockerfile") || !strings.HasPrefix(file, "compose") && !strings.Contains(text, "docker build -f deploy/Dockerfile -t "+image+" .") {
			t.Errorf("%s does not say how the image is built", file)
		}
	}
}

// TestTheImageIsOneStaticProgram checks what the Dockerfile builds, which is all that the image has besides certificates.
func TestTheImageIsOneStaticProgram(t *testing.T) {
	bin := build(t)
	dockerfile := string(read(t, "Dockerfile"))
	for _, want := range []string{"\nFROM scratch\n", "\nCOPY --from=build /dragoman /dragoman\n", "/ca-certificates.crt /etc/ssl/certs/\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/dragoman\"]\n"} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY (go\S+) (go\S+) `).FindAllStringSubmatch(dockerfile, -1) {
		for _, name := range m[1:] {
			if _, err := os.Stat(filepath.Join("..", "..", name)); err != nil {
				t.Error(err)
			}
		}
	}
	module, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if version := regexp.MustCompile(`(?m)^go ([\d.]+)`).FindSubmatch(module); !strings.Contains(dockerfile, " golang:"+string(version[1])+"-") {
		t.Errorf("the Dockerfile does not build with Go %s", version[1])
	}
	if out, err := exec.CommandContext(t.Context(), bin, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "dragoman ") {
		t.Errorf("%v\n%s", err, out)
	}
	if runtime.GOOS != "linux" {
		return
	}
	f, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: %v", p.Type)
		}
	}
}
