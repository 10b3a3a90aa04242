package replicas

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// slowList is an engine that keeps what it has read of a set until the reading is released.
type slowList struct {
	store.Engine
	reading chan chan struct{}
}

func (e *slowList) Members(ctx context.Context, set string, skip, count int) ([]store.Member, error) {
	list, err := e.Engine.Members(ctx, set, skip, count)
	release := make(chan struct{})
	e.reading <- release
	<-release
	return list, err
}

// TestReplicaIsFoundThatRegistersDuringAList: a list that was begun before says nothing of the replica, neither to a request that
// comes while it is read, nor after a list that was begun later.
func TestReplicaIsFoundThatRegistersDuringAList(t *testing.T) {
	for name, before := range map[string]func(*Replicas){
		"of another request": func(r *Replicas) { r.registeredAt(sealed.ID{3}) },
		"of a renewal":       func(r *Replicas) { _ = r.list(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &slowList{store.NewMemory(store.Bounds{}), make(chan chan struct{}, 3)}
				s := store.New(engine, store.Options{})
				defer s.Close()
				r := New(Options{Self: sealed.ID{1}, Settings: func() Settings { return Settings{} }, Store: s, Log: zap.NewNop()})
				defer r.Close()
				go before(r)
				first := <-engine.reading // it has nothing
				time.Sleep(time.Second)
				other := sealed.ID{2}
				if err := s.Join(t.Context(), registered, append(other[:], "10.0.0.2:1"...), lease); err != nil {
					t.Fatal(err)
				}
				found := make(chan bool, 1)
				go func() {
					found <- r.registeredAt(other).address != (address{})
				}()
				synctest.Wait()
				if name == "of a renewal" { // the later list ends first
					close(<-engine.reading)
					synctest.Wait()
					close(first)
				} else {
					close(first)
					close(<-engine.reading)
				}
				if !<-found {
					t.Error("the replica was not found")
				}
				synctest.Wait()
				if len(r.stored.at) != 1 {
					t.Errorf("known: %v", r.stored.at)
				}
			})
		})
	}
}
