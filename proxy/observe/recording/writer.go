package recording

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultMaxBytes is the size at which a file is put aside, unless Options says another.
const DefaultMaxBytes = 64 << 20

// maxKept is the size up to which the memory for a line is kept for the next one.
const maxKept = 1 << 20

// Options say where a recording is written.
type Options struct {
	File          string
	MaxBytes      int    // 0 stands for DefaultMaxBytes
	Version       string // of dragoman
	Configuration string // the digest of the configuration

	create func(name string) (file, error) // of tests
}

// file is what a Writer needs of a file.
type file interface {
	Write([]byte) (int, error)
	Truncate(size int64) error
	Close() error
}

// create creates a file that only its owner can read. It never opens one that exists.
func create(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Writer writes the lines of a recording. Only one goroutine at a time may use it. After an error it must only be closed.
type Writer struct {
	o    Options
	f    file // nil if there is none
	size int  // of the file
	head int  // of its header
	line []byte
}

// Create creates the file of a recording, which must not exist. A file that would become larger than MaxBytes is renamed to
// FILE.1, which replaces the one before; so there are two at most. FILE.1 must not exist at first, either.
func Create(o Options) (*Writer, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.create == nil {
		o.create = create
	}
	if _, err := os.Lstat(aside(o.File)); err == nil {
		return nil, &ExistsError{aside(o.File)}
	}
	w := &Writer{o: o}
	if err := w.begin(); err != nil {
		return nil, err
	}
	return w, nil
}

// MayCreate returns the error with which [Create] would refuse the file. It makes none.
func MayCreate(file string) error {
	for _, name := range [...]string{aside(file), file} {
		if _, err := os.Lstat(name); err == nil {
			return &ExistsError{name}
		}
	}
	folder, err := os.Stat(filepath.Dir(file))
	if err == nil && !folder.IsDir() {
		err = fmt.Errorf("%s is no folder", filepath.Dir(file))
	}
	return err
}

// Name returns the name of a file, with {time} replaced by the time.
func Name(file string) string {
	return strings.ReplaceAll(file, "{time}", time.Now().UTC().Format("20060102T150405.000Z"))
}

// aside returns the name of the file before the current one.
func aside(name string) string { return name + ".1" }

// ExistsError says that a recording would replace a file.
type ExistsError struct{ File string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s exists, and a recording replaces no file: move it away, or choose another name", e.File)
}

// begin creates the file and writes the header.
func (w *Writer) begin() error {
	f, err := w.o.create(w.o.File)
	switch {
	case errors.Is(err, os.ErrExist):
		return &ExistsError{w.o.File}
	case err != nil:
		return err
	}
	w.f, w.size = f, 0
	head := Line{Kind: Header, TS: time.Now(), Format: Format, Version: w.o.Version, Configuration: w.o.Configuration}
	if err := w.write(head.Append(nil)); err != nil {
		return errors.Join(err, w.Close())
	}
	w.head = w.size
	return nil
}

// Write writes a line, into a new file if this one is full.
func (w *Writer) Write(l *Line) error {
	w.line = l.Append(w.line[:0])
	if w.size+len(w.line) > w.o.MaxBytes && w.size > w.head {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	err := w.write(w.line)
	if cap(w.line) > maxKept {
		w.line = nil
	}
	return err
}

// write writes whole lines. If the disk takes only some of them, the file ends with a whole line.
func (w *Writer) write(text []byte) error {
	n, err := w.f.Write(text)
	if err != nil {
		whole := bytes.LastIndexByte(text[:n], '\n') + 1
		_ = w.f.Truncate(int64(w.size + whole)) // a reader skips a line that was cut
		return err
	}
	w.size += n
	return nil
}

// rotate puts the file aside and begins a new one.
func (w *Writer) rotate() error {
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.Rename(w.o.File, aside(w.o.File)); err != nil {
		return err
	}
	return w.begin()
}

// Close closes the file.
func (w *Writer) Close() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}
