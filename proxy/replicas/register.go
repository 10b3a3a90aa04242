package replicas

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

const (
	// renewal is how often it is heard of.
	renewal = 3 * time.Second
	// listAge is how often all replicas are listed without a request for one of them: for the page, and because a replica that
	// was never listed cannot be found while the store does not answer.
	listAge = lease
)

// Register tells the others by the store that this process is at address, host:port, until Close.
func (r *Replicas) Register(address string) {
	if r.Store == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	r.mu.Lock()
	r.leave = func() {
		stop()
		<-ended
	}
	r.mu.Unlock()
	known := r.renew(ctx, r.member(address), true)
	if known {
		r.Log.Info("telling the other replicas, by the store, where this one is", zap.String("address", address))
	}
	go func() {
		defer close(ended)
		every := time.NewTicker(renewal)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = r.Store.Leave(ctx, registered, r.member(address)) // otherwise its lease ends
				return
			case <-every.C:
			case <-r.anew:
			}
			known = r.renew(ctx, r.member(address), known)
		}
	}()
}

// member returns what this process tells of itself. With another certificate it is another member; the one before ends with its lease.
func (r *Replicas) member(address string) []byte {
	m := append(r.Self[:len(r.Self):len(r.Self)], address...)
	if cert := r.Settings().Certificate; cert != nil {
		m = append(append(m, 0), certificateOf(cert.Certificate[0])...)
	}
	return m
}

// renew joins the set again, and lists it now and then. It returns whether the others know this process; known is what it
// returned before.
func (r *Replicas) renew(ctx context.Context, member []byte, known bool) bool {
	err := r.Store.Join(ctx, registered, member, lease)
	switch {
	case ctx.Err() != nil:
	case err != nil && known && store.IsDown(err): // which has a line of its own
		r.Log.Debug("other replicas cannot find this one until the store answers")
	case err != nil && known:
		r.Log.Warn("other replicas cannot find this one: the store does not take its address", zap.Error(err), zap.String("advice", store.Advice(err)))
	case err == nil && !known:
		r.Log.Info("other replicas can find this one again")
	}
	r.mu.Lock()
	old := time.Since(r.stored.listed) > listAge
	r.mu.Unlock()
	if err == nil && old {
		_ = r.list(ctx)
	}
	return err == nil
}
