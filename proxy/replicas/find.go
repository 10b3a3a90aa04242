package replicas

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// directory knows which process is at which address, which the replicas tell each other by the store. Nothing that a client sends
// decides to which address dragoman connects.
type directory struct {
	*Options
	asking singleflight.Group // by process, and "" for a list of all

	mu     sync.Mutex
	places map[sealed.ID]place
	links  map[address]*link // to addresses that are known, and all that are in use
	closed bool              // links are closed after their last use
	states map[address]state // of addresses that are known
	stored registry          // what the store says
	leave  func()            // ends what Register has begun; nil if it was not called
	anew   chan struct{}     // tells what Register has begun that the certificate may be another one
}

// state is what was seen of a replica.
type state struct {
	tried, reached bool // whether dragoman has tried to reach it, and whether the last attempt succeeded
	forwarded      uint64
}

// Replica is another replica, or this one, as the page shows it.
type Replica struct {
	Address   string
	Reachable *bool  // whether the last attempt to reach it succeeded; nil if there was none
	Forwarded uint64 // requests that it has served for this one
}

// List returns the addresses that are known now. It does not look any up.
func (d *directory) List() (list []Replica) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range slices.SortedFunc(maps.Keys(d.stored.places), func(a, b address) int { return strings.Compare(a.at, b.at) }) {
		r, s := Replica{Address: at.at}, d.states[at]
		if r.Forwarded = s.forwarded; s.tried {
			r.Reachable = &s.reached
		}
		list = append(list, r)
	}
	return list
}

// tried notes an attempt to reach a replica. served counts a request that it has served.
func (d *directory) tried(at address, reached bool, served uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.knows(at) {
		return
	}
	for old := range d.states {
		if !d.knows(old) {
			delete(d.states, old)
		}
	}
	d.states[at] = state{true, reached, d.states[at].forwarded + served}
}

// knows reports whether a replica may be at an address. d.mu must be held.
func (d *directory) knows(at address) bool {
	_, ok := d.stored.places[at]
	return ok
}

// closeUnknown closes the connections that are not in use, to addresses that are not known any more. d.mu must be held.
func (d *directory) closeUnknown() {
	for at, l := range d.links {
		if l.uses == 0 && !d.knows(at) {
			l.http.Close()
			delete(d.links, at)
		}
	}
}

// place is the address of a process; the zero address if no replica is this process.
type place struct {
	address
	until time.Time
}

// link is a connection to an address. It is closed when the address is no longer known
// and the link is no longer used.
type link struct {
	http *upstream.HTTP
	uses int
}

const (
	absentAge   = 3 * time.Second // how long a process that was not found is not looked for again
	askTimeout  = 3 * time.Second // for the list of all replicas
	peerConnect = 2 * time.Second
)

var errNoPeer = errors.New("no replica holds it")

func newDirectory(o *Options) *directory {
	return &directory{
		Options: o, places: make(map[sealed.ID]place), links: make(map[address]*link), states: make(map[address]state), anew: make(chan struct{}, 1),
	}
}

// find returns the address of a process. It asks the store if that is not known.
func (d *directory) find(id sealed.ID) (address, error) {
	d.mu.Lock()
	at, ok := d.places[id]
	d.mu.Unlock()
	if d.Store != nil && (!ok || time.Now().After(at.until)) {
		found, _, _ := d.asking.Do(string(id[:]), func() (any, error) {
			at := d.registeredAt(id)
			d.note(id, at)
			return at, nil
		})
		at = found.(place)
	}
	if at.address == (address{}) {
		return address{}, errNoPeer
	}
	return at.address, nil
}

// Finds reports whether a process is at a known address, as far as is known. It asks like find.
func (d *directory) Finds(id sealed.ID) bool {
	_, err := d.find(id)
	return err == nil
}

// lose notes that a process is no longer where it was.
func (d *directory) lose(id sealed.ID) { d.note(id, place{until: time.Now().Add(absentAge)}) }

// doubt notes that a process may not be where it was: it is looked for again when it is needed.
func (d *directory) doubt(id sealed.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.places, id)
}

func (d *directory) note(id sealed.ID, at place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); len(d.places) >= maxPlaces {
		for id, at := range d.places {
			if now.After(at.until) {
				delete(d.places, id)
			}
		}
	}
	if len(d.places) >= maxPlaces {
		clear(d.places) // they are found again
	}
	d.places[id] = at
}

// link returns the connection to an address, which the caller gives back with unlink.
func (d *directory) link(at address) (*link, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.links[at]
	if l == nil {
		now := d.Settings()
		cfg := upstream.HTTPConfig{
			URL:         "http://" + at.at + config.ReplicasPath,
			Dial:        d.Dial,
			DialTimeout: peerConnect,
			// The replica that reads from the server bounds the server's silence.
			FirstByteTimeout: quietPeer,
			IdleTimeout:      quietPeer,
			MaxMessage:       2 * now.MaxMessage, // translation can make a message longer
			Memory:           d.Memory,
			Pass:             now.Pass,
		}
		if at.cert != "" {
			cfg.URL = "https://" + at.at + config.ReplicasPath
			cfg.TLS = at.tls(d.isCertificate)
		}
		h, err := upstream.NewHTTP(cfg)
		if err != nil {
			return nil, err
		}
		l = &link{http: h}
		d.links[at] = l
	}
	l.uses++
	return l, nil
}

// quietPeer bounds a silence that can have a good reason: a call that takes long.
const quietPeer = 24 * time.Hour

func (d *directory) unlink(at address, l *link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.uses--
	switch current := d.links[at] == l; {
	case l.uses > 0:
	case !current:
		l.http.Close()
	case d.closed || !d.knows(at):
		l.http.Close()
		delete(d.links, at)
	}
}

// Forget drops the known places of processes, and the connections made so far, as after a change of settings.
// Connections in use are closed after their last use.
func (d *directory) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.places)
	d.stored.listed = time.Time{}
	select {
	case d.anew <- struct{}{}:
	default:
	}
	for at, l := range d.links {
		if l.uses == 0 {
			l.http.Close()
		}
		delete(d.links, at)
	}
}

// Close closes the connections to other replicas; those in use are closed after their last use.
func (d *directory) Close() {
	d.mu.Lock()
	leave := d.leave
	d.mu.Unlock()
	if leave != nil {
		leave()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for at, l := range d.links {
		l.http.Close()
		delete(d.links, at)
	}
}

// isCertificate returns an error unless another certificate than the one that the replica at an address has told is the one that it
// tells now.
func (d *directory) isCertificate(shown address) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := d.list(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.knows(shown) {
		return errOtherCertificate
	}
	return nil
}

// registry knows the replicas that have told the store their addresses.
type registry struct {
	at     map[sealed.ID]address
	places map[address]struct{} // the values of at
	listed time.Time
}

// registeredAt returns where the store says that a process is, the zero address if it does not know the process. If it does not
// answer, the address that it named last is returned.
func (d *directory) registeredAt(id sealed.ID) place {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	// However old the last list is: the process may have registered since then, and have sessions already. The first list may be one
	// that another request had begun before.
	var found address
	var ok bool
	var err error
	for range 2 {
		_, err, _ = d.asking.Do("", func() (any, error) { return nil, d.list(ctx) })
		d.mu.Lock()
		found, ok = d.stored.at[id]
		d.mu.Unlock()
		if ok || err != nil {
			break
		}
	}
	age := lease
	if !ok || errors.Is(err, store.ErrUnavailable) {
		age = absentAge
	}
	return place{found, time.Now().Add(age)}
}

// list asks the store for all replicas.
func (d *directory) list(ctx context.Context) error {
	now := registry{at: make(map[sealed.ID]address), places: make(map[address]struct{}), listed: time.Now()}
	if err := registeredIn(ctx, d.Store, func(id sealed.ID, at address) {
		if id != d.Self {
			now.at[id] = at
			now.places[at] = struct{}{}
		}
	}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.listed.Before(d.stored.listed) {
		return nil
	}
	d.stored = now
	d.closeUnknown()
	return nil
}
