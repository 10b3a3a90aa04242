package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

const (
	product = "github.com/dragoman-proxy/dragoman"
	command = product + "/cmd/dragoman"
)

var platforms = []platform{
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// program returns the file name of the executable.
func (p platform) program() string {
	if p.os == "windows" {
		return "dragoman.exe"
	}
	return "dragoman"
}

// A built release. The caller removes the folder work, which has its programs.
type built struct {
	version  string
	time     time.Time // of the commit
	checkout string
	work     string // the folder
	modules  string // the module cache that the build used
	goroot   string
	programs map[platform]string
}

// build installs the last commit of a checkout as the given version of the module, for some platforms.
//
// The commit is served as a module by a module proxy of files, so that the build is the same as "go install" by a
// user. The dependencies come from this machine's module cache, and go.sum verifies them.
func build(ctx context.Context, checkout, version string, platforms []platform) (*built, error) {
	work, err := os.MkdirTemp("", "dragoman-release-")
	if err != nil {
		return nil, err
	}
	r := &built{version: version, work: work, modules: filepath.Join(work, "modules"), programs: map[platform]string{}}
	if err := r.install(ctx, checkout, platforms); err != nil {
		os.RemoveAll(work)
		return nil, err
	}
	return r, nil
}

func (r *built) install(ctx context.Context, checkout string, platforms []platform) error {
	var err error
	if r.checkout, err = filepath.Abs(checkout); err != nil {
		return err
	}
	committed, err := output(ctx, r.checkout, nil, "git", "log", "-1", "--format=%cI")
	if err != nil {
		return err
	}
	if r.time, err = time.Parse(time.RFC3339, committed); err != nil {
		return err
	}
	r.time = r.time.UTC()
	proxy := filepath.Join(r.work, "proxy")
	if err := r.serve(proxy); err != nil {
		return err
	}
	if _, err := output(ctx, r.checkout, nil, "go", "mod", "download"); err != nil { // checks go.sum
		return err
	}
	cache, err := output(ctx, r.checkout, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	if r.goroot, err = output(ctx, r.checkout, nil, "go", "env", "GOROOT"); err != nil {
		return err
	}
	for _, p := range platforms {
		env := []string{
			"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(cache) + "/cache/download",
			"GOSUMDB=off", // go.sum has the checksums already
			"GOPATH=" + r.work, "GOBIN=", "GOMODCACHE=" + r.modules, "GOFLAGS=-modcacherw",
			"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0",
		}
		if _, err := output(ctx, r.work, env, "go", "install", "-trimpath", "-ldflags=-s", command+"@v"+r.version); err != nil {
			return err
		}
		folder := filepath.Join(r.work, "bin")
		if p.os != runtime.GOOS || p.arch != runtime.GOARCH {
			folder = filepath.Join(folder, p.String())
		}
		r.programs[p] = filepath.Join(folder, p.program())
	}
	return nil
}

// serve writes the commit as the files that a module proxy has for a version.
//
// https://go.dev/ref/mod#goproxy-protocol
func (r *built) serve(proxy string) error {
	folder := filepath.Join(proxy, filepath.FromSlash(product), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	v := "v" + r.version
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{v, r.time})
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(r.checkout, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(v + "\n"), v + ".info": info, v + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(folder, v+".zip"))
	if err != nil {
		return err
	}
	if err := modzip.CreateFromVCS(f, module.Version{Path: product, Version: v}, r.checkout, "HEAD", ""); err != nil {
		f.Close()
		return fmt.Errorf("pack the module: %w", err)
	}
	return f.Close()
}

// dependencies returns the modules in a program, and its Go version, from the build information in the program.
func dependencies(program string) ([]module.Version, string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, "", err
	}
	var all []module.Version
	for _, d := range info.Deps {
		if d.Replace != nil {
			return nil, "", fmt.Errorf("%s is replaced, which \"go install\" refuses", d.Path)
		}
		all = append(all, module.Version{Path: d.Path, Version: d.Version})
	}
	return all, strings.TrimPrefix(info.GoVersion, "go"), nil
}
