package tokens

import "slices"

// A queue merges long runs. For each rank it has a list of the pairs that join
// into that rank. A run of one character repeated a million times is therefore
// a few long lists, and a change costs the same wherever in the text it is.
type queue struct {
	nodes []node
	first []int32  // by rank: the first node of the list, or nowhere
	ranks []uint32 // a heap of the ranks with a list
	turn  []int32  // the nodes of the list whose turn it is
}

// nowhere is the index of no node.
const nowhere = -1

// A node is a token. Its index is the offset of its first byte in the text.
type node struct {
	rank       uint32 // of the token
	pair       uint32 // rank of this token joined with the next, or none
	prev, next int32  // neighbours in the text
	up, down   int32  // neighbours in the list of pair
}

// merge leaves the tokens of text in q.nodes, linked by next from index 0 on.
// The next of the last token is len(text).
func (q *queue) merge(m *merges, text []byte) {
	if len(q.first) != m.size {
		q.first = make([]int32, m.size)
		for i := range q.first {
			q.first[i] = nowhere
		}
	}
	n := len(text)
	q.nodes = slices.Grow(q.nodes[:0], n)[:n]
	for i := n - 1; i >= 0; i-- { // backwards, so that lists run forwards
		q.nodes[i] = node{rank: m.single[text[i]], pair: none, prev: int32(i - 1), next: int32(i + 1)}
		if i+1 < n {
			q.enlist(int32(i), m.join(q.nodes[i].rank, q.nodes[i+1].rank))
		}
	}
	for len(q.ranks) > 0 {
		q.join(m, q.pop())
	}
}

// join joins the pairs in the list of this rank, from left to right where they
// overlap.
func (q *queue) join(m *merges, rank uint32) {
	q.turn = q.turn[:0]
	for i := q.first[rank]; i != nowhere; i = q.nodes[i].down {
		q.turn = append(q.turn, i)
	}
	q.first[rank] = nowhere
	if len(q.turn) == 0 {
		return
	}
	// In a row of equal tokens each pair overlaps the next: the leftmost comes first.
	first := &q.nodes[q.turn[0]]
	if first.rank == q.nodes[first.next].rank && !slices.IsSorted(q.turn) {
		slices.Sort(q.turn)
	}
	end := int32(len(q.nodes))
	for _, i := range q.turn {
		a := &q.nodes[i]
		if a.pair != rank {
			continue // its left token was joined into the previous pair
		}
		b := &q.nodes[a.next]
		if b.pair != none {
			if b.pair != rank {
				q.delist(b)
			}
			b.pair = none
		}
		a.rank, a.pair, a.next = rank, none, b.next
		if a.next < end {
			next := &q.nodes[a.next]
			next.prev = i
			q.enlist(i, m.join(rank, next.rank))
		}
		if a.prev != nowhere {
			p := &q.nodes[a.prev]
			if p.pair != none {
				q.delist(p)
			}
			q.enlist(a.prev, m.join(p.rank, rank))
		}
	}
}

// enlist puts node i into the list of the pair it now begins.
func (q *queue) enlist(i int32, pair uint32) {
	a := &q.nodes[i]
	a.pair = pair
	if pair == none {
		return
	}
	head := q.first[pair]
	a.up, a.down = nowhere, head
	if head == nowhere {
		q.push(pair)
	} else {
		q.nodes[head].up = i
	}
	q.first[pair] = i
}

func (q *queue) delist(a *node) {
	if a.up == nowhere {
		q.first[a.pair] = a.down
	} else {
		q.nodes[a.up].down = a.down
	}
	if a.down != nowhere {
		q.nodes[a.down].up = a.up
	}
	a.pair = none
}

func (q *queue) push(rank uint32) {
	h := append(q.ranks, rank)
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) / 2
		if h[p] <= rank {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = rank
	q.ranks = h
}

func (q *queue) pop() uint32 {
	h := q.ranks
	least, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			if len(h) > 0 {
				h[i] = last
			}
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if last <= h[c] {
			h[i] = last
			break
		}
		h[i] = h[c]
		i = c
	}
	q.ranks = h
	return least
}
