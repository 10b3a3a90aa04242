package ended

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// Store is what [Shared] needs of the [store.Store] that all replicas use. Every call has its own time limit.
type Store interface {
	Get(ctx context.Context, key store.Key) ([]byte, error)
	Set(ctx context.Context, key store.Key, value []byte, ttl time.Duration) error
	Delete(ctx context.Context, key store.Key) error
	Join(ctx context.Context, set store.Key, name []byte, ttl time.Duration) error
	Leave(ctx context.Context, set store.Key, name []byte) error
	Members(ctx context.Context, set store.Key, each func(store.Member) bool) error
	Publish(ctx context.Context, name string, message []byte) error
	Subscribe(name string, message func([]byte), missed func()) (stop func())
}

// Bounds of what the store holds: maxPages pages of at most pageBytes. Beyond it, the oldest pages are replaced by the
// floors of their processes: sessions may then end early, but none comes back.
const (
	pageBytes = 16 << 10
	maxPages  = 1024
	maxFloors = 2 << 10 // of the pages that are replaced at one time
)

// channel is where new marks are published.
const channel = "ended"

// listed is the set of the ids of all pages.
var listed = store.Key{Kind: "ended_pages"}

func keyOf(id string) store.Key { return store.Key{Kind: "ended", Name: id} }

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
	reloadTime = time.Minute // how often the set of pages is read, in case the store has lost something
	clockSkew  = time.Minute // how far the clocks of two replicas may be apart
	checked    = 8           // own pages of which the text is looked for, each time
)

// Shared shares the marks of a Set with other replicas: it keeps all of them in pages in the store, which a replica reads
// when it starts and after it may have missed messages, and publishes each new mark. Each replica writes pages of its own,
// so that writing needs no agreement. What cannot be written is tried again until the ids have expired. [Set.Has] never
// waits for the store.
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
	pages []*page // of this replica, oldest first; marks are added to the last

	// Only Run uses what follows.
	known  map[string]bool // pages that were read; the value says that nothing is added to the page
	turn   int             // the own page that was checked last
	failed bool
}

// page is a page of this replica. It counts its marks.
type page struct {
	id     string
	marks  writer
	opened time.Time
	until  time.Time // the last mark is not needed after that
	count  int
	stored int  // marks that the store has
	told   int  // marks that were published
	early  bool // some of them before they were stored: a replica that has begun to listen since then has missed them
	listed bool
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
		if n >= maxPages { // the store has been away for long: the oldest are given up
			s.pages = slices.Delete(s.pages, 0, 1)
		}
		p = &page{id: rand.Text(), opened: time.Now()}
		s.pages = append(s.pages, p)
	}
	p.marks.append(m)
	p.count++
	if until := m.made.Add(s.maxAge() + clockSkew); until.After(p.until) {
		p.until = until
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run shares marks until ctx ends. Before it returns, it tries once more to write what is not written yet, within final.
func (s *Shared) Run(ctx context.Context, final time.Duration) {
	stop := sync.OnceFunc(s.store.Subscribe(channel, s.receive, func() { signal(s.reload) }))
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
	case err != nil && store.IsDown(err): // which has a line of its own
		s.log.Debug("deleted sessions are not shared with the other replicas until the store answers")
	case err != nil:
		s.log.Warn("deleted sessions are not shared with the other replicas now: tried again until their ids expire", zap.Error(err), zap.String("advice", store.Advice(err)))
	default:
		s.log.Info("deleted sessions are shared with the other replicas again")
	}
	s.failed = err != nil
}

// flush writes the pages that have changed, and then publishes their new marks: a replica that has begun to listen too
// late for these finds them in the pages. A store that is full still passes messages on.
func (s *Shared) flush(ctx context.Context) error {
	grown, err := s.writeAll(ctx)
	if err == nil && grown {
		err = s.trim(ctx)
	}
	return errors.Join(err, s.publish(ctx, err != nil))
}

// writeAll reports whether it has listed a page.
func (s *Shared) writeAll(ctx context.Context) (grown bool, err error) {
	for {
		p, as := s.dirty()
		if p == nil {
			return grown, nil
		}
		if err := s.store.Set(ctx, keyOf(p.id), as.marks.text, within(as.until)); err != nil {
			return grown, fmt.Errorf("store deleted sessions: %w", err)
		}
		if !as.listed {
			until := p.opened.Add(2*s.maxAge() + 2*clockSkew) // marks are added for max_age
			if err := s.store.Join(ctx, listed, []byte(p.id), within(until)); err != nil {
				return grown, fmt.Errorf("list deleted sessions: %w", err)
			}
			grown = true
		}
		s.mu.Lock()
		if p.early {
			p.told, p.early = 0, false
		}
		p.stored, p.listed = as.count, true
		s.mu.Unlock()
	}
}

func within(until time.Time) time.Duration {
	return min(max(time.Until(until), time.Second), store.MaxTTL)
}

// dirty returns a page that the store does not have as it is now, and how it is now; nil if there is none.
func (s *Shared) dirty() (p *page, as page) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = slices.DeleteFunc(s.pages, func(p *page) bool { return now.After(p.until) })
	for _, p := range s.pages {
		if p.stored < p.count || !p.listed {
			as = *p
			as.marks.text = bytes.Clone(p.marks.text)
			return p, as
		}
	}
	return nil, as
}

// publish publishes the new marks of what is stored; with early, those of what is not stored too.
func (s *Shared) publish(ctx context.Context, early bool) error {
	for {
		p, count, news := s.untold(early)
		if p == nil {
			return nil
		}
		if err := s.store.Publish(ctx, channel, news); err != nil {
			return fmt.Errorf("publish deleted sessions: %w", err)
		}
		s.mu.Lock()
		p.told, p.early = count, p.early || count > p.stored
		s.mu.Unlock()
	}
}

// untold returns a page with new marks, how many marks it has with these, and the new marks as a text; nil if there is none.
func (s *Shared) untold(early bool) (*page, int, []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pages {
		until := p.stored
		if early {
			until = p.count
		}
		if p.told >= until {
			continue
		}
		n, w := 0, writer{}
		_ = readMarks(p.marks.text, func(m mark) {
			if p.told <= n && n < until {
				w.append(m)
			}
			n++
		})
		return p, until, w.text
	}
	return nil, 0, nil
}

// list returns the ids of all pages, the newest first.
func (s *Shared) list(ctx context.Context) (ids []string, err error) {
	seen := map[string]bool{}
	err = s.store.Members(ctx, listed, func(m store.Member) bool {
		if id := string(m.Name); !seen[id] {
			seen[id], ids = true, append(ids, id)
		}
		return true
	})
	return ids, err
}

// read returns the text of a page; nil if there is none.
func (s *Shared) read(ctx context.Context, id string) ([]byte, error) {
	text, err := s.store.Get(ctx, keyOf(id))
	if errors.Is(err, store.ErrAbsent) {
		return nil, nil
	}
	return text, err
}

// trim replaces the oldest of more than maxPages pages by the floors of their processes.
func (s *Shared) trim(ctx context.Context) error {
	ids, err := s.list(ctx)
	if err != nil || len(ids) <= maxPages {
		return err
	}
	ids = ids[maxPages:]
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
	for _, id := range ids {
		text, err := s.read(ctx, id)
		if err != nil {
			return err
		}
		_ = readMarks(text, raise)
	}
	s.mu.Lock()
	s.pages = slices.DeleteFunc(s.pages, func(p *page) bool {
		if !slices.Contains(ids, p.id) {
			return false
		}
		_ = readMarks(p.marks.text, raise) // it may have marks that are not stored
		return true
	})
	then := time.Now().Add(-s.maxAge() - clockSkew)
	needed := slices.DeleteFunc(slices.Collect(maps.Values(floors)), func(m mark) bool { return !m.made.After(then) })
	slices.SortFunc(needed, func(a, b mark) int { return b.made.Compare(a.made) })
	for _, m := range needed[:min(len(needed), maxFloors)] {
		s.set.add(m)
		s.note(m)
	}
	s.mu.Unlock()
	if _, err := s.writeAll(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		if err := errors.Join(s.store.Leave(ctx, listed, []byte(id)), s.store.Delete(ctx, keyOf(id))); err != nil {
			return err
		}
	}
	return nil
}

// load reads the pages that were not read yet and, if messages were missed, those to which marks are added. If the list of
// pages is empty, all marks that this replica knows are written again; if it lacks pages of this replica or their texts, these
// are. load does not notice that the store has lost the text of a page whose owner is gone: the replicas that have read it keep its
// marks, but one that starts later does not get them.
func (s *Shared) load(ctx context.Context, missed bool) error {
	ids, err := s.list(ctx)
	if err != nil {
		return fmt.Errorf("read deleted sessions: %w", err)
	}
	if len(ids) == 0 {
		s.rebuild()
		return nil
	}
	s.mu.Lock()
	own := map[string]bool{}
	for _, p := range s.pages {
		own[p.id] = true
		if p.listed && !slices.Contains(ids, p.id) {
			p.listed = false
		}
	}
	s.mu.Unlock()
	if err := s.check(ctx, missed); err != nil {
		return fmt.Errorf("read deleted sessions: %w", err)
	}
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		if own[id] {
			continue
		}
		if full, read := s.known[id]; read && (full || !missed) {
			known[id] = full
			continue
		}
		text, err := s.read(ctx, id)
		if err != nil {
			return fmt.Errorf("read deleted sessions: %w", err)
		}
		if err := readMarks(text, s.set.add); err != nil {
			s.log.Warn("a page of deleted sessions in the store is damaged", zap.Error(err))
		}
		if text != nil {
			known[id] = len(text) >= pageBytes
		}
	}
	s.known = known
	s.change()
	return nil
}

// check notes which of this replica's own pages have lost their texts, so that these are written again: of all, or of some in turn.
func (s *Shared) check(ctx context.Context, all bool) error {
	now := time.Now()
	s.mu.Lock()
	own := slices.Clone(s.pages)
	s.mu.Unlock()
	for n := range len(own) {
		if n >= checked && !all {
			break
		}
		s.turn++
		p := own[s.turn%len(own)]
		s.mu.Lock()
		there := p.stored > 0 && now.Before(p.until)
		s.mu.Unlock()
		if !there {
			continue
		}
		text, err := s.read(ctx, p.id)
		if err != nil {
			return err
		}
		if text == nil {
			s.mu.Lock()
			p.stored = 0
			s.mu.Unlock()
		}
	}
	return nil
}

// rebuild makes the pages of this replica of all marks that it knows, those of other replicas included: the store has
// lost everything, and some of these replicas may be gone.
func (s *Shared) rebuild() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []mark
	s.set.each(func(m mark) { all = append(all, m) })
	told := !slices.ContainsFunc(s.pages, func(p *page) bool { return p.told < p.count || p.early })
	s.known, s.pages = nil, nil
	for _, m := range all {
		s.note(m)
	}
	for _, p := range s.pages {
		if told {
			p.told = p.count
		}
	}
}
