package proxy

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

// peers are the other replicas that have our key: where they may be, as we were
// configured, and which process is where, as they say when asked. Nothing that a
// client sends has a say in where we connect to.
type peers struct {
	srv    *Server
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	asking singleflight.Group // by process

	mu     sync.Mutex
	known  []peerAddress // as of the time at, for the entries of listed
	listed []string
	at     time.Time
	absent string // of listed, those that were not found
	places map[sealed.ID]place
	links  map[peerAddress]*peerLink // to some of known, and those in use
	closed bool                      // links end with their use
}

// peerAddress is where a replica may listen.
type peerAddress struct {
	at   string // address:port
	name string // that a certificate has to be for
}

// place is where a process is; the zero address for one that nobody is.
type place struct {
	peerAddress
	until time.Time
}

// peerLink is how an address is spoken to. It is closed when no longer known and
// no longer used.
type peerLink struct {
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

func newPeers(srv *Server) *peers {
	return &peers{
		srv: srv, places: make(map[sealed.ID]place), links: make(map[peerAddress]*peerLink),
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// configured reports whether there may be others.
func (p *peers) configured() bool { return len(p.srv.now().cfg.Bridge.Peers) > 0 }

// find returns where a process is, by asking all replicas where that is not known.
func (p *peers) find(id sealed.ID) (peerAddress, error) {
	p.mu.Lock()
	at, ok := p.places[id]
	p.mu.Unlock()
	if !ok || time.Now().After(at.until) {
		found, _, _ := p.asking.Do(string(id[:]), func() (any, error) { return p.ask(id), nil })
		at = found.(place)
	}
	if at.peerAddress == (peerAddress{}) {
		return peerAddress{}, errNoPeer
	}
	return at.peerAddress, nil
}

// lose notes that a process is no longer where it was.
func (p *peers) lose(id sealed.ID) { p.note(id, place{until: time.Now().Add(absentAge)}) }

func (p *peers) note(id sealed.ID, at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); len(p.places) >= maxPlaces {
		for id, at := range p.places {
			if now.After(at.until) {
				delete(p.places, id)
			}
		}
	}
	if len(p.places) >= maxPlaces {
		clear(p.places) // they are found again
	}
	p.places[id] = at
}

// ask asks all addresses at once for a process, and takes the first that is it.
func (p *peers) ask(id sealed.ID) place {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	all := p.addresses(ctx)
	found := make(chan peerAddress, len(all))
	var asked sync.WaitGroup
	for _, at := range all {
		asked.Go(func() {
			if p.isAt(ctx, id, at) {
				found <- at
				cancel()
			}
		})
	}
	asked.Wait()
	at := place{until: time.Now().Add(absentAge)}
	select {
	case at.peerAddress = <-found:
		at.until = time.Now().Add(placeAge)
	default:
	}
	p.note(id, at)
	return at
}

// isAt asks one address for a process. Only one that has our key is believed.
func (p *peers) isAt(ctx context.Context, id sealed.ID, at peerAddress) bool {
	link, err := p.link(at)
	if err != nil {
		return false
	}
	defer p.unlink(at, link)
	seal := p.srv.now().sealer
	box := seal.SealForward("POST", sealed.Forward{To: id, At: time.Now()})
	st, err := link.http.Session("", "").Send(ctx, &upstream.Outgoing{
		Body: []byte("{}"), Request: true, FirstByte: askTimeout, Silence: askTimeout,
		Header: []upstream.Header{{Name: sealed.ForwardHeader, Value: box}},
	})
	if err != nil {
		p.srv.log.Debug("replica cannot be asked", zap.String("address", at.at), zap.Error(err))
		return false
	}
	defer st.Close()
	e, err := st.Next()
	return err == nil && seal.IsPresence(string(bytes.Trim(e.Data, `"`)), box)
}

// addresses are all that peers may be at, as of a moment ago.
func (p *peers) addresses(ctx context.Context) []peerAddress {
	listed := p.srv.now().cfg.Bridge.Peers
	p.mu.Lock()
	known, fresh := p.known, time.Since(p.at) < peersAge && slices.Equal(p.listed, listed)
	p.mu.Unlock()
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
		ips, err := p.resolve(ctx, host)
		if err != nil {
			absent, reason = append(absent, entry), err
		}
		for _, ip := range ips {
			at := peerAddress{net.JoinHostPort(ip.Unmap().String(), port), host}
			if len(known) < config.MaxPeers && !slices.Contains(known, at) {
				known = append(known, at)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.listed, p.at = known, listed, time.Now()
	if now := strings.Join(absent, ", "); now != p.absent {
		if p.absent = now; now != "" {
			p.srv.log.Warn("addresses of replicas are not found", zap.String("peers", now), zap.Error(reason))
		}
	}
	for at, link := range p.links {
		if link.uses == 0 && !slices.Contains(known, at) {
			link.http.Close()
			delete(p.links, at)
		}
	}
	return known
}

func (p *peers) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return p.lookup(ctx, host)
}

// link is how an address is spoken to, until unlink.
func (p *peers) link(at peerAddress) (*peerLink, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.links[at]
	if l == nil {
		now := p.srv.now()
		cfg := upstream.HTTPConfig{
			URL:         "http://" + at.at + config.ReplicasPath,
			DialTimeout: peerConnect,
			// How long a server may be silent is watched where it is heard.
			FirstByteTimeout: quietPeer,
			IdleTimeout:      quietPeer,
			MaxMessage:       2 * int(now.cfg.Limits.UpstreamMessage), // translation makes some longer
			Memory:           p.srv.memory,
		}
		if now.guard.cert != nil {
			cfg.URL = "https://" + at.at + config.ReplicasPath
			cfg.TLS = p.tls(at.name)
		}
		h, err := upstream.NewHTTP(cfg)
		if err != nil {
			return nil, err
		}
		l = &peerLink{http: h}
		p.links[at] = l
	}
	l.uses++
	return l, nil
}

// quietPeer bounds what can be quiet for a good reason: a call that takes its time.
const quietPeer = 24 * time.Hour

func (p *peers) unlink(at peerAddress, l *peerLink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.uses--
	if p.links[at] == l && l.uses == 0 && (p.closed || !slices.Contains(p.known, at)) {
		l.http.Close()
		delete(p.links, at)
	}
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for at, l := range p.links {
		l.http.Close()
		delete(p.links, at)
	}
}

// tls accepts a replica that shows the certificate that we show, and else one that
// is good for the name it was listed by.
func (p *peers) tls(name string) *tls.Config {
	verify := func(cs tls.ConnectionState) error {
		guard := p.srv.now().guard
		if guard.cert != nil && bytes.Equal(cs.PeerCertificates[0].Raw, guard.cert.Certificate[0]) {
			return nil
		}
		opts := x509.VerifyOptions{Roots: guard.peerRoots, DNSName: name, Intermediates: x509.NewCertPool()}
		for _, c := range cs.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := cs.PeerCertificates[0].Verify(opts)
		return err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: true, VerifyConnection: verify}
}
