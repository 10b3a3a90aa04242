package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

func hasReplicas(e *exam) bool { return e.cfg.Session.KeyFile != "" || len(e.cfg.Bridge.Peers) > 0 }

// replicas checks the key that replicas share, and whether the others answer.
func replicas(ctx context.Context, e *exam) {
	keys, err := sealed.ReadKeys(e.cfg.Session.KeyFile)
	if err != nil {
		e.fail(err.Error(), e.cfg.Session.KeyFile, "head -c 32 /dev/urandom | base64 > FILE makes one; all replicas need the same")
		return
	}
	if e.cfg.Session.KeyFile != "" {
		var prints []string
		for _, key := range keys {
			prints = append(prints, fmt.Sprintf("%x", config.Fingerprint(key, 4)))
		}
		e.info("fingerprint of the key: "+strings.Join(prints, ", then "), e.cfg.Session.KeyFile, "compare it with that of the other replicas: it must be the same")
	}
	by, err := e.toReplicas()
	if err != nil {
		e.fail(cause(err), "bridge", "the listener's certificate or bridge.peer_ca_file cannot be used")
		return
	}
	for _, peer := range e.cfg.Bridge.Peers {
		e.peer(ctx, peer, by)
	}
}

// peer checks the replicas behind one address of the configuration.
func (e *exam) peer(ctx context.Context, peer string, by func(name string) *http.Transport) {
	host, port, _ := net.SplitHostPort(peer)
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		e.fail("the name "+host+" cannot be resolved: "+cause(err), peer, "bridge.peers: check the name; in Kubernetes it is that of a headless service")
		return
	}
	scheme := "http://"
	if e.cfg.TLS.Cert != "" {
		scheme = "https://"
	}
	for _, addr := range addrs {
		place := net.JoinHostPort(addr, port)
		limited, cancel := context.WithTimeout(ctx, e.CheckTime/3)
		begun := time.Now()
		ahead, date, err := replicaAt(limited, scheme+place+config.ReplicasPath, by(host))
		cancel()
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			e.warn("the replica refuses the connection", place, "it may be this one, which does not run yet; otherwise start it, or correct bridge.peers")
		case err != nil:
			e.fail("the replica does not answer: "+cause(err), place, "does it run? may this machine reach it (firewall, network policy)? check bridge.peers")
		default:
			e.ok("the replica answers in "+millis(time.Since(begun)), place)
			if date {
				e.skew("the replica", place, ahead)
			}
		}
	}
}

// replicaAt asks a replica for any HTTP response. It sends no credential.
func replicaAt(ctx context.Context, at string, by *http.Transport) (ahead time.Duration, date bool, err error) {
	defer by.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return 0, false, err
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return 0, false, err
	}
	resp.Body.Close()
	there, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, false, nil
	}
	return time.Until(there.Add(500 * time.Millisecond)), true, nil
}

// toReplicas returns a function that makes transports to the other replicas, whose certificates are valid for name. A replica
// with the same certificate as this one needs no verification.
func (e *exam) toReplicas() (func(name string) *http.Transport, error) {
	if e.cfg.TLS.Cert == "" {
		return func(string) *http.Transport { return &http.Transport{} }, nil
	}
	pair, err := tls.LoadX509KeyPair(e.cfg.TLS.Cert, e.cfg.TLS.Key)
	if err != nil {
		return nil, err
	}
	var roots *x509.CertPool
	if file := e.cfg.Bridge.PeerCAFile; file != "" {
		if roots, err = config.Certificates(file); err != nil {
			return nil, err
		}
	}
	return func(name string) *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
			VerifyConnection: func(s tls.ConnectionState) error {
				if bytes.Equal(s.PeerCertificates[0].Raw, pair.Certificate[0]) {
					return nil
				}
				between := x509.NewCertPool()
				for _, link := range s.PeerCertificates[1:] {
					between.AddCert(link)
				}
				_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: between})
				return err
			},
		}}
	}, nil
}
