package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// here is the folder of the patches.
const here = "bench/simulate/mutants"

// patch is a fault that was mended, as a diff that brings it back.
type patch struct {
	name, path string
	file       string            // that it changes
	head       map[string]string // such as World: what has to happen so that the fault shows
	diff       string
}

// patches reads the patches in a folder, all of them or those with these names.
func patches(dir string, names []string) (all []*patch, err error) {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.patch"))
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		p, err := readPatch(name, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	if len(all) < len(names) || len(all) == 0 {
		return nil, fmt.Errorf("of %q, %d are patches in %s", names, len(all), dir)
	}
	return all, nil
}

func readPatch(name, path string) (*patch, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, diff, _ := strings.Cut(string(text), "\n\n")
	p := &patch{name: name, path: path, head: map[string]string{}, diff: diff}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		p.head[key] = value
	}
	_, p.file, _ = strings.Cut(diff, "--- a/")
	p.file, _, _ = strings.Cut(p.file, "\n")
	return p, nil
}

// apply returns the text of the file with the fault. Git makes it in a folder that holds this file alone.
func (p *patch) apply(root string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, p.file)
	text, err := os.ReadFile(filepath.Join(root, p.file))
	if err = errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o644)); err != nil {
		return nil, err
	}
	cmd := exec.Command("git", "apply", "-")
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)), strings.NewReader(p.diff)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git apply %s: %w: %s", p.path, err, tail(said))
	}
	return os.ReadFile(at)
}
