package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
)

// MaxLine is the greatest length of a line that a Reader reads, in bytes.
const MaxLine = 64 << 20

// ErrNoRecording says that a file is no recording.
var ErrNoRecording = errors.New("not a recording of dragoman: the first line is no header")

// LineError says which line of a recording cannot be read. The lines behind it can.
type LineError struct {
	Line int
	Why  string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// Reader reads a recording.
type Reader struct {
	in   *lines.Reader
	line int
	head Line
}

// NewReader reads the header of a recording. The error is ErrNoRecording, or says that the format is newer than this program.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: lines.NewReader(in, MaxLine)}
	l, err := r.Next()
	_, bad := errors.AsType[*LineError](err)
	switch {
	case errors.Is(err, io.EOF), bad, err == nil && l.Kind != Header:
		return nil, ErrNoRecording
	case err != nil:
		return nil, err
	case l.Format > Format:
		return nil, fmt.Errorf("the recording has format %d, and this dragoman reads up to %d: use dragoman %s", l.Format, Format, l.Version)
	}
	r.head = l
	return r, nil
}

// Header returns the first line.
func (r *Reader) Header() Line { return r.head }

// OpenFile opens a recording. If the file before it was put aside, that is read first.
func OpenFile(name string) (*Reader, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	files := files{f}
	var in io.Reader = f
	if before, err := os.Open(aside(name)); err == nil {
		files = append(files, before)
		in = io.MultiReader(before, strings.NewReader("\n"), f)
	}
	r, err := NewReader(in)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), files.Close())
	}
	return r, files, nil
}

type files []*os.File

func (f files) Close() error {
	var all error
	for _, one := range f {
		all = errors.Join(all, one.Close())
	}
	return all
}

// Next returns the next line. The error is io.EOF at the end, a *LineError for a line that is no line of a recording, such as
// one that was not written to its end, or that of the source.
func (r *Reader) Next() (Line, error) {
	raw, err := r.in.Next()
	r.line++
	_, long := errors.AsType[*lines.TooLongError](err)
	switch {
	case long:
		return Line{}, &LineError{r.line, err.Error()}
	case err != nil:
		return Line{}, err
	}
	l, ok := Parse(raw)
	if !ok {
		return l, &LineError{r.line, "not a line of a recording"}
	}
	return l, nil
}
