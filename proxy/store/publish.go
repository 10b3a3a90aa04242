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
	names, err := s.vault.names(key)
	if err != nil {
		return err
	}
	if len(message) > MaxMessage {
		return fmt.Errorf("publish: %w: %d bytes, of at most %d", ErrTooLarge, len(message), MaxMessage)
	}
	kept := s.vault.seal(key, message)
	return s.ask(ctx, "publish", key, func(ctx context.Context) error { return s.engine.Publish(ctx, names[0], kept) })
}

// Subscribe calls message with what is published in the channel, and missed each time that it begins to listen, the first time
// too: what was published before has not been seen, so that the subscriber loads it. One of them is called at a time; neither
// may wait. Subscribe returns at once. It ends when the Store is closed, or by stop, which waits for a call under way.
func (s *Store) Subscribe(name string, message func([]byte), missed func()) (stop func()) {
	key := channel(name)
	names, err := s.vault.names(key)
	if err != nil {
		panic(err) // the name of a channel is part of the program
	}
	ctx, cancel := context.WithCancel(s.health.ctx)
	var one sync.Mutex
	var running sync.WaitGroup
	for _, at := range names {
		running.Add(1)
		if !s.health.spawn(func(context.Context) {
			defer running.Done()
			s.engine.Subscribe(ctx, at, func(kept []byte) {
				if plain, err := s.vault.open(key, kept); err == nil {
					one.Lock()
					defer one.Unlock()
					message(plain)
				}
			}, func() {
				one.Lock()
				defer one.Unlock()
				missed()
			})
		}) {
			running.Done()
		}
	}
	return func() {
		cancel()
		running.Wait()
	}
}
