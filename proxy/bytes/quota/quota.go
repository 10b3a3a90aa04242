// Package quota shares out limited resources, such as sessions with a server and calls that wait for their client.
//
// A holder may not have more than what is left for all the others, so that a newcomer finds room as long as few
// holders want all that they can get. These are the dynamic thresholds of Choudhury and Hahne, "Dynamic Queue Length
// Thresholds for Shared-Memory Packet Switches" (1998).
package quota

import "math"

// Fair counts what each holder has. The zero value is ready for use. It is not safe for concurrent use: callers hold the
// lock of the shared resource.
type Fair struct {
	of    map[string]int // by principal
	at    map[string]int // by address
	taken int
}

// Holder identifies the client that a quota is counted for. Address is set if the client names its own principal, and
// so could use any number of principals: then the address is counted as well.
type Holder struct {
	Principal string
	Address   string // "" if the principal alone is counted
}

// Party returns h without its principal if the client may use several principals, otherwise h.
func (h Holder) Party() Holder {
	if h.Address != "" {
		h.Principal = ""
	}
	return h
}

// HasRoom reports whether a holder may have one more. max is how many all holders together may have.
func (s *Fair) HasRoom(who Holder, max int) bool {
	left := max - s.taken
	return left > 0 && s.of[who.Principal] <= left && (who.Address == "" || s.at[who.Address] <= left)
}

// Acquire counts one more for a holder. max is how many all holders together may have. It returns false, and counts
// nothing, if the holder has its share already.
func (s *Fair) Acquire(who Holder, max int) bool {
	if !s.HasRoom(who, max) {
		return false
	}
	if s.of == nil {
		s.of, s.at = make(map[string]int), make(map[string]int)
	}
	s.of[who.Principal]++
	if who.Address != "" {
		s.at[who.Address]++
	}
	s.taken++
	return true
}

// Admit counts one more for a holder as Acquire does, of something that one holder alone may use up: while fewer than max are taken,
// all get what they want. A quarter of max is there in addition, for holders that have little when others have all.
func (s *Fair) Admit(who Holder, max int) bool {
	if s.taken < max {
		max = math.MaxInt
	} else {
		max += max / 4
	}
	return s.Acquire(who, max)
}

// Release counts one less for a holder.
func (s *Fair) Release(who Holder) {
	s.taken--
	subtract(s.of, who.Principal)
	if who.Address != "" {
		subtract(s.at, who.Address)
	}
}

// Held returns how many all holders have together.
func (s *Fair) Held() int { return s.taken }

func subtract[K comparable](of map[K]int, who K) {
	if of[who]--; of[who] <= 0 {
		delete(of, who)
	}
}
