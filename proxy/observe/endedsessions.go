package observe

import (
	"cmp"
	"slices"
	"time"
)

// maxEnded bounds the sessions that are remembered after their end.
const maxEnded = 100

// lives reports whether the session has not ended, as far as that is known.
func (s *sessionTally) lives() bool { return s.ended.IsZero() }

// heard notes that a session began or ended.
func (t sessionTallies) heard(told *Session) {
	s := t.of(&told.Peers, told.At)
	if !told.Ended {
		s.ended, s.why = time.Time{}, ""
		return
	}
	s.ended, s.why, s.open, s.asking = told.At, told.Why, 0, 0
	if !told.Made.IsZero() {
		s.since = told.Made
	}
	t.boundEnded()
}

// boundEnded forgets the session that ended first if there are too many that have ended.
func (t sessionTallies) boundEnded() {
	n, first, of := 0, "", (*sessionTally)(nil)
	for key, s := range t {
		if s.lives() {
			continue
		}
		n++
		if of == nil || s.ended.Before(of.ended) {
			first, of = key, s
		}
	}
	if n > maxEnded {
		delete(t, first)
	}
}

// Ended returns the sessions that have ended, the newest end first. A ring of a recording has them among all others.
func (r *Ring) Ended() []SessionRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []SessionRow{}
	for _, s := range r.sessions {
		if !s.lives() && !r.past && known(s.peers) {
			list = append(list, s.view(r.redact))
		}
	}
	slices.SortFunc(list, func(a, b SessionRow) int {
		return cmp.Or(cmp.Compare(b.Ended, a.Ended), cmp.Compare(a.Session, b.Session))
	})
	return list
}

// seconds is how times are written that need not be exact.
func seconds(t time.Time) string { return t.UTC().Format(time.RFC3339) }
