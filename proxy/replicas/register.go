package replicas

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

const (
	// lease is how long a replica is known after it was heard of last.
	lease = 10 * time.Second
	// renewal is how often it is heard of.
	renewal = 3 * time.Second
	// listAge is how often all replicas are listed without a request for one of them, for the page.
	listAge = time.Minute
)

// registered is the set of all replicas in the store. A member is the id of a process, and its address.
var registered = store.Key{Kind: "replicas"}

// registry knows the replicas that have told the store their addresses.
type registry struct {
	at     map[sealed.ID]address
	places map[address]struct{} // the values of at
	listed time.Time
}

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
	member := append(r.Self[:len(r.Self):len(r.Self)], address...)
	known := r.renew(ctx, member, true)
	go func() {
		defer close(ended)
		every := time.NewTicker(renewal)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				_ = r.Store.Leave(ctx, registered, member) // otherwise its lease ends
				return
			case <-every.C:
				known = r.renew(ctx, member, known)
			}
		}
	}()
}

// renew joins the set again, and lists it now and then. It returns whether the others know this process; known is what it
// returned before.
func (r *Replicas) renew(ctx context.Context, member []byte, known bool) bool {
	err := r.Store.Join(ctx, registered, member, lease)
	switch {
	case ctx.Err() != nil:
	case err != nil && known:
		r.Log.Warn("other replicas cannot find this one: the store does not take its address", zap.Error(err))
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
