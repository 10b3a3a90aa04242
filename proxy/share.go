package proxy

// share is how much each principal has of something that all have together, and of
// which there is only so much. Nobody may have more of it than what is left for all the
// others, so that whoever comes finds room while few of them want all they can get: the
// dynamic thresholds of Choudhury and Hahne, "Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches" (1998). The zero value is ready for use. It is for
// whoever holds the lock of what is shared.
type share struct {
	of    map[string]int
	taken int
}

// room reports whether who may take one where there are max.
func (s *share) room(who string, max int) bool {
	left := max - s.taken
	return left > 0 && s.of[who] <= left
}

// take takes one for who where there are max; false when it has enough of them.
func (s *share) take(who string, max int) bool {
	if !s.room(who, max) {
		return false
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.of[who]++
	s.taken++
	return true
}

// give gives one back.
func (s *share) give(who string) {
	s.taken--
	if s.of[who]--; s.of[who] <= 0 {
		delete(s.of, who)
	}
}
