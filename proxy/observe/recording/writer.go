package recording

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/redact"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// MaxWaiting is how many bytes wait for the file at most; events beyond are dropped.
	MaxWaiting = 8 << 20
	// DefaultMaxBytes is the size at which a file is put aside, unless Options says another.
	DefaultMaxBytes = 64 << 20
	// MaxPayload is the size of a message above which only its beginning is kept, Beginning bytes.
	MaxPayload = 1 << 20
	Beginning  = 64 << 10

	overhead = 512 // bytes of an event besides its message
	buffered = 64 << 10
	maxKept  = 1 << 20
	closeFor = 500 * time.Millisecond
)

// Options say where and how a Writer writes.
type Options struct {
	File          string
	MaxBytes      int // 0 stands for DefaultMaxBytes
	Version       string
	Configuration string // the digest of the configuration
	// Redact returns the Redactor in force.
	Redact func() *redact.Redactor
	// Failed is called once if the recording ends before Close, such as when the disk is full.
	Failed func(error)

	create   func(name string) (file, error) // of tests, as is closeFor
	closeFor time.Duration
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

// Event is one event before redaction.
type Event struct {
	// Line has what is known of the event but for the payload. Its texts are redacted.
	Line
	// Raw is the message, which belongs to the Writer from then on. If it is longer than MaxPayload, or Line.Size says that it
	// was longer before it was cut, only its beginning is written.
	Raw []byte
	// Header are the HTTP headers that came with the message, as name and value.
	Header [][2]string
}

// Writer writes a recording. Add never waits for the file. It is safe for concurrent use.
type Writer struct {
	o       Options
	seq     atomic.Uint64
	ended   atomic.Bool
	dropped atomic.Uint64
	wake    chan struct{} // has room for one
	stop    chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	queue   []Event
	waiting int    // bytes in queue and in the batch that is being written
	lost    uint64 // dropped since the last event that was queued
	closed  bool

	// Of the goroutine that writes:
	f       file
	size    int    // of the file
	head    int    // of its header
	pending []byte // whole lines that are not in the file yet
}

// Create creates the file of a recording, which must not exist, and starts to write. A file that becomes larger than MaxBytes
// is renamed to FILE.1, which replaces the one before; so there are two at most. FILE.1 must not exist at first, either.
func Create(o Options) (*Writer, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.create == nil {
		o.create = create
	}
	if o.closeFor == 0 {
		o.closeFor = closeFor
	}
	if _, err := os.Lstat(aside(o.File)); err == nil {
		return nil, &ExistsError{aside(o.File)}
	}
	w := &Writer{o: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if err := w.begin(); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// aside returns the name of the file before the current one.
func aside(name string) string { return name + ".1" }

// ExistsError says that a recording would replace a file.
type ExistsError struct{ File string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s exists: a recording replaces no file; move it away, or choose another name", e.File)
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
	w.f, w.size, w.pending = f, 0, nil
	head := Line{Kind: Header, TS: time.Now(), Format: Format, Version: w.o.Version, Configuration: w.o.Configuration}
	w.pending = head.Append(nil)
	if err := w.flush(); err != nil {
		return errors.Join(err, f.Close())
	}
	w.head = w.size
	return nil
}

// Add records an event. It drops the event if too much waits for the file, and if the recording has ended.
func (w *Writer) Add(e Event) {
	if w.ended.Load() {
		w.dropped.Add(1)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	size := cost(&e)
	switch {
	case w.closed:
		w.dropped.Add(1)
		return
	case w.waiting+size > MaxWaiting:
		w.dropped.Add(1)
		w.lost++
		return
	}
	e.Seq = w.seq.Add(1)
	w.takeGap()
	w.queue = append(w.queue, e)
	w.waiting += size
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// cost returns how many bytes an event counts for.
func cost(e *Event) int {
	return overhead + len(e.Raw) + len(e.Text) + len(e.Changes) + len(e.Notes)
}

// takeGap puts the line about what was dropped where it was dropped. mu must be held.
func (w *Writer) takeGap() {
	if w.lost == 0 {
		return
	}
	w.queue = append(w.queue, Event{Line: Line{Kind: Gap, TS: time.Now(), Dropped: w.lost}})
	w.waiting += overhead
	w.lost = 0
}

// Dropped returns how many events were dropped so far.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Ended reports whether the recording has ended before Close.
func (w *Writer) Ended() bool { return w.ended.Load() }

// Close writes what waits, for half a second at most, and closes the file. It must be called once.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.takeGap()
	w.closed = true
	w.mu.Unlock()
	close(w.stop)
	select {
	case <-w.done:
		return nil
	case <-time.After(w.o.closeFor):
		return fmt.Errorf("%s: the disk takes too long: the last events are not recorded", w.o.File)
	}
}

func (w *Writer) run() {
	defer close(w.done)
	defer func() {
		if w.f != nil {
			_ = w.f.Close() // what was flushed is written
		}
	}()
	for stopped := false; !stopped; {
		select {
		case <-w.wake:
		case <-w.stop:
			stopped = true
		}
		if err := w.batch(); err != nil {
			w.fail(err)
			<-w.stop
			return
		}
	}
}

// batch writes what is queued.
func (w *Writer) batch() error {
	w.mu.Lock()
	queue := w.queue
	w.queue = nil
	w.mu.Unlock()
	if len(queue) == 0 {
		return nil
	}
	r := w.o.Redact()
	for i := range queue {
		size := cost(&queue[i])
		err := w.put(queue[i].redacted(r))
		queue[i] = Event{}
		w.mu.Lock()
		w.waiting -= size
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return w.flush()
}

// fail ends the recording.
func (w *Writer) fail(err error) {
	w.ended.Store(true)
	w.mu.Lock()
	w.dropped.Add(uint64(len(w.queue)))
	w.queue, w.waiting = nil, 0
	w.mu.Unlock()
	if w.o.Failed != nil {
		w.o.Failed(fmt.Errorf("%s: %w", w.o.File, err))
	}
}

// put writes a line, into a new file if this one is full.
func (w *Writer) put(l *Line) error {
	before := len(w.pending)
	w.pending = l.Append(w.pending)
	if w.size+len(w.pending) > w.o.MaxBytes && w.size+before > w.head {
		line := bytes.Clone(w.pending[before:])
		w.pending = w.pending[:before]
		if err := w.rotate(); err != nil {
			return err
		}
		w.pending = append(w.pending, line...)
	}
	if len(w.pending) < buffered {
		return nil
	}
	return w.flush()
}

// rotate puts the file aside and begins a new one.
func (w *Writer) rotate() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.f.Close(); err != nil {
		return err
	}
	w.f = nil
	if err := os.Rename(w.o.File, aside(w.o.File)); err != nil {
		return err
	}
	return w.begin()
}

// flush writes the pending lines. If the disk takes only some, it removes the one that was cut.
func (w *Writer) flush() error {
	n, err := w.f.Write(w.pending)
	if err != nil {
		whole := bytes.LastIndexByte(w.pending[:n], '\n') + 1
		_ = w.f.Truncate(int64(w.size + whole)) // a reader skips a line that was cut
		return err
	}
	w.size += n
	if cap(w.pending) > maxKept {
		w.pending = nil
	}
	w.pending = w.pending[:0]
	return nil
}

// redacted returns the line of an event without secrets.
func (e *Event) redacted(r *redact.Redactor) (l *Line) {
	l = &e.Line
	defer func() {
		if recover() != nil { // the call goes on, and shows nothing of the message
			*l = Line{Kind: e.Kind, Seq: e.Seq, Call: e.Call, TS: e.TS, Text: "[not shown: reading it failed]"}
		}
	}()
	l.Text, l.Method, l.Tool, l.Client, l.Server = r.Text(e.Text), r.Text(e.Method), r.Text(e.Tool), r.Text(e.Client), r.Text(e.Server)
	for _, h := range e.Header {
		if value, ok := r.Header(h[0], h[1]); ok {
			if l.Headers == nil {
				l.Headers = map[string]string{}
			}
			l.Headers[h[0]] = value
		}
	}
	switch n := len(e.Raw); {
	case n == 0:
	case n > MaxPayload:
		sum := sha256.Sum256(e.Raw)
		l.Text, l.Size, l.SHA256 = r.Cut(string(e.Raw[:Beginning])), n, hex.EncodeToString(sum[:])
	case e.Size > n:
		l.Text = r.Cut(string(e.Raw))
	default:
		if l.Payload = r.Payload(e.Method, e.Tool, e.Raw); l.Payload[0] == '"' { // no JSON-RPC
			l.Text, l.Payload = string(wire.Unquoted(l.Payload)), nil
		}
	}
	for _, part := range []*json.RawMessage{&l.Changes, &l.Notes} {
		if len(*part) > 0 {
			*part = r.Payload("", "", *part)
		}
	}
	return l
}
