package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// checkoutOfHead clones this checkout, so that a release of its last commit has no other files near it.
func checkoutOfHead(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkout")
	if _, err := output(t.Context(), ".", nil, "git", "clone", "-q", "../..", dir); err != nil {
		t.Skip("not in a git checkout: ", err)
	}
	return dir
}

// files returns the content of all files in a folder and in the folders below it, by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		all[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tested is a platform whose dependencies other tests have compiled already. The others would take the time of a whole build
// each; "make check-systems" type-checks them.
var tested = []platform{{"linux", "amd64"}}

// TestReleaseIsReproducible checks that two releases of one commit, built in different folders, have the same files byte
// for byte, and that the installed program prints its version.
func TestReleaseIsReproducible(t *testing.T) {
	checkout, first, second := checkoutOfHead(t), filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "again")
	if err := run(t.Context(), checkout, first, tested); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), checkoutOfHead(t), second, tested); err != nil {
		t.Fatal(err)
	}
	one, two := files(t, first), files(t, second)
	if len(one) != len(tested)*3+1 || !slices.Equal(slices.Sorted(maps.Keys(one)), slices.Sorted(maps.Keys(two))) {
		t.Fatalf("%d files, then %d, want %d", len(one), len(two), len(tested)*3+1)
	}
	for name, data := range one {
		if !bytes.Equal(data, two[name]) {
			t.Errorf("%s differs in the second release", name)
		}
	}
	version, err := newest(filepath.Join(checkout, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("checksums", func(t *testing.T) {
		if _, err := exec.LookPath("sha256sum"); err != nil {
			t.Skip("needs sha256sum")
		}
		said, err := output(t.Context(), first, nil, "sha256sum", "-c", "dragoman_"+version+"_checksums.txt")
		if err != nil || strings.Count(said, ": OK") != 2*len(tested) {
			t.Errorf("%v\n%s", err, said)
		}
	})
	t.Run("version", func(t *testing.T) {
		here := platform{runtime.GOOS, runtime.GOARCH}
		if !slices.Contains(tested, here) {
			t.Skip("is not built for this system")
		}
		said, err := output(t.Context(), first, nil, filepath.Join(first, here.String(), here.program()), "version")
		if err != nil || !strings.HasPrefix(said, "dragoman v"+version+", "+runtime.Version()+"\n") {
			t.Errorf("%v %q", err, said)
		}
	})
	t.Run("archive", func(t *testing.T) { archiveHasAll(t, one["dragoman_"+version+"_linux_amd64.tar.gz"]) })
	t.Run("bill", func(t *testing.T) { billNamesModules(t, one["dragoman_"+version+"_linux_amd64.cdx.json"]) })
	t.Run("image", func(t *testing.T) { static(t, one[filepath.Join("linux_amd64", "dragoman")]) })
}

func archiveHasAll(t *testing.T, archive []byte) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(text)
		if executable := h.Mode&0o111 != 0; executable != (h.Name == "dragoman") {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}
	want := []string{"CHANGELOG.md", "LICENSE", "README.md", "THIRD_PARTY_LICENSES", "dragoman"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
	for _, module := range []string{"Go: LICENSE", "github.com/valyala/fasthttp@", "gopkg.in/yaml.v3@"} {
		if !strings.Contains(got["THIRD_PARTY_LICENSES"], "\n== "+module) && !strings.HasPrefix(got["THIRD_PARTY_LICENSES"], "== "+module) {
			t.Errorf("no license of %s", module)
		}
	}
}

func billNamesModules(t *testing.T, text []byte) {
	var bom cyclonedx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if got := bom.Metadata.Component.PackageURL; !strings.HasPrefix(got, "pkg:golang/"+product+"@v") {
		t.Errorf("it is about %q", got)
	}
	named := map[string]bool{}
	for _, c := range *bom.Components {
		named[c.Name] = true
	}
	for name, want := range map[string]bool{"std": true, "github.com/valyala/fasthttp": true, "github.com/modelcontextprotocol/go-sdk": true, "pgregory.net/rapid": false} {
		if named[name] != want {
			t.Errorf("%s is in it: %v, want %v", name, !want, want)
		}
	}
}

// static checks that a program needs no other files: it also runs where there are none, as in an image.
func static(t *testing.T, program []byte) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: %v", p.Type)
		}
	}
}

// TestChangesAreRefused checks that a checkout with changes is refused, because a release is built from the last commit.
func TestChangesAreRefused(t *testing.T) {
	checkout := checkoutOfHead(t)
	if err := os.WriteFile(filepath.Join(checkout, "new.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), checkout, filepath.Join(t.TempDir(), "dist"), tested)
	if err == nil || !strings.Contains(err.Error(), "new.go") {
		t.Errorf("error %v, want one that names new.go", err)
	}
}

func TestNewestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"# Changelog\n\n## Unreleased\n\n## 1.2.3 — 2026-11-24\n\n## 1.2.2\n": "1.2.3",
		"# Changelog\n\n## Unreleased\n":                                      "",
	} {
		file := filepath.Join(t.TempDir(), "CHANGELOG.md")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := newest(file)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q, %v of %q", got, err, text)
		}
	}
}
