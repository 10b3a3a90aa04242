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
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// directory is where the other replicas may be, as we were configured, and which process
// is where, as they say when asked. Nothing that a client sends has a say in where we
// connect to.
type directory struct {
	*Options
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	asking singleflight.Group // by process

	mu     sync.Mutex
	known  []address // as of the time at, for the entries of listed
	listed []string
	at     time.Time
	absent string // of listed, those that were not found
	places map[sealed.ID]place
	links  map[address]*link // to some of known, and those in use
	closed bool              // links end with their use
}

// address is where a replica may listen.
type address struct {
	at   string // address:port
	name string // that a certificate has to be for
}

// place is where a process is; the zero address for one that no process is.
type place struct {
	address
	until time.Time
}

// link is how an address is spoken to. It is closed when no longer known and
// no longer used.
type link struct {
	http *upstream.HTTP
	uses int
}

const (
	maxPlaces   = 1024             // processes remembered
	peersAge    = 5 * time.Second  // how long a name's addresses are good for
	placeAge    = 30 * time.Second // how long a process is where it said
	absentAge   = 3 * time.Second  // how long one that is nowhere is not looked for again
	askTimeout  = 3 * time.Second  // for all answers to where a process is
	peerConnect = 2 * time.Second
)

var errNoPeer = errors.New("no replica holds it")

func newDirectory(o *Options) *directory {
	return &directory{
		Options: o, places: make(map[sealed.ID]place), links: make(map[address]*link),
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// find returns where a process is, by asking all replicas where that is not known.
func (d *directory) find(id sealed.ID) (address, error) {
	d.mu.Lock()
	at, ok := d.places[id]
	d.mu.Unlock()
	if !ok || time.Now().After(at.until) {
		found, _, _ := d.asking.Do(string(id[:]), func() (any, error) { return d.ask(id), nil })
		at = found.(place)
	}
	if at.address == (address{}) {
		return address{}, errNoPeer
	}
	return at.address, nil
}

// lose notes that a process is no longer where it was.
func (d *directory) lose(id sealed.ID) { d.note(id, place{until: time.Now().Add(absentAge)}) }

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

// ask asks all addresses at once for a process, and takes the first that is it.
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

// isAt asks one address for a process. Only one that has our key is believed.
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
		Header: []upstream.Header{{Name: sealed.ForwardHeader, Value: box}},
	})
	if err != nil {
		d.Log.Debug("cannot reach replica", zap.String("address", at.at), zap.Error(err))
		return false
	}
	defer st.Close()
	e, err := st.Next()
	return err == nil && seal.IsPresence(string(bytes.Trim(e.Data, `"`)), box)
}

// addresses are all that peers may be at, as of a moment ago.
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
			continue // Validate knows better
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
	for at, l := range d.links {
		if l.uses == 0 && !slices.Contains(known, at) {
			l.http.Close()
			delete(d.links, at)
		}
	}
	return known
}

func (d *directory) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return d.lookup(ctx, host)
}

// link is how an address is spoken to, until unlink.
func (d *directory) link(at address) (*link, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.links[at]
	if l == nil {
		now := d.Settings()
		cfg := upstream.HTTPConfig{
			URL:         "http://" + at.at + config.ReplicasPath,
			DialTimeout: peerConnect,
			// How long a server may be silent is watched where it is heard.
			FirstByteTimeout: quietPeer,
			IdleTimeout:      quietPeer,
			MaxMessage:       2 * now.MaxMessage, // translation makes some longer
			Memory:           d.Memory,
		}
		if now.Certificate != nil {
			cfg.URL = "https://" + at.at + config.ReplicasPath
			cfg.TLS = d.tls(at.name)
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

// quietPeer bounds what can be quiet for a good reason: a call that takes its time.
const quietPeer = 24 * time.Hour

func (d *directory) unlink(at address, l *link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.uses--
	switch current := d.links[at] == l; {
	case l.uses > 0:
	case !current:
		l.http.Close()
	case d.closed || !slices.Contains(d.known, at):
		l.http.Close()
		delete(d.links, at)
	}
}

// forget drops what is known of where processes are, and the connections made so far:
// those in use end with their use.
func (d *directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.places)
	d.at = time.Time{}
	for at, l := range d.links {
		if l.uses == 0 {
			l.http.Close()
		}
		delete(d.links, at)
	}
}

func (d *directory) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for at, l := range d.links {
		l.http.Close()
		delete(d.links, at)
	}
}

// tls accepts a replica that shows the certificate that we show, and else one that
// is good for the name it was listed by.
func (d *directory) tls(name string) *tls.Config {
	verify := func(cs tls.ConnectionState) error {
		now := d.Settings()
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
