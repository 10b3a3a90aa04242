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
	text, what := err.Error(), ""
	switch {
	case errors.Is(err, store.ErrRejected) && strings.Contains(text, "NOAUTH"):
		what = "the store wants a password"
	case errors.Is(err, store.ErrRejected) && (strings.Contains(text, "WRONGPASS") || strings.Contains(text, "without any password")):
		what = "the store refuses the user or the password: " + e.quote(serverText(text))
	case errors.Is(err, store.ErrRejected):
		what = "the store refuses what dragoman needs: " + e.quote(serverText(text))
	case strings.Contains(text, "x509:") || strings.Contains(text, "tls:"):
		what = "TLS: " + e.quote(serverText(text))
	default:
		what = "the store does not answer: " + cause(err)
	}
	do, _, _ := strings.Cut(store.Advice(err), " dragoman doctor")
	e.fail(what, where, do)
}

// serverText returns what the server has said in the text of a [store.ErrRejected].
func serverText(text string) string {
	if _, after, ok := strings.Cut(text, store.ErrRejected.Error()+": "); ok {
		return after
	}
	return text
}
