package session

import (
	"context"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/changes"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
)

// endedPause is the least time between two searches for sessions that other replicas have ended.
const endedPause = 100 * time.Millisecond

// Share makes what sessions have in the process common to all replicas that use the same store, if there is one: which of
// them were ended, and what the store has of the others. It must be called before the first session.
func (table *Table) Share() {
	s := table.Host.Shared()
	if s == nil {
		return
	}
	table.Host.Changes = changes.Open(s, table.doubtHeirs)
	marks := ended.NewShared(table.over, s, func() time.Duration { return table.Host.Config().Session.MaxAge }, table.Host.Log)
	changed := make(chan struct{}, 1)
	marks.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	table.end = marks.Add
	running, stop := context.WithCancel(context.Background())
	table.Host.Spawn(func() { marks.Run(running, store.DefaultTimeout) })
	table.Host.Spawn(func() { table.endShared(running, changed) })
	table.unshare = func() {
		stop()
		table.Host.Changes.Close()
	}
}

// Unshare ends what Share has begun.
func (table *Table) Unshare() {
	if table.unshare != nil {
		table.unshare()
	}
}

// endShared ends the sessions here that other replicas have ended, until ctx ends.
func (table *Table) endShared(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		for _, s := range table.dropEnded() {
			s.Release(mcp.Fail(mcp.SessionUnknown, "its client has ended it"))
		}
		select {
		case <-time.After(endedPause):
		case <-ctx.Done():
			return
		}
	}
}

// dropEnded forgets and returns the sessions that another replica has ended.
func (table *Table) dropEnded() (out []*Session) {
	table.mu.Lock()
	defer table.mu.Unlock()
	for id, s := range table.byID {
		if !s.Local && table.over.Has(s.Serial) {
			delete(table.byID, id)
			out = append(out, s)
		}
	}
	return out
}
