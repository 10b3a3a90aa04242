// Package repeats keeps a log short that would say the same again and again: the first of a
// kind is written at once, and later ones are summed up, one line for each kind and period.
package repeats

import "sync"

// Set sums up what comes by its kind. Make it with [New].
type Set[K comparable, V any] struct {
	max   int
	write func(kind K, last V, repeated int)

	mu    sync.Mutex
	kinds map[K]*sum[V]
}

type sum[V any] struct {
	last  V
	times int // beyond the first one
}

// New returns a set of at most so many kinds. write is called for the first of a kind,
// with repeated 0, and by [Set.Flush]; it must not use the set.
func New[K comparable, V any](max int, write func(kind K, last V, repeated int)) *Set[K, V] {
	return &Set[K, V]{max: max, write: write, kinds: make(map[K]*sum[V])}
}

// Add writes v if it is the first of its kind. Otherwise it merges v into what is summed up
// of the kind.
func (s *Set[K, V]) Add(kind K, v V, merge func(sum *V, v V)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.kinds[kind]
	if is == nil {
		if len(s.kinds) >= s.max {
			s.flush()
			clear(s.kinds)
		}
		s.kinds[kind] = new(sum[V])
		s.write(kind, v, 0)
		return
	}
	if is.times++; is.times == 1 {
		is.last = v
		return
	}
	merge(&is.last, v)
}

// Flush writes one line for each kind that came again since the last time, and forgets the
// kinds that did not.
func (s *Set[K, V]) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}

func (s *Set[K, V]) flush() {
	for kind, is := range s.kinds {
		if is.times == 0 {
			delete(s.kinds, kind)
			continue
		}
		s.write(kind, is.last, is.times)
		*is = sum[V]{}
	}
}

// Last keeps the last of what is summed up.
func Last[V any](sum *V, v V) { *sum = v }
