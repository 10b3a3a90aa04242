package doctor

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/storeconfig"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

func hasStore(e *exam) bool { return e.cfg.Store.URL != "" }

// sharedStore checks the server that replicas share: whether it answers, in time, and what it does when it is full. It writes
// nothing there.
func sharedStore(ctx context.Context, e *exam) {
	s := &e.cfg.Store
	where := config.SafeURL(s.URL)
	engine, err := storeconfig.Engine(s)
	if err != nil {
		e.fail(err.Error(), where, "store: correct this setting")
		return
	}
	defer engine.Close()
	limited, cancel := context.WithTimeout(ctx, e.CheckTime/2)
	defer cancel()
	if err := engine.Ping(limited); err != nil { // connects, too
		e.noStore(err, where)
		return
	}
	begun := time.Now()
	if err := engine.Ping(limited); err != nil {
		e.noStore(err, where)
		return
	}
	took := time.Since(begun)
	e.ok(cmp.Or(engine.Version(limited), "the store")+" answers in "+millis(took), where)
	if _, err := engine.Members(limited, s.Prefix+":doctor", 0, 1); err != nil { // a script, which only reads
		e.noStore(err, where)
		return
	}
	if took > s.Timeout/2 {
		e.warn("an answer takes more than half of store.timeout, "+s.Timeout.String(), where, "bring the store nearer, or set store.timeout higher")
	}
	switch policy, ok := engine.EvictionPolicy(limited); {
	case !ok:
		e.info("it does not say what it does when it is full", where, "check that maxmemory-policy is noeviction")
	case policy != "noeviction":
		e.warn("maxmemory-policy is "+policy+": when the store is full, it drops confirmation tokens, limits and ended sessions without an error", where,
			"CONFIG SET maxmemory-policy noeviction, and in the store's configuration; dragoman gives everything an expiry")
	}
	if strings.HasPrefix(s.URL, "redis://") && !s.OnThisMachine() {
		e.info("the connection is not encrypted; what is kept is sealed, the password is not", where, "rediss:// for TLS, where the network is not trusted")
	}
}

// noStore writes why the store does not answer.
func (e *exam) noStore(err error, where string) {
	text := err.Error()
	switch {
	case errors.Is(err, store.ErrRejected) && strings.Contains(text, "NOAUTH"):
		e.fail("the store wants a password", where, "set store.password_file or store.password")
	case errors.Is(err, store.ErrRejected) && (strings.Contains(text, "WRONGPASS") || strings.Contains(text, "without any password")):
		e.fail("the store refuses the user or the password: "+e.quote(serverText(text)), where, "check store.username, and store.password_file or store.password")
	case errors.Is(err, store.ErrRejected):
		e.fail("the store refuses what dragoman needs: "+e.quote(serverText(text)), where, "check the database in store.url, and what the user of store.username may do; docs/replicas.md has the ACL")
	case strings.Contains(text, "x509:") || strings.Contains(text, "tls:"):
		e.fail("TLS: "+e.quote(serverText(text)), where, "check store.ca_file, and that the store speaks TLS at this port")
	default:
		e.fail("the store does not answer: "+cause(err), where, "check store.url; does it run, and may this machine reach it (firewall, network policy)?")
	}
}

// serverText returns what the server has said in the text of a [store.ErrRejected].
func serverText(text string) string {
	if _, after, ok := strings.Cut(text, store.ErrRejected.Error()+": "); ok {
		return after
	}
	return text
}
