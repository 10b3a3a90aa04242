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
	name  string
	path  string
	file  string // that it changes
	world string // what has to happen so that the fault shows
	head  map[string]string
	hunks int
	lines int // that change
}

// patches reads the patches in a folder, all of them or those with these names.
func patches(dir string, names []string) (all []*patch, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
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
	p := &patch{name: name, path: path, head: map[string]string{}}
	head, diff, _ := strings.Cut(string(text), "\n\n")
	for line := range strings.Lines(head) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			return nil, fmt.Errorf("a line of the head is no `Name: value`: %q", line)
		}
		p.head[key] = value
	}
	p.world = p.head["World"]
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "--- a/"):
			if p.file != "" {
				return nil, errors.New("it changes more than one file")
			}
			p.file = strings.TrimSpace(strings.TrimPrefix(line, "--- a/"))
		case strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@"):
			p.hunks++
		case line[0] == '-', line[0] == '+':
			p.lines++
		}
	}
	if p.file == "" {
		return nil, errors.New("it changes no file")
	}
	return p, nil
}

// apply returns the text of the file with the fault. Git does that in a folder that holds this file alone.
func (p *patch) apply(root string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		return nil, err
	}
	at := filepath.Join(dir, p.file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, text, 0o644)); err != nil {
		return nil, err
	}
	cmd := exec.Command("git", "apply", p.path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("git apply %s: %w: %s", p.name, err, tail(said))
	}
	return os.ReadFile(at)
}
