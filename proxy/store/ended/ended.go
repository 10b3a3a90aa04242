// Package ended remembers which sessions are over as long as their ids can be opened.
//
// A session id is sealed and needs no table, so the end of a session must be remembered
// for as long as the seal can be opened. Each process numbers its sessions in order, and
// the seal contains the number. The marks are then bits: 512 bytes for 4,096 sessions, and
// only the entry of the block if all of them are over, as after a loop that begins and
// ends sessions. A client that ends every second session costs two bits for each session
// that it ends, until the ids are too old to be opened.
//
// The size of all marks is bounded, too. Beyond the bound, the oldest block of the process
// with the most blocks counts as over as a whole: a session may then end early, but no
// session that has ended comes back.
package ended

import (
	"math"
	"sync"
	"time"
)

const (
	blockSize = 4096
	// DefaultBlocks bounds the marks to 32 MiB.
	DefaultBlocks = 1 << 16
)

// Set holds the marks. It is safe for concurrent use.
type Set struct {
	maxBlocks int

	mu        sync.Mutex
	processes map[uint64]*process
	blocks    int
}

// process are the marks of the sessions that one process has begun.
type process struct {
	floor  uint64    // all lower numbers are over
	raised time.Time // when floor was last raised
	blocks map[uint64]*block
}

// rememberFloor is how long the floor of a process is kept after its last mark. Ids of that age can be opened only if
// session.max_age was raised in the meantime.
const rememberFloor = 7 * 24 * time.Hour

type block struct {
	bits  *[blockSize / 64]uint64 // nil if all are over
	count int
	last  uint64    // the highest number that is over
	made  time.Time // when that session began; sessions with lower numbers began no later
}

// New returns an empty set of at most maxBlocks blocks.
func New(maxBlocks int) *Set {
	return &Set{maxBlocks: maxBlocks, processes: make(map[uint64]*process)}
}

// Add marks a session as over. made is the time at which the session began.
func (s *Set) Add(of Serial, made time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process(of.Process)
	if p.has(of.Number) {
		return
	}
	at := of.Number / blockSize
	b := p.blocks[at]
	if b == nil {
		if s.blocks >= s.maxBlocks {
			s.makeRoom()
			if p.has(of.Number) {
				return
			}
		}
		b = &block{bits: new([blockSize / 64]uint64)}
		p.blocks[at] = b
		s.blocks++
	}
	n := of.Number % blockSize
	b.bits[n/64] |= 1 << (n % 64)
	if b.last <= of.Number {
		b.last, b.made = of.Number, made
	}
	if b.count++; b.count == blockSize {
		b.bits = nil
	}
}

// process returns the marks of a process, and adds it. The caller holds s.mu.
func (s *Set) process(of uint64) *process {
	p := s.processes[of]
	if p == nil {
		p = &process{blocks: make(map[uint64]*block), raised: time.Now()}
		s.processes[of] = p
	}
	return p
}

// addBelow marks all sessions of a process as over whose numbers are lower than floor.
func (s *Set) addBelow(of, floor uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process(of)
	if p.floor < floor {
		p.raise(floor, time.Now())
	}
	for at := range p.blocks {
		if (at+1)*blockSize <= p.floor {
			delete(p.blocks, at)
			s.blocks--
		}
	}
}

func (p *process) raise(floor uint64, now time.Time) {
	p.floor, p.raised = max(p.floor, floor), now
}

// each calls do with every mark, and with every floor as a mark of all lower numbers.
func (s *Set) each(do func(mark)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.processes {
		if p.floor > 0 {
			do(mark{Serial: Serial{of, p.floor}, made: p.raised, below: true})
		}
		for at, b := range p.blocks {
			for n := range uint64(blockSize) {
				if b.bits == nil || b.bits[n/64]&(1<<(n%64)) != 0 {
					do(mark{Serial: Serial{of, at*blockSize + n}, made: b.made})
				}
			}
		}
	}
}

// Has reports whether a session is over.
func (s *Set) Has(of Serial) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.processes[of.Process]
	return p != nil && p.has(of.Number)
}

func (p *process) has(number uint64) bool {
	if number < p.floor {
		return true
	}
	b := p.blocks[number/blockSize]
	if b == nil {
		return false
	}
	n := number % blockSize
	return b.bits == nil || b.bits[n/64]&(1<<(n%64)) != 0
}

// makeRoom deletes the oldest block of the process that has the most, and marks all its
// sessions as over.
func (s *Set) makeRoom() {
	var most *process
	for _, p := range s.processes {
		if most == nil || len(p.blocks) > len(most.blocks) {
			most = p
		}
	}
	oldest := uint64(math.MaxUint64)
	for at := range most.blocks {
		oldest = min(oldest, at)
	}
	delete(most.blocks, oldest)
	s.blocks--
	most.raise((oldest+1)*blockSize, time.Now())
}

// Sweep releases the marks of sessions that began before then: their ids can no longer be
// opened.
func (s *Set) Sweep(then time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.processes {
		for at, b := range p.blocks {
			if b.made.Before(then) {
				delete(p.blocks, at)
				s.blocks--
				p.raise(b.last+1, time.Now()) // in case ids can be opened for longer from now on
			}
		}
		if len(p.blocks) == 0 && time.Since(p.raised) > rememberFloor && p.raised.Before(then) {
			delete(s.processes, of)
		}
	}
}

// add adds a mark to the set.
func (s *Set) add(m mark) {
	if m.below {
		s.addBelow(m.Process, m.Number)
		return
	}
	s.Add(m.Serial, m.made)
}
