package replicas

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// directory knows the addresses at which other replicas may be, which come from the
// configuration, and which process is at which of them, which the replicas say when
// asked. Nothing that a client sends decides to which address dragoman connects.
type directory struct {
	*Options
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	asking singleflight.Group // by process

	mu     sync.Mutex
	known  []address // what the entries of listed resolved to at the time at
	listed []string
	at     time.Time
	absent string // the entries of listed that could not be resolved
	places map[sealed.ID]place
	links  map[address]*link // to addresses in known, and all that are in use
	closed bool              // links are closed after their last use
	states map[address]state // of addresses that are known
	stored registry          // what the store says
	leave  func()            // ends what Register has begun; nil if it was not called
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
	all := slices.Clone(d.known)
	for at := range d.stored.places {
		if !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all[len(d.known):], func(a, b address) int { return strings.Compare(a.at, b.at) })
	for _, at := range all {
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
	return ok || slices.Contains(d.known, at)
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

// addressOf reads host:port; the zero address if text is something else.
func addressOf(text string) address {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || port == "" || strings.ContainsAny(host, "/@?# \r\n") {
		return address{}
	}
	return address{text, host}
}

// address is where a replica may listen.
type address struct {
	at   string // address:port
	name string // name that a certificate must be valid for
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
	maxPlaces   = 4096             // processes remembered
	peersAge    = 5 * time.Second  // how long the addresses of a name count as current
	placeAge    = 30 * time.Second // how long the place of a process counts as current
	absentAge   = 3 * time.Second  // how long a process that was not found is not looked for again
	askTimeout  = 3 * time.Second  // for all answers to where a process is
	peerConnect = 2 * time.Second
)

var errNoPeer = errors.New("no replica holds it")

func newDirectory(o *Options) *directory {
	return &directory{
		Options: o, places: make(map[sealed.ID]place), links: make(map[address]*link), states: make(map[address]state),
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// find returns the address of a process. It asks the store, or else all replicas, if that is not known.
func (d *directory) find(id sealed.ID) (address, error) {
	d.mu.Lock()
	at, ok := d.places[id]
	d.mu.Unlock()
	if !ok || time.Now().After(at.until) {
		found, _, _ := d.asking.Do(string(id[:]), func() (any, error) { return d.look(id), nil })
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

func (d *directory) look(id sealed.ID) place {
	if d.Store != nil {
		if at, ok := d.registeredAt(id); ok || len(d.Settings().Addresses) == 0 {
			if !ok {
				at = place{until: time.Now().Add(absentAge)}
			}
			d.note(id, at)
			return at
		}
	}
	return d.ask(id)
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

// ask asks all addresses at once for a process, and takes the first one that is this
// process.
func (d *directory) ask(id sealed.ID) place {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	all := d.addresses(ctx)
	found := make(chan address, len(all))
	var asked sync.WaitGroup
	for _, at := range all {
		asked.Go(func() {
			if d.isAt(ctx, id, at) {
				found <- at
				cancel()
			}
		})
	}
	asked.Wait()
	at := place{until: time.Now().Add(absentAge)}
	select {
	case at.address = <-found:
		at.until = time.Now().Add(placeAge)
	default:
	}
	d.note(id, at)
	return at
}

// isAt asks one address for a process. It only believes a replica that has the key.
func (d *directory) isAt(ctx context.Context, id sealed.ID, at address) bool {
	l, err := d.link(at)
	if err != nil {
		return false
	}
	defer d.unlink(at, l)
	seal := d.Settings().Sealer
	box := seal.SealForward("POST", sealed.Forward{To: id, At: time.Now()})
	st, err := l.http.Session("", "").Send(ctx, &upstream.Outgoing{
		Body: []byte("{}"), Request: true, FirstByte: askTimeout, Silence: askTimeout,
		Header: []mcp.Header{{Name: sealed.ForwardHeader, Value: box}},
	})
	if err != nil {
		d.Log.Debug("cannot reach replica", zap.String("address", at.at), zap.Error(err))
		if ctx.Err() == nil {
			d.tried(at, false, 0)
		}
		return false
	}
	defer st.Close()
	e, err := upstream.First(st)
	if ctx.Err() == nil {
		_, refused := errors.AsType[*upstream.StatusError](err)
		d.tried(at, err == nil || refused, 0)
	}
	return err == nil && seal.IsPresence(string(bytes.Trim(e.Data, `"`)), box)
}

// addresses returns the addresses at which replicas may be. They may be as old as
// peersAge.
func (d *directory) addresses(ctx context.Context) []address {
	listed := d.Settings().Addresses
	d.mu.Lock()
	known, fresh := d.known, time.Since(d.at) < peersAge && slices.Equal(d.listed, listed)
	d.mu.Unlock()
	if fresh {
		return known
	}
	known = nil
	var absent []string
	var reason error
	for _, entry := range listed {
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			continue // Validate reports this
		}
		ips, err := d.resolve(ctx, host)
		if err != nil {
			absent, reason = append(absent, entry), err
		}
		for _, ip := range ips {
			at := address{net.JoinHostPort(ip.Unmap().String(), port), host}
			if len(known) < config.MaxPeers && !slices.Contains(known, at) {
				known = append(known, at)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.listed, d.at = known, listed, time.Now()
	if now := strings.Join(absent, ", "); now != d.absent {
		if d.absent = now; now != "" {
			d.Log.Warn("cannot resolve the addresses of replicas", zap.String("peers", now), zap.Error(reason))
		}
	}
	d.closeUnknown()
	return known
}

func (d *directory) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return d.lookup(ctx, host)
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
		if now.Certificate != nil {
			cfg.URL = "https://" + at.at + config.ReplicasPath
			cfg.TLS = TLS(d.Settings, at.name)
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
	d.at, d.stored.listed = time.Time{}, time.Time{}
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

// TLS returns a configuration that accepts a replica with the same certificate as this
// one, or with a certificate that is valid for the name under which it was listed. settings returns those in force.
func TLS(settings func() Settings, name string) *tls.Config {
	verify := func(cs tls.ConnectionState) error {
		now := settings()
		if now.Certificate != nil && bytes.Equal(cs.PeerCertificates[0].Raw, now.Certificate.Certificate[0]) {
			return nil
		}
		opts := x509.VerifyOptions{Roots: now.Roots, DNSName: name, Intermediates: x509.NewCertPool()}
		for _, c := range cs.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := cs.PeerCertificates[0].Verify(opts)
		return err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: true, VerifyConnection: verify}
}

// registry knows the replicas that have told the store their addresses.
type registry struct {
	at     map[sealed.ID]address
	places map[address]struct{} // the values of at
	listed time.Time
}

// registeredAt returns where the store says that a process is. ok is false if it does not know the process. If it does not answer,
// the address that it named last is returned.
func (d *directory) registeredAt(id sealed.ID) (at place, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	// However old the last list is: the process may have registered since then, and have sessions already. The first list may be one
	// that another request had begun before.
	var found address
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
	if errors.Is(err, store.ErrUnavailable) {
		return place{found, time.Now().Add(absentAge)}, ok
	}
	return place{found, time.Now().Add(lease)}, ok
}

// list asks the store for all replicas.
func (d *directory) list(ctx context.Context) error {
	now := registry{at: make(map[sealed.ID]address), places: make(map[address]struct{}), listed: time.Now()}
	err := d.Store.Members(ctx, registered, func(m store.Member) bool {
		id, ok := sealed.ID{}, len(m.Name) > len(sealed.ID{})
		if ok {
			copy(id[:], m.Name)
			if at := addressOf(string(m.Name[len(id):])); at != (address{}) && id != d.Self {
				now.at[id] = at
				now.places[at] = struct{}{}
			}
		}
		return len(now.at) < maxPlaces
	})
	if err != nil {
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

// registered is the set of all replicas in the store. A member is the id of a process, and its address.
var registered = store.Key{Kind: "replicas"}

const (
	// lease is how long a replica is known after it was heard of last.
	lease = 10 * time.Second
	// renewal is how often it is heard of.
	renewal = 3 * time.Second
	// listAge is how often all replicas are listed without a request for one of them: for the page, and because a replica that
	// was never listed cannot be found while the store does not answer.
	listAge = lease
)
