package secret

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// The most that is kept: the oldest secrets go first. Those in use are kept again with their next use.
const (
	mostKept      = 512
	mostKeptBytes = 512 << 10
)

// Kept are the secrets that a process has sent or read lately. The zero value has none. A nil *Kept keeps none. It is safe for
// concurrent use.
type Kept struct {
	// Most is how many are kept; 0 for the most that there can be. It is for secrets that change all the time: the first text behind
	// a change costs some microseconds for each that is kept.
	Most int

	mu   sync.Mutex
	size int
	now  atomic.Pointer[kept]
}

// kept is what is kept at one time. It does not change.
type kept struct {
	list []string // oldest first
	has  map[string]bool
	set  func() *Set
}

// Keep adds secrets. It costs a look-up for one that is kept.
func (k *Kept) Keep(secrets ...string) {
	if k == nil {
		return
	}
	for _, s := range secrets {
		if now := k.now.Load(); len(s) >= Shortest && len(s) <= longest && (now == nil || !now.has[s]) {
			k.add(strings.Clone(s))
		}
	}
}

func (k *Kept) add(s string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := &kept{has: map[string]bool{}}
	if was := k.now.Load(); was != nil {
		if was.has[s] {
			return
		}
		next.list = slices.Clone(was.list)
	}
	next.list = append(next.list, s)
	for k.size += len(s); len(next.list) > cmp.Or(k.Most, mostKept) || k.size > mostKeptBytes; next.list = next.list[1:] {
		k.size -= len(next.list[0])
	}
	for _, one := range next.list {
		next.has[one] = true
	}
	next.set = sync.OnceValue(func() *Set { return NewSet(next.list...) })
	k.now.Store(next)
}

// Set returns the secrets that are kept now. k may be nil.
func (k *Kept) Set() *Set {
	if k == nil {
		return nil
	}
	if now := k.now.Load(); now != nil {
		return now.set()
	}
	return nil
}

// Known are the secrets that a text must not show: those of a configuration, and those that were sent or read since, of dragoman and of
// its clients. The zero value has none.
type Known struct {
	Configured             *Set
	Sent, Clients, Cookies *Kept
}

// Sets returns the secrets of now, with more.
func (k Known) Sets(more ...*Set) []*Set {
	return append([]*Set{k.Configured, k.Sent.Set(), k.Clients.Set(), k.Cookies.Set()}, more...)
}

// Strike returns text without the secrets of now.
func (k Known) Strike(text string) string { return Strike(text, k.Sets()...) }

// Error returns err without secrets in its text. errors.Is and errors.As work as for err itself; it has no Unwrap, which would reveal the
// text.
func Error(err error, sets ...*Set) error {
	if err == nil {
		return nil
	}
	if was := err.Error(); Has(was, sets...) {
		return &struckError{err, Strike(was, sets...)}
	}
	return err
}

type struckError struct {
	err  error
	text string
}

func (e *struckError) Error() string        { return e.text }
func (e *struckError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *struckError) As(target any) bool   { return errors.As(e.err, target) }
