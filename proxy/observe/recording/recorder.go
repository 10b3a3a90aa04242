package recording

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// Recorder writes what is observed, without secrets.
type Recorder struct {
	name     string
	failed   func(error)
	attached chan struct{} // closed when detach is set
	detach   func()
	ended    atomic.Bool
	out      *Writer // used by the goroutine that reads what is observed; nil if the recording has ended
}

// closeFor is how long Close waits for the disk.
const closeFor = 500 * time.Millisecond

// Start creates a recording and records what o observes from now on. current returns the Redactor in force. failed is called
// once if the recording ends before Close, such as when the disk is full; nothing else ends then.
func Start(o *observe.Observer, options Options, current func() observe.Redactor, failed func(error)) (*Recorder, error) {
	w, err := Create(options)
	if err != nil {
		return nil, err
	}
	r := &Recorder{name: options.File, failed: failed, out: w, attached: make(chan struct{})}
	r.detach = o.Attach("record", NewEncoder(current, r.put))
	close(r.attached)
	return r, nil
}

// put writes a line, unless the recording has ended.
func (r *Recorder) put(l *Line) {
	if r.out == nil {
		return
	}
	err := r.out.Write(l)
	if err == nil {
		return
	}
	_ = r.out.Close() // the recording is over anyway
	r.out = nil
	r.ended.Store(true)
	go func() { // nothing more is read for it; Close waits until that is so
		<-r.attached
		r.detach()
	}()
	if r.failed != nil {
		r.failed(fmt.Errorf("%s: %w", r.name, err))
	}
}

// File returns the name of the file.
func (r *Recorder) File() string { return r.name }

// Ended reports whether the recording has ended before Close.
func (r *Recorder) Ended() bool { return r.ended.Load() }

// Close writes what waits, for half a second at most.
func (r *Recorder) Close() error { return r.close(closeFor) }

func (r *Recorder) close(within time.Duration) error {
	done := make(chan error, 1)
	go func() {
		r.detach()
		if r.out == nil {
			done <- nil
			return
		}
		done <- r.out.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		return fmt.Errorf("%s: the disk takes too long: the last events are not recorded", r.name)
	}
}
