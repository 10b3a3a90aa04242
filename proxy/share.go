package proxy

// share is how much each principal has of something that all have together, and of
// which there is only so much. Nobody may have more of it than what is left for all the
// others, so that whoever comes finds room while few of them want all they can get: the
// dynamic thresholds of Choudhury and Hahne, "Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches" (1998). The zero value is ready for use. It is for
// whoever holds the lock of what is shared.
type share struct {
	of    map[string]int // by principal
	at    map[string]int // by address
	taken int
}

// holder is whose share something is: a principal's, and where the word of that is all
// that is known of it, so that a client could have as many as it likes, that of the address
// that it comes from, too.
type holder struct {
	principal string
	address   string // "" where the principal is good enough
}

// party is the address alone where the principal may be one of many of the same client.
func (h holder) party() holder {
	if h.address != "" {
		h.principal = ""
	}
	return h
}

// room reports whether who may take one where there are max.
func (s *share) room(who holder, max int) bool {
	left := max - s.taken
	return left > 0 && s.of[who.principal] <= left && (who.address == "" || s.at[who.address] <= left)
}

// take takes one for who where there are max; false when it has enough of them.
func (s *share) take(who holder, max int) bool {
	if !s.room(who, max) {
		return false
	}
	if s.of == nil {
		s.of, s.at = make(map[string]int), make(map[string]int)
	}
	s.of[who.principal]++
	if who.address != "" {
		s.at[who.address]++
	}
	s.taken++
	return true
}

// give gives one back.
func (s *share) give(who holder) {
	s.taken--
	less(s.of, who.principal)
	if who.address != "" {
		less(s.at, who.address)
	}
}

func less[K comparable](of map[K]int, who K) {
	if of[who]--; of[who] <= 0 {
		delete(of, who)
	}
}
