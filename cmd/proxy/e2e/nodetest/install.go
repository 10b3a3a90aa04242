// Package nodetest runs the published clients and servers of ../peers, for the end-to-end tests and for bench/servers: it installs
// the packages that they are made of, and runs programs with them in Node.js.
package nodetest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Lock is a folder with package.json and package-lock.json. What they name is installed in the user's cache folder, once for
// each content of these files.
type Lock struct {
	files map[string][]byte
	dir   string // in the cache folder
}

// ReadLock reads the files of a folder.
func ReadLock(folder string) (*Lock, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	l := &Lock{files: map[string][]byte{}}
	sum := sha256.New()
	for _, name := range []string{".npmrc", "package-lock.json", "package.json"} {
		if l.files[name], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			return nil, err
		}
		sum.Write(l.files[name])
	}
	l.dir = filepath.Join(cache, "dragoman", "e2e", fmt.Sprintf("%x", sum.Sum(nil)[:8]))
	return l, nil
}

// Modules is the folder of the installed packages.
func (l *Lock) Modules() string { return filepath.Join(l.dir, "node_modules") }

// Installed reports whether the packages are installed.
func (l *Lock) Installed() bool {
	_, err := os.Stat(l.Modules())
	return err == nil
}

// Install installs the packages unless they are.
func (l *Lock) Install(ctx context.Context) error {
	if l.Installed() {
		return nil
	}
	base := filepath.Dir(l.dir)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	// Installed in a temporary folder that is then renamed, so that an incomplete folder is never used, and two tests may
	// run at once.
	fresh, err := os.MkdirTemp(base, "installing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	for name, content := range l.files {
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o644); err != nil {
			return err
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts")
	npm.Dir = fresh
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(fresh, l.dir); err != nil && !l.Installed() {
		return err
	}
	return nil
}

// Versions returns the versions that package.json gives to these dependencies. One that is named otherwise than its package is
// "npm:PACKAGE@VERSION" there.
func (l *Lock) Versions(names ...string) ([]string, error) {
	var all struct{ Dependencies map[string]string }
	if err := json.Unmarshal(l.files["package.json"], &all); err != nil {
		return nil, err
	}
	versions := make([]string, len(names))
	for i, name := range names {
		spec := all.Dependencies[name]
		if spec == "" {
			return nil, fmt.Errorf("package.json does not name %s", name)
		}
		versions[i] = spec[strings.LastIndexByte(spec, '@')+1:]
	}
	return versions, nil
}
