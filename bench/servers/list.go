package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed servers.yaml
var servers []byte

// A list is the data file: the servers that are run, and those that are known not to run here.
type list struct {
	Servers []*server         `yaml:"servers"`
	LeftOut map[string]string `yaml:"left_out"` // why, by package
}

// A server is a published one, with how it is installed and started, and what may be called of it.
type server struct {
	Name    string            `yaml:"name"`
	NPM     string            `yaml:"npm"` // a package with its exact version, NAME@VERSION
	Go      string            `yaml:"go"`  // a command's package with its exact version, PATH@VERSION
	Run     []string          `yaml:"run"` // the command that serves on stdio; the first is a program of the package
	Env     map[string]string `yaml:"env"`
	HTTP    *endpoint         `yaml:"http"`
	SSE     *endpoint         `yaml:"sse"`
	Calls   []call            `yaml:"calls"`
	Slow    *call             `yaml:"slow"`    // a call that takes seconds, to cancel
	Differs []known           `yaml:"differs"` // what is known to differ through dragoman
}

// An endpoint is how a server is started that listens on {port}.
type endpoint struct {
	Run  []string          `yaml:"run"`
	Host string            `yaml:"host"` // 127.0.0.1 unless the server refuses it
	Path string            `yaml:"path"`
	Env  map[string]string `yaml:"env"`
}

// A known difference is one that the page names.
type known struct {
	At  pattern `yaml:"at"` // of transport, revision, place and kind of a difference, with spaces between
	Why string  `yaml:"why"`
}

type pattern struct{ *regexp.Regexp }

func (p *pattern) UnmarshalYAML(node *yaml.Node) (err error) {
	p.Regexp, err = regexp.Compile(node.Value)
	return err
}

func readList(text []byte) (*list, error) {
	var l list
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("servers.yaml: %w", err)
	}
	seen := map[string]bool{}
	for _, s := range l.Servers {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("servers.yaml: %s: %w", s.Name, err)
		}
		if seen[s.Name] {
			return nil, fmt.Errorf("servers.yaml: two servers are named %s", s.Name)
		}
		seen[s.Name] = true
	}
	return &l, nil
}

func (s *server) check() error {
	name, version := s.published()
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "/ "):
		return fmt.Errorf("a name is needed, without slashes and spaces")
	case (s.NPM != "") == (s.Go != ""):
		return fmt.Errorf("npm or go is needed")
	case name == "" || version == "" || version == "latest" || strings.ContainsAny(version, "^~*"):
		return fmt.Errorf("an exact version is needed: NAME@VERSION")
	case len(s.Run) == 0 && s.HTTP == nil && s.SSE == nil:
		return fmt.Errorf("run, http or sse is needed")
	}
	return nil
}

// published returns the package, whose name may begin with @, and its version.
func (s *server) published() (name, version string) {
	spec := s.NPM + s.Go
	if i := strings.LastIndexByte(spec, '@'); i > 0 {
		return spec[:i], spec[i+1:]
	}
	return spec, ""
}

// A cache is the folder in which each server has one of its own.
type cache string

func defaultCache() (cache, error) {
	dir, err := os.UserCacheDir()
	return cache(filepath.Join(dir, "dragoman-servers")), err
}

const installedMark = "installed"

func (c cache) folder(s *server) string {
	_, version := s.published()
	return filepath.Join(string(c), s.Name+"@"+version)
}

func (c cache) has(s *server) bool {
	_, err := os.Stat(filepath.Join(c.folder(s), installedMark))
	return err == nil
}

// command returns run with the path of the package's program.
func (c cache) command(s *server, run []string, f folder) ([]string, error) {
	all := make([]string, len(run))
	for i, arg := range run {
		all[i] = f.fill(arg)
	}
	if filepath.IsAbs(all[0]) {
		return all, nil
	}
	for _, dir := range []string{"node_modules/.bin", "bin"} {
		file := filepath.Join(c.folder(s), dir, all[0])
		if _, err := os.Stat(file); err == nil {
			all[0] = file
			return all, nil
		}
	}
	return nil, fmt.Errorf("its package has no program %s", all[0])
}
