package file

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Source is a file or a directory of adapters.
type Source struct {
	Path      string
	Recursive bool // a directory's own directories, too
}

// The most files that sources may name.
const maxFiles = 10_000

// Find lists the adapter files of sources: files as they are, of directories those
// called *-adapter.md, by name. The problems are of sources that are none.
func Find(sources []Source) (files []string, problems []Problem) {
	bad := func(path, msg string) {
		problems = append(problems, Problem{Message: msg, Code: SchemaParseError, Severity: Error, File: path})
	}
	for _, s := range sources {
		st, err := os.Stat(s.Path)
		switch {
		case err != nil:
			bad(s.Path, ReadProblem(err))
		case !st.IsDir() && !isAdapterFile(s.Path):
			bad(s.Path, "adapter files are called NAME-adapter.md")
		case !st.IsDir():
			files = append(files, s.Path)
		default:
			f := finder{recursive: s.Recursive, files: files, bad: bad}
			f.walk(s.Path, 0)
			files = f.files
		}
	}
	return files, problems
}

// finder collects the adapter files of a directory. It looks through symbolic
// links, which is how a ConfigMap shows its files.
type finder struct {
	recursive bool
	files     []string
	bad       func(path, msg string)
}

// The deepest directory that is looked into: links may go in circles.
const maxFolders = 20

func (f *finder) walk(dir string, depth int) {
	entries, err := os.ReadDir(dir) // by name
	if err != nil {
		f.bad(dir, ReadProblem(err))
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			// A ConfigMap's versions hide behind dots.
			if f.recursive && depth < maxFolders && !strings.HasPrefix(e.Name(), ".") {
				f.walk(path, depth+1)
			}
		case !isAdapterFile(path):
		case len(f.files) == maxFiles:
			f.bad(path, fmt.Sprintf("more than %d adapter files", maxFiles))
			return
		default:
			f.files = append(f.files, path)
		}
	}
}

func isAdapterFile(path string) bool {
	base := filepath.Base(path)
	return strings.HasSuffix(base, "-adapter.md")
}

// ReadProblem words why a file could not be read, without its path.
func ReadProblem(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return "file cannot be read: " + err.Error()
}

// ReadFile reads a file that is no larger than an adapter may be.
func ReadFile(path string) ([]byte, error) {
	f, st, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// With room to see the end without growing.
	b := bytes.NewBuffer(make([]byte, 0, min(st.Size(), MaxFile)+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, MaxFile+1))
	return b.Bytes(), err
}

// Open opens a regular file. Anything else is an error, and is not waited for, as opening
// a named pipe would.
func Open(path string) (*os.File, fs.FileInfo, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	return f, st, err
}

// Options are the operator's choices that count when a file is read.
type Options struct {
	Strict        bool                        // what is doubtful refuses the file
	InsecureHosts []string                    // host names that may be called over http
	Getenv        func(string) (string, bool) // to warn of credentials that are not set; nil for no such warning
}

// Parse checks and compiles one adapter file. file is its name, for the problems.
// The adapter is nil when one of them is an error.
func Parse(file string, data []byte, opt *Options) (a *Adapter, problems []Problem) {
	defer func() {
		if p := recover(); p != nil {
			a, problems = nil, []Problem{{Message: "file cannot be understood", Code: SchemaParseError, Severity: Error, File: file}}
		}
	}()
	c := &checker{file: file, opt: opt}
	front, body, err := splitFrontMatter(data)
	if err != nil {
		c.wrong(SchemaParseError, "", err.Error(), "", nil, 1)
		c.problems[0].Received = ""
		return nil, c.problems
	}
	root, err := parseYAML(front)
	if err != nil {
		p := c.add(Error, SchemaParseError, "", err.Error(), 0)
		var y *yamlError
		if errors.As(err, &y) {
			p.Line = y.line
		}
		return nil, c.problems
	}
	a = c.adapter(root)
	slices.SortStableFunc(c.problems, func(p, q Problem) int { return p.Line - q.Line })
	if HasError(c.problems) {
		return nil, c.problems
	}
	a.Documentation = string(body)
	a.Digest = sha256.Sum256(data)
	return a, c.problems
}
