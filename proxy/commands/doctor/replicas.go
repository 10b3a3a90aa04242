package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/storeconfig"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

func hasReplicas(e *exam) bool { return e.cfg.Session.KeyFile != "" }

// otherReplicas checks the key that replicas share, and whether those that are in the store answer.
func otherReplicas(ctx context.Context, e *exam) {
	keys, err := sealed.ReadKeys(e.cfg.Session.KeyFile)
	if err != nil {
		e.fail(err.Error(), e.cfg.Session.KeyFile, "head -c 32 /dev/urandom | base64 > FILE makes one; all replicas need the same")
		return
	}
	var prints []string
	for _, key := range keys {
		prints = append(prints, fmt.Sprintf("%x", config.Fingerprint(key, 4)))
	}
	e.info("fingerprint of the key: "+strings.Join(prints, ", then "), e.cfg.Session.KeyFile, "compare it with that of the other replicas: it must be the same")
	if !hasStore(e) {
		return
	}
	s, err := storeconfig.Open(&e.cfg, keys, store.Options{})
	if err != nil {
		return // the check of the store says why
	}
	defer s.Close()
	limited, cancel := context.WithTimeout(ctx, e.CheckTime/3)
	defer cancel()
	all, _ := replicas.RegisteredIn(limited, s)
	for _, r := range all {
		e.replica(ctx, r)
	}
}

// replica checks whether a replica answers, and its clock.
func (e *exam) replica(ctx context.Context, r replicas.Registered) {
	limited, cancel := context.WithTimeout(ctx, e.CheckTime/3)
	defer cancel()
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	begun := time.Now()
	ahead, date, err := dateOf(limited, http.MethodGet, scheme+r.Address+config.ReplicasPath, &http.Transport{TLSClientConfig: r.TLS})
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.warn("the replica refuses the connection", r.Address, "if it has ended, the store forgets it within 10 s; otherwise set its store.advertise to an address at which this machine reaches it")
	case err != nil:
		e.fail("the replica does not answer: "+cause(err), r.Address, "may this machine reach it (firewall, network policy)? check its store.advertise")
	default:
		e.ok("the replica answers in "+millis(time.Since(begun)), r.Address)
		if date {
			e.skew("the replica", r.Address, ahead)
		}
	}
}
