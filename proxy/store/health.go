package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// How often the engine is asked whether it is there again, and how many operations in a row must fail before it counts as down.
const (
	probeLeast = 50 * time.Millisecond
	probeMost  = time.Second
	failures   = 3
)

// health knows whether the engine is there, so that operations need not wait to find out.
type health struct {
	ping    func(ctx context.Context) error // asks the engine
	changed func(up bool, err error)        // is told; may be nil

	ctx    context.Context // ends with the Store
	stop   context.CancelFunc
	tasks  sync.WaitGroup
	down   atomic.Bool
	failed atomic.Int32 // operations in a row

	mu     sync.Mutex
	closed bool
}

func (h *health) begin(ping func(ctx context.Context) error, changed func(up bool, err error)) {
	h.ping, h.changed = ping, changed
	h.ctx, h.stop = context.WithCancel(context.Background())
}

func (h *health) end() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.tasks.Wait()
}

// spawn runs a task that ends with the Store. It reports whether it does.
func (h *health) spawn(task func(ctx context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.tasks.Go(func() { task(h.ctx) })
	return true
}

// saw notes how an operation ended.
func (h *health) saw(err error) {
	switch {
	case !errors.Is(err, ErrUnavailable):
		h.failed.Store(0)
		return
	case errors.Is(err, ErrRejected):
		return // it is there, and this is about one operation
	}
	if h.failed.Add(1) < failures || h.down.Swap(true) {
		return
	}
	h.tell(false, err)
	if !h.spawn(h.probe) {
		h.down.Store(false)
	}
}

// probe asks until the engine is there.
func (h *health) probe(ctx context.Context) {
	for pause := probeLeast; ; pause = min(2*pause, probeMost) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if err := h.ping(ctx); !errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
			h.tell(true, nil) // before an operation can fail and tell the next end
			h.failed.Store(0)
			h.down.Store(false)
			return
		}
	}
}

func (h *health) tell(up bool, err error) {
	if h.changed != nil {
		h.changed(up, err)
	}
}
