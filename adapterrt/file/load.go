package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Source is a file or a directory of adapters.
type Source struct {
	Path      string
	Recursive bool // include the directories in a directory
}

// maxFiles is the largest number of adapter files.
const maxFiles = 10_000

// NoFiles says why there are no adapters in a directory that can be read.
const NoFiles = "there are no adapter files, which are called NAME-adapter.md"

// Find returns the adapter files of sources: the files that sources name, and the files
// called *-adapter.md in the directories that they name, in the order of their names.
// It reports a problem for a source that cannot be read or is no adapter file.
func Find(sources []Source) ([]string, []Problem) {
	var f finder
	for _, s := range sources {
		st, err := os.Stat(s.Path)
		switch {
		case err != nil:
			f.bad(s.Path, ReadProblem(err))
		case !st.IsDir() && !isAdapterFile(s.Path):
			f.bad(s.Path, "adapter files are called NAME-adapter.md")
		case !st.IsDir():
			f.files = append(f.files, s.Path)
		default:
			f.walk(s.Path, s.Recursive, 0)
		}
	}
	return f.files, f.problems
}

// finder collects adapter files. It includes symbolic links, because the files of a Kubernetes
// ConfigMap are symbolic links.
type finder struct {
	files    []string
	problems []Problem
}

func (f *finder) bad(path, msg string) {
	f.problems = append(f.problems, Problem{Message: msg, Code: SchemaParseError, Severity: Error, File: path})
}

// maxFolders is the largest depth of directories, because links may form a circle.
const maxFolders = 20

func (f *finder) walk(dir string, recursive bool, depth int) {
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
			if recursive && depth < maxFolders && !strings.HasPrefix(e.Name(), ".") {
				f.walk(path, recursive, depth+1)
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
	return strings.HasSuffix(filepath.Base(path), "-adapter.md")
}

// ReadProblem returns a message that says why a file could not be read, without its path.
func ReadProblem(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return "file cannot be read: " + err.Error()
}

// MaxFile is the largest number of bytes of a file.
const MaxFile = 1 << 20

var errTooLarge = fmt.Errorf("file is larger than %d bytes: divide its operations among several files, as adapter import does with --split", MaxFile)

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
