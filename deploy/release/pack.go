package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"golang.org/x/mod/module"
)

// write replaces the folder out with the archives, the bills of materials, the checksums, and the programs for images.
func (r *built) write(out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, p := range slices.SortedFunc(maps.Keys(r.programs), func(a, b platform) int { return strings.Compare(a.String(), b.String()) }) {
		if err := r.writePlatform(out, p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return checksums(out, "dragoman_"+r.version+"_checksums.txt")
}

func (r *built) writePlatform(out string, p platform) error {
	program, err := os.ReadFile(r.programs[p])
	if err != nil {
		return err
	}
	folder := filepath.Join(out, p.String())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, p.program()), program, 0o755); err != nil {
		return err
	}
	modules, goVersion, err := dependencies(r.programs[p])
	if err != nil {
		return err
	}
	notices, err := r.notices(modules)
	if err != nil {
		return err
	}
	files := []file{{p.program(), 0o755, program}, {"THIRD_PARTY_LICENSES", 0o644, notices}}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.checkout, name))
		if err != nil {
			return err
		}
		files = append(files, file{name, 0o644, text})
	}
	pack, extension := tarball, ".tar.gz"
	if p.os == "windows" {
		pack, extension = zipped, ".zip"
	}
	archive, err := pack(files, r.time)
	if err != nil {
		return err
	}
	base := filepath.Join(out, "dragoman_"+r.version+"_"+p.String())
	if err := os.WriteFile(base+extension, archive, 0o644); err != nil {
		return err
	}
	bill, err := r.bill(program, modules, goVersion)
	if err != nil {
		return err
	}
	return os.WriteFile(base+".cdx.json", bill, 0o644)
}

// A file of an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

func tarball(files []file, t time.Time) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: t, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err = z.Close() // writes the end of the archive
	return out.Bytes(), err
}

func zipped(files []file, t time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: t}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := z.Close() // writes the directory
	return out.Bytes(), err
}

// licenses matches the names of license files in modules.
var licenses = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// notices returns the license texts of Go and of all modules in a program, which copies of the program must include.
func (r *built) notices(modules []module.Version) ([]byte, error) {
	var out bytes.Buffer
	add := func(name, dir string) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenses.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, "== %s: %s\n\n%s\n\n", name, e.Name(), bytes.TrimSpace(text))
			found = true
		}
		if !found {
			return fmt.Errorf("%s has no license in %s", name, dir)
		}
		return nil
	}
	if err := add("Go", r.goroot); err != nil {
		return nil, err
	}
	for _, m := range modules {
		path, err := module.EscapePath(m.Path)
		if err != nil {
			return nil, err
		}
		if err := add(m.String(), filepath.Join(r.modules, filepath.FromSlash(path)+"@"+m.Version)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// bill returns the bill of materials of a program, in CycloneDX 1.6. It has no random serial number, which the
// specification recommends, so that it is the same in each build.
func (r *built) bill(program []byte, modules []module.Version, goVersion string) ([]byte, error) {
	component := func(t cyclonedx.ComponentType, m module.Version) cyclonedx.Component {
		url := "pkg:golang/" + m.Path + "@" + m.Version
		return cyclonedx.Component{BOMRef: url, Type: t, Name: m.Path, Version: m.Version, PackageURL: url}
	}
	main := component(cyclonedx.ComponentTypeApplication, module.Version{Path: product, Version: "v" + r.version})
	main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(program))}}
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, module.Version{Path: "std", Version: "go" + goVersion})}
	for _, m := range modules {
		parts = append(parts, component(cyclonedx.ComponentTypeLibrary, m))
	}
	var refs []string
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}

// checksums writes a file with the checksums of all files in the folder, for sha256sum -c.
func checksums(folder, name string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(folder, name), out.Bytes(), 0o644)
}
