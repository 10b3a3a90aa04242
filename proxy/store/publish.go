package store

import (
	"context"
	"fmt"
	"sync"
)

// MaxMessage bounds a message.
const MaxMessage = 64 << 10

// channel is the key that names a channel.
func channel(name string) Key { return Key{Kind: "channel", Name: name} }

// Publish sends a message to all that have subscribed to the channel now, this process too.
func (s *Store) Publish(ctx context.Context, name string, message []byte) error {
	key := channel(name)
	v := s.vault.Load()
	names, err := v.names(key)
	if err != nil {
		return err
	}
	if len(message) > MaxMessage {
		return fmt.Errorf("publish: %w: %d bytes, of at most %d", ErrTooLarge, len(message), MaxMessage)
	}
	kept := v.seal(key, message)
	return s.ask(ctx, "publish", key, func(ctx context.Context) error { return s.engine.Publish(ctx, names[0], kept) })
}

// Subscribe calls message with what is published in the channel, and missed each time that it begins to listen, the first time
// too: what was published before has not been seen, so that the subscriber loads it. One of them is called at a time; neither
// may wait. Subscribe returns at once. It ends when the Store is closed, or by stop, which waits for a call under way.
func (s *Store) Subscribe(name string, message func([]byte), missed func()) (stop func()) {
	if err := channel(name).check(); err != nil {
		panic(err) // the name of a channel is part of the program
	}
	ctx, cancel := context.WithCancel(s.health.ctx)
	ended := make(chan struct{})
	if !s.health.spawn(func(context.Context) {
		defer close(ended)
		for ctx.Err() == nil {
			s.listen(ctx, channel(name), message, missed)
		}
	}) {
		close(ended)
	}
	return func() {
		cancel()
		<-ended
	}
}

// listen subscribes until ctx ends or the keys are replaced.
func (s *Store) listen(ctx context.Context, key Key, message func([]byte), missed func()) {
	v, renewed := s.current()
	names, err := v.names(key)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex
	var running sync.WaitGroup
	for _, at := range names {
		running.Go(func() {
			s.engine.Subscribe(ctx, at, func(kept []byte) {
				if plain, err := v.open(key, kept); err == nil {
					one.Lock()
					defer one.Unlock()
					message(plain)
				}
			}, func() {
				one.Lock()
				defer one.Unlock()
				missed()
			})
		})
	}
	select {
	case <-ctx.Done():
	case <-renewed:
		cancel()
	}
	running.Wait()
}
