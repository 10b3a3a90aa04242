package fit

// nodes holds the nodes of a plan by their numbers. Siblings lie side by side, and no node
// ever moves, so a pointer to one stays valid.
type nodes struct {
	pages [][]node // pageNodes numbers each; a page reaches to the end of the memory it is in
	next  uint32   // the number of the next node
}

const pageNodes = 512

// at returns the node with number n.
func (s *nodes) at(n uint32) *node { return &s.pages[n/pageNodes][n%pageNodes] }

// makeRoom makes room for the children of a node, which are at most count, to lie side by side.
func (s *nodes) makeRoom(up uint32, count int) {
	if room := len(s.pages) * pageNodes; int(s.next)+count > room {
		s.next = uint32(room)
		memory := make([]node, (count+pageNodes-1)/pageNodes*pageNodes)
		for ; len(memory) > 0; memory = memory[pageNodes:] {
			s.pages = append(s.pages, memory)
		}
	}
	s.at(up).first = s.next
}

// add adds a child to a node, for which makeRoom has made room.
func (s *nodes) add(up uint32, n node) {
	n.up = up
	*s.at(s.next) = n
	s.next++
	s.at(up).count++
}

// kids returns the children of a node.
func (s *nodes) kids(n uint32) []node {
	first, count := s.at(n).first, s.at(n).count
	if count == 0 {
		return nil
	}
	return s.pages[first/pageNodes][first%pageNodes:][:count]
}

// clearKept sets kept of all nodes to 0.
func (s *nodes) clearKept() {
	for _, page := range s.pages {
		for i := range page[:pageNodes] {
			page[i].kept = 0
		}
	}
}
