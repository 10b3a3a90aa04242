package observe

import (
	"cmp"
	"slices"
)

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
