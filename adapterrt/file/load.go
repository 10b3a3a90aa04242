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
	Recursive bool // include the directories in a directory
}

// maxFiles is the largest number of adapter files.
const maxFiles = 10_000

// Find returns the adapter files of sources: the files that sources name, and the files
// called *-adapter.md in the directories that they name, in the order of their names.
// It reports a problem for a source that cannot be read or is no adapter file.
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

// finder collects the adapter files of a directory. It includes symbolic links, because the
// files of a Kubernetes ConfigMap are symbolic links.
type finder struct {
	recursive bool
	files     []string
	bad       func(path, msg string)
}

// maxFolders is the largest depth of directories, because links may form a circle.
const maxFolders = 20

func (f *finder) walk(dir string, depth int) {
	entries, err := os.ReadDir(dir) // in the order of the names
	if err != nil {
		f.bad(dir, ReadProblem(err))
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			// The directories with the versions of a ConfigMap begin with a dot.
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

// ReadProblem returns a message that says why a file could not be read, without its path.
func ReadProblem(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return "file cannot be read: " + err.Error()
}

var errTooLarge = fmt.Errorf("file is larger than %d bytes", MaxFile)

// ReadFile reads a regular file of at most MaxFile bytes.
func ReadFile(path string) ([]byte, error) {
	f, st, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The buffer has room to read to the end of the file without growing.
	b := bytes.NewBuffer(make([]byte, 0, min(st.Size(), MaxFile)+bytes.MinRead))
	if _, err = b.ReadFrom(io.LimitReader(f, MaxFile+1)); err == nil && b.Len() > MaxFile {
		err = errTooLarge
	}
	return b.Bytes(), err
}

// Open opens a regular file. It returns an error for anything else, because opening a named
// pipe, for example, would block.
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

// Options are the operator's choices for reading files.
type Options struct {
	Strict        bool                        // some warnings are errors, such as those for unknown fields
	InsecureHosts []string                    // host names that may be called over http
	Getenv        func(string) (string, bool) // reads base_url_env, and finds credentials that are not set; may be nil
}

// Parse checks and compiles one adapter file. file is the file name that the problems
// name. The adapter is nil if one of the problems is an error.
func Parse(file string, data []byte, opt *Options) (a *Adapter, problems []Problem) {
	defer func() {
		if p := recover(); p != nil {
			a, problems = nil, []Problem{{Message: "file cannot be parsed: internal error", Code: SchemaParseError, Severity: Error, File: file}}
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
