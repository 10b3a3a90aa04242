package replicas

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// registered is the set of all replicas in the store. A member is the id of a process and its address, and behind a zero byte the
// hash of its certificate, if it has one.
var registered = store.Key{Kind: "replicas"}

const (
	// lease is how long a replica is known after it was heard of last.
	lease = 10 * time.Second
	// maxPlaces is how many processes are remembered.
	maxPlaces = 4096
)

// address is where a replica listens.
type address struct {
	at   string // host:port
	cert string // SHA-256 of the certificate that it shows there; "" if it shows none
}

// addressOf reads what a replica has told of itself after its id; the zero address if text is something else.
func addressOf(text string) address {
	at, cert, _ := strings.Cut(text, "\x00")
	host, port, err := net.SplitHostPort(at)
	if err != nil || host == "" || port == "" || strings.ContainsAny(host, "/@?# \r\n") {
		return address{}
	}
	return address{at, cert}
}

// certificateOf returns the hash of a certificate by which others recognize it.
func certificateOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return string(sum[:])
}

// tls returns a configuration that accepts the certificate of the replica, and those for which other returns no error.
func (at address) tls(other func(shown address) error) *tls.Config {
	verify := func(cs tls.ConnectionState) error {
		if shown := (address{at.at, certificateOf(cs.PeerCertificates[0].Raw)}); shown != at {
			return other(shown)
		}
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: verify}
}

// noOther is for tls: only what the replica has told.
func noOther(address) error { return errOtherCertificate }

var errOtherCertificate = errors.New("the certificate is not the one that the replica has told in the store")

// registeredIn calls each with what the replicas have told a store. A process that has got another certificate may come twice.
func registeredIn(ctx context.Context, s *store.Store, each func(id sealed.ID, at address)) error {
	n := 0
	return s.Members(ctx, registered, func(m store.Member) bool {
		if id := (sealed.ID{}); len(m.Name) > len(id) {
			copy(id[:], m.Name)
			if at := addressOf(string(m.Name[len(id):])); at != (address{}) {
				each(id, at)
				n++
			}
		}
		return n < maxPlaces
	})
}

// Registered is a replica that has told the store its address.
type Registered struct {
	Address string      // host:port
	TLS     *tls.Config // accepts the certificate that it has told, and no other; nil if it has none
}

// RegisteredIn returns what the replicas have told a store, by address.
func RegisteredIn(ctx context.Context, s *store.Store) (list []Registered, err error) {
	err = registeredIn(ctx, s, func(_ sealed.ID, at address) {
		r := Registered{Address: at.at}
		if at.cert != "" {
			r.TLS = at.tls(noOther)
		}
		list = append(list, r)
	})
	slices.SortFunc(list, func(a, b Registered) int { return cmp.Compare(a.Address, b.Address) })
	return list, err
}
