package inspect

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// Handler serves the page. Make it with [New].
type Handler struct {
	o     Options
	token [sha256.Size]byte
	files map[string]*file

	searching sync.Mutex

	mu       sync.Mutex
	watchers int
	detach   func()      // nil while the ring is not filled
	idle     *time.Timer // ends filling after the last watcher has left
	closed   bool
	invited  invitation
	over     chan struct{} // closed with closed
	feeds    sync.WaitGroup
}

// attach begins to fill the ring.
func (h *Handler) attach() { h.detach = h.o.Observer.AttachWithin(enough, "page", h.o.Ring) }

// enough is what a person can look at. The ring holds less than a second of such long messages, and ten seconds of such calls.
var enough = observe.Bounds{Queue: 2 << 20, Long: 8 << 20, Calls: 500}

// linger is how long the ring is filled after the last watcher has left, since a page that is hidden or loaded again comes
// back.
const linger = 30 * time.Second

// stats is what the feed repeats.
type stats struct {
	Connections int `json:"connections"`
	observe.Totals
	Watchers int `json:"watchers"`
}

// state is all of it.
type state struct {
	Version string `json:"version"`
	Replica string `json:"replica,omitempty"`
	Started string `json:"started"`
	stats
	Parked   []Parked             `json:"parked"`
	Ended    []observe.SessionRow `json:"ended"`
	Replicas []Replica            `json:"replicas"`
	Losses   []observe.LossRow    `json:"losses"`
}

func (h *Handler) live() Live {
	if h.o.Live == nil {
		return Live{}
	}
	return h.o.Live()
}

func (h *Handler) stats(l *Live) stats {
	h.mu.Lock()
	n := h.watchers
	h.mu.Unlock()
	s := stats{Connections: l.Connections, Totals: h.o.Ring.Totals(), Watchers: n}
	if h.o.Live != nil {
		s.Sessions = merged(s.Sessions, l.Sessions, h.o.Redactor)
	}
	return s
}

// merged returns the sessions that the ring has counted, without those that have ended unseen, and those that were quiet.
func merged(counted []observe.SessionRow, live map[string]LiveSession, redact observe.Redactor) []observe.SessionRow {
	list, seen := []observe.SessionRow{}, map[string]bool{}
	for _, row := range counted {
		if row.Session != "" {
			s, lives := live[row.Session]
			if !lives && row.Open == 0 {
				continue
			}
			seen[row.Session] = true
			if lives {
				row.Streams, row.Open, row.Asking = s.Streams, s.Open, s.Asking
				row.Since = s.Since.UTC().Format(time.RFC3339)
			}
		}
		list = append(list, row)
	}
	for session, s := range live {
		if !seen[session] && len(list) < maxListed {
			list = append(list, observe.SessionOf(&s.Peers, s.Since, s.Open, s.Streams, s.Asking, redact))
		}
	}
	return list
}

// waiting returns the questions that wait for an answer, the oldest first, with what the ring knows of their calls.
func (h *Handler) waiting(l *Live) []Parked {
	calls := map[uint64]observe.Asking{}
	for _, a := range h.o.Ring.Asking() {
		calls[a.N] = a
	}
	list := []Parked{}
	for _, p := range l.Parked {
		a := calls[p.Call]
		p.Client, p.Server, p.Tool = cmp.Or(a.Client, h.o.Redactor.Text(p.Client)), cmp.Or(a.Server, h.o.Redactor.Text(p.Server)), a.Tool
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Parked) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Call, b.Call)) })
	return list
}

// maxListed is how many sessions are listed.
const maxListed = 500

func (h *Handler) state() state {
	l := h.live()
	s := state{
		Version: h.o.Version, Replica: h.o.Replica, Started: h.started(), stats: h.stats(&l),
		Parked: h.waiting(&l), Ended: h.o.Ring.Ended(), Replicas: l.Replicas, Losses: h.o.Ring.Losses(),
	}
	if s.Replicas == nil {
		s.Replicas = []Replica{}
	}
	return s
}

func (h *Handler) started() string { return h.o.Started.UTC().Format(time.RFC3339) }
