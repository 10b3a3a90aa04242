package report

import "sync"

// repeats shortens a log in which the same line would occur many times: the first line of a kind is written at once, later ones are
// merged into one line for each kind and period. Make it with newRepeats.
type repeats[K comparable, V any] struct {
	max   int
	write func(kind K, line V, repeated int)
	merge func(sum *V, line V)

	mu    sync.Mutex
	kinds map[K]*sum[V]
}

type sum[V any] struct {
	of    V
	times int // number of merged lines
}

// newRepeats returns a set of at most max kinds. It calls write for the first line of a kind, with
// repeated 0, and for the merged ones at flush; write must not use the set. merge adds
// a line to the sum of those that came since the last flush, which at first is zero.
func newRepeats[K comparable, V any](max int, write func(kind K, line V, repeated int), merge func(sum *V, line V)) *repeats[K, V] {
	return &repeats[K, V]{max: max, write: write, merge: merge, kinds: make(map[K]*sum[V])}
}

// Add writes the line if it is the first of its kind, and merges it otherwise. If there are
// too many kinds, the set writes the merged lines and starts anew.
func (s *repeats[K, V]) Add(kind K, line V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.kinds[kind]
	if at == nil {
		if len(s.kinds) >= s.max {
			s.flush()
			clear(s.kinds)
		}
		s.kinds[kind] = new(sum[V])
		s.write(kind, line, 0)
		return
	}
	at.times++
	s.merge(&at.of, line)
}

// Flush writes one line for each kind that came again since the last flush, and forgets the
// kinds that did not.
func (s *repeats[K, V]) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
}

func (s *repeats[K, V]) flush() {
	for kind, at := range s.kinds {
		if at.times == 0 {
			delete(s.kinds, kind)
			continue
		}
		s.write(kind, at.of, at.times)
		*at = sum[V]{}
	}
}

// last is a merge function that keeps the last line.
func last[V any](sum *V, line V) { *sum = line }
