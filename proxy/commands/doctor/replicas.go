package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
)

func hasReplicas(e *exam) bool { return e.cfg.Session.KeyFile != "" || len(e.cfg.Bridge.Peers) > 0 }

// otherReplicas checks the key that replicas share, and whether the others answer.
func otherReplicas(ctx context.Context, e *exam) {
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
	for _, addr := range addrs {
		place := net.JoinHostPort(addr, port)
		limited, cancel := context.WithTimeout(ctx, e.CheckTime/3)
		begun := time.Now()
		ahead, date, err := dateOf(limited, http.MethodGet, e.scheme()+place+config.ReplicasPath, by(host))
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

// toReplicas returns a function that makes transports to the other replicas, whose certificates are valid for name.
func (e *exam) toReplicas() (func(name string) *http.Transport, error) {
	if e.cfg.TLS.Cert == "" {
		return func(string) *http.Transport { return &http.Transport{} }, nil
	}
	pair, err := config.KeyPair(e.cfg.TLS.Cert, e.cfg.TLS.Key)
	if err != nil {
		return nil, err
	}
	ours := replicas.Settings{Certificate: &pair}
	if file := e.cfg.Bridge.PeerCAFile; file != "" {
		if ours.Roots, err = config.Certificates(file); err != nil {
			return nil, err
		}
	}
	return func(name string) *http.Transport {
		return &http.Transport{TLSClientConfig: replicas.TLS(func() replicas.Settings { return ours }, name)}
	}, nil
}
