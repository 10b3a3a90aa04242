package ended

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Store is what [Shared] needs of the engine that all replicas use. Every call has its own time limit.
type Store interface {
	// Get returns the value of a key; nil if there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	Set(ctx context.Context, key string, value []byte, life time.Duration) error
	// CompareAndSet sets the value only if it is old; nil stands for no value. It reports whether it was.
	CompareAndSet(ctx context.Context, key string, old, value []byte, life time.Duration) (bool, error)
	Publish(ctx context.Context, topic string, message []byte) error
	// Subscribe calls receive with each message, until stop is called. It calls missed once the subscription stands, and
	// again after each time in which messages may have been missed.
	Subscribe(topic string, receive func(message []byte), missed func()) (stop func())
}

// Bounds of what the engine holds: pages of at most pageBytes, and an index of at most maxPages. Beyond it, the oldest
// page is replaced by the floors of its processes: sessions may then end early, but none comes back.
const (
	pageBytes = 16 << 10
	maxPages  = 1024
	maxFloors = 32 << 10 // bytes of floors in the index
	maxNews   = 1 << 14  // marks that wait to be published
	batch     = 1 << 10  // marks in a message
)

// Keys and the topic in the engine.
const (
	indexKey  = "ended"
	pageKey   = "ended/"
	endedNews = "ended"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	reloadTime = time.Minute // how often the index is read, in case the engine has lost something
	clockSkew  = time.Minute // how far the clocks of two replicas may be apart
	mostTries  = 16          // of one change of the index
	longest    = 400 * 24 * time.Hour
)

// Shared shares the marks of a Set with other replicas: it publishes each new mark, and keeps all of them in pages in
// the engine, which a replica reads when it starts and after it may have missed messages. Each replica writes pages of
// its own, so that writing needs no agreement; only a new page is added to the index in turns. What cannot be written
// is tried again until the ids have expired. [Set.Has] never waits for the engine.
type Shared struct {
	set    *Set
	store  Store
	maxAge func() time.Duration
	log    *zap.Logger
	retry  time.Duration // the first wait

	change func() // called after marks of other replicas were added

	wake   chan struct{}
	reload chan struct{}

	mu    sync.Mutex
	news  []mark
	lost  bool    // some news did not fit: the others have to read the pages
	pages []*page // of this replica, oldest first; marks are added to the last

	// Only Run uses what follows.
	known  map[uint64]bool // pages that were read, of the last index; the value says that nothing is added to the page
	failed bool
}

// page is a page of this replica.
type page struct {
	id     uint64
	marks  writer
	opened time.Time
	until  time.Time // the last mark is not needed after that
	stored int       // bytes of marks that the engine has
	listed bool      // in the index
	closed bool      // the index says that it is closed
}

// NewShared shares the marks of set. maxAge returns how long an id can be opened. Call Run.
func NewShared(set *Set, store Store, maxAge func() time.Duration, log *zap.Logger) *Shared {
	return &Shared{
		set: set, store: store, maxAge: maxAge, log: log, retry: firstRetry,
		change: func() {}, wake: make(chan struct{}, 1), reload: make(chan struct{}, 1),
	}
}

// OnChange makes Run call do after marks of other replicas were added. do must not wait. OnChange must be called before
// Run.
func (s *Shared) OnChange(do func()) { s.change = do }

// Add marks a session as over, here at once and elsewhere soon. made is the time at which the session began. It does not
// wait.
func (s *Shared) Add(of Serial, made time.Time) {
	m := mark{Serial: of, made: made}
	s.set.add(m)
	s.mu.Lock()
	if len(s.news) < maxNews {
		s.news = append(s.news, m)
	} else {
		s.lost = true
	}
	s.note(m)
	s.mu.Unlock()
	signal(s.wake)
}

// note adds a mark to the pages. s.mu must be held.
func (s *Shared) note(m mark) {
	var p *page
	if n := len(s.pages); n > 0 && len(s.pages[n-1].marks.text) < pageBytes && time.Since(s.pages[n-1].opened) < s.maxAge() {
		p = s.pages[n-1]
	} else {
		if n >= maxPages { // the engine has been away for long: the oldest are given up
			s.pages = slices.Delete(s.pages, 0, 1)
		}
		p = &page{id: newID(), opened: time.Now()}
		s.pages = append(s.pages, p)
	}
	p.marks.append(m)
	if until := m.made.Add(s.maxAge() + clockSkew); until.After(p.until) {
		p.until = until
	}
}

func newID() uint64 {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return binary.BigEndian.Uint64(id[:])
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run shares marks until ctx ends. Before it returns, it tries once more to write what is not written yet, within final.
func (s *Shared) Run(ctx context.Context, final time.Duration) {
	stop := sync.OnceFunc(s.store.Subscribe(endedNews, s.receive, func() { signal(s.reload) }))
	defer stop()
	timer := time.NewTimer(reloadTime)
	defer timer.Stop()
	wait := s.retry
	reload, missed := true, false
	for {
		var err error
		if reload {
			err = s.load(ctx, missed)
			reload, missed = err != nil, missed && err != nil
		}
		err = errors.Join(err, s.flush(ctx))
		s.report(ctx, err)
		next := reloadTime
		if err != nil {
			next = wait
			wait = min(2*wait, lastRetry)
		} else {
			wait = s.retry
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			stop()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), final)
			defer cancel()
			if err := s.flush(last); err != nil {
				s.log.Warn("cannot tell the other replicas of all deleted sessions: those that do not know of them serve them until their ids expire", zap.Error(err))
			}
			return
		case <-s.wake:
		case <-s.reload:
			reload, missed = true, true
		case <-timer.C:
			reload = reload || err == nil
		}
	}
}

func (s *Shared) receive(message []byte) {
	if len(message) == 0 {
		signal(s.reload)
		return
	}
	if err := readMarks(message, s.set.add); err != nil {
		s.log.Warn("cannot read which sessions another replica has deleted", zap.Error(err))
		signal(s.reload)
	}
	s.change()
}

// report logs the first failure, and its end.
func (s *Shared) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil || (err != nil) == s.failed:
		return
	case err != nil:
		s.log.Warn("deleted sessions are not shared with the other replicas now: tried again until their ids expire", zap.Error(err))
	default:
		s.log.Info("deleted sessions are shared with the other replicas again")
	}
	s.failed = err != nil
}

// flush writes the pages that have changed, and then publishes the news: a replica that has begun to listen too late for
// these finds the marks in the pages. An engine that is full still passes messages on; the others read the pages once they
// are written.
func (s *Shared) flush(ctx context.Context) error {
	written := s.writeAll(ctx)
	if written != nil {
		s.mu.Lock()
		s.lost = true
		s.mu.Unlock()
	}
	if err := errors.Join(written, s.publish(ctx)); err != nil {
		return err
	}
	return s.askToRead(ctx)
}

func (s *Shared) writeAll(ctx context.Context) error {
	for {
		p, text := s.dirty()
		if p == nil {
			return nil
		}
		if err := s.write(ctx, p, text); err != nil {
			return err
		}
	}
}

func (s *Shared) publish(ctx context.Context) error {
	for {
		s.mu.Lock()
		n := min(len(s.news), batch)
		w := writer{}
		for _, m := range s.news[:n] {
			w.append(m)
		}
		s.mu.Unlock()
		if n == 0 {
			return nil
		}
		if err := s.store.Publish(ctx, endedNews, w.text); err != nil {
			return fmt.Errorf("publish deleted sessions: %w", err)
		}
		s.mu.Lock()
		if s.news = s.news[n:]; len(s.news) == 0 {
			s.news = nil // release the memory
		}
		s.mu.Unlock()
	}
}

// askToRead makes the other replicas read the pages, if some news were not published. The pages must be written.
func (s *Shared) askToRead(ctx context.Context) error {
	s.mu.Lock()
	lost := s.lost
	s.lost = false
	s.mu.Unlock()
	if !lost {
		return nil
	}
	err := s.store.Publish(ctx, endedNews, nil)
	if err != nil {
		s.mu.Lock()
		s.lost = true
		s.mu.Unlock()
	}
	return err
}

// dirty returns a page that the engine does not have as it is now, with its text; nil if there is none.
func (s *Shared) dirty() (*page, []byte) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = slices.DeleteFunc(s.pages, func(p *page) bool { return now.After(p.until) })
	for _, p := range s.pages {
		if p.stored < len(p.marks.text) || !p.listed {
			return p, bytes.Clone(p.marks.text)
		}
	}
	return nil, nil
}

func (s *Shared) write(ctx context.Context, p *page, text []byte) error {
	s.mu.Lock()
	until := p.until
	s.mu.Unlock()
	if err := s.store.Set(ctx, keyOf(p.id), text, min(max(time.Until(until), time.Second), longest)); err != nil {
		return fmt.Errorf("store deleted sessions: %w", err)
	}
	if !p.listed { // only Run changes it
		if err := s.list(ctx, p); err != nil {
			return fmt.Errorf("list deleted sessions: %w", err)
		}
	}
	s.mu.Lock()
	p.stored, p.listed = len(text), true
	s.mu.Unlock()
	return nil
}

func keyOf(id uint64) string { return fmt.Sprintf("%s%016x", pageKey, id) }

// list adds p to the index, and closes the older pages of this replica there.
func (s *Shared) list(ctx context.Context, p *page) error {
	for try := 1; ; try++ {
		old, err := s.store.Get(ctx, indexKey)
		if err != nil {
			return err
		}
		x, err := readIndex(old)
		if err != nil {
			x = index{} // what cannot be read is replaced; each replica adds its pages again
		}
		now := time.Now()
		x.entries = slices.DeleteFunc(x.entries, func(e entry) bool { return now.After(e.until) || e.id == p.id })
		s.mu.Lock()
		for _, own := range s.pages {
			for i := range x.entries {
				if x.entries[i].id == own.id {
					x.entries[i].closed = true
				}
			}
		}
		x.entries = append(x.entries, entry{id: p.id, until: p.opened.Add(2*s.maxAge() + 2*clockSkew)}) // marks are added for max_age
		s.mu.Unlock()
		for len(x.entries) > maxPages {
			if err := s.fold(ctx, &x); err != nil {
				return err
			}
		}
		next, life := x.text(), min(2*s.maxAge()+time.Hour, longest)
		done, err := s.store.CompareAndSet(ctx, indexKey, old, next, life)
		if err != nil || done {
			return err
		}
		if try == mostTries { // a value that cannot be read is not replaced otherwise; the others list again what is lost
			return s.store.Set(ctx, indexKey, next, life)
		}
	}
}

// fold replaces the oldest page of x by the floors of its processes.
func (s *Shared) fold(ctx context.Context, x *index) error {
	oldest := x.entries[0]
	x.entries = x.entries[1:]
	text, err := s.store.Get(ctx, keyOf(oldest.id))
	if err != nil {
		return err
	}
	floors := map[uint64]mark{}
	raise := func(m mark) {
		if !m.below {
			m.Number++
		}
		m.below = true
		if was, ok := floors[m.Process]; !ok || was.Number < m.Number {
			floors[m.Process] = m
		}
	}
	_ = readMarks(x.floors, raise)
	_ = readMarks(text, raise)
	then := time.Now().Add(-s.maxAge() - clockSkew)
	var all []mark
	for _, m := range floors {
		if m.made.After(then) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return b.made.Compare(a.made) })
	w := writer{}
	for _, m := range all {
		if len(w.text) >= maxFloors {
			break
		}
		w.append(m)
		s.set.add(m)
	}
	x.floors = w.text
	return nil
}

// load reads the pages that were not read yet and, if messages were missed, those to which marks are added. If the engine has lost the index, or pages of this replica, they are
// written again.
func (s *Shared) load(ctx context.Context, missed bool) error {
	text, err := s.store.Get(ctx, indexKey)
	if err != nil {
		return fmt.Errorf("read deleted sessions: %w", err)
	}
	x, err := readIndex(text)
	if err != nil {
		s.log.Warn("the engine's index of deleted sessions is damaged: it is written again", zap.Error(err))
		x = index{}
	}
	if len(x.entries) == 0 {
		s.rebuild()
		return nil
	}
	_ = readMarks(x.floors, s.set.add)
	listed := make(map[uint64]bool, len(x.entries))
	s.mu.Lock()
	for _, e := range x.entries {
		listed[e.id] = true
	}
	own := map[uint64]bool{}
	for _, p := range s.pages {
		own[p.id] = true
		if p.listed && !listed[p.id] {
			p.listed, p.stored = false, 0
		}
	}
	s.mu.Unlock()
	known := make(map[uint64]bool, len(x.entries))
	for _, e := range x.entries {
		if own[e.id] {
			continue
		}
		if closed, read := s.known[e.id]; read && (closed || !missed) {
			known[e.id] = closed
			continue
		}
		text, err := s.store.Get(ctx, keyOf(e.id))
		if err != nil {
			return fmt.Errorf("read deleted sessions: %w", err)
		}
		if err := readMarks(text, s.set.add); err != nil {
			s.log.Warn("a page of deleted sessions in the engine is damaged", zap.Error(err))
		}
		if text != nil {
			known[e.id] = e.closed
		}
	}
	s.known = known
	s.change()
	return nil
}

// rebuild makes the pages of this replica of all marks that it knows, those of other replicas included: the engine has
// lost everything, and some of these replicas may be gone.
func (s *Shared) rebuild() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []mark
	s.set.each(func(m mark) { all = append(all, m) })
	s.known = nil
	s.pages = nil
	for _, m := range all {
		s.note(m)
	}
}
