package redisstore

import (
	"context"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

// waiting is how many messages may wait for a subscriber. With more, some are dropped, and the subscriber is told.
const waiting = 1024

// How long a lost subscription waits before it begins again.
const (
	pauseLeast = 50 * time.Millisecond
	pauseMost  = 2 * time.Second
)

// Subscribe implements [store.Engine].
func (e *Engine) Subscribe(ctx context.Context, channel string, message func([]byte), connected func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	// The client reads all answers in one goroutine, which must not wait for a subscriber.
	messages, missed := make(chan []byte, waiting), make(chan struct{}, 1)
	miss := func() {
		select {
		case missed <- struct{}{}:
		default:
		}
	}
	go e.listen(ctx, channel, func(text []byte) {
		select {
		case messages <- text:
		default:
			miss()
		}
	}, miss)
	for {
		select {
		case <-ctx.Done():
			return
		case <-missed:
			connected()
		case text := <-messages:
			message(text)
		}
	}
}

// listen subscribes until ctx ends, again after each failure.
func (e *Engine) listen(ctx context.Context, channel string, message func([]byte), connected func()) {
	pause := pauseLeast
	for ctx.Err() == nil {
		began := time.Now()
		if client, err := e.connected(ctx); err == nil {
			hook := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
				if s.Kind == "subscribe" {
					connected()
				}
			})
			_ = client.Receive(hook, client.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
				message([]byte(m.Message))
			}) // whatever the reason for its end, it begins again
		}
		if time.Since(began) > pauseMost {
			pause = pauseLeast
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + mathrand.N(pause)):
		}
		pause = min(2*pause, pauseMost)
	}
}
