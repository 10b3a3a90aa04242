package proxy

import (
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/setup"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storeconfig"
)

// openStore opens the store that first names. It does not connect yet.
func (srv *Server) openStore(first *setup.Setup, log *zap.Logger) (err error) {
	if first.Config.Store.URL == "" {
		srv.store, err = storeconfig.Open(&first.Config, nil, store.Options{})
		return err
	}
	counts := srv.Metrics.NewStore()
	var down time.Time // the one goroutine that tells the next of two changes begins after the first
	srv.store, err = storeconfig.Open(&first.Config, first.Keys, store.Options{
		Observe: func(op store.Operation) {
			counts.Operations.WithLabelValues(op.Name, op.Kind, string(op.Outcome)).Inc()
			if op.Outcome != store.Skipped && op.Outcome != store.TooLarge {
				counts.Seconds.WithLabelValues(op.Name).Observe(op.Took.Seconds())
			}
		},
		Changed: func(up bool, why error) {
			if !up {
				down = time.Now()
				counts.Up.Set(0)
				log.Warn("the store is down: ordinary calls go on, and what needs the store fails until it answers again", zap.Error(why))
				return
			}
			counts.Up.Set(1)
			log.Info("the store is there again", zap.Duration("after", time.Since(down).Round(time.Millisecond)))
		},
	})
	return err
}

// register tells the other replicas, by the store, where this one is.
func (srv *Server) register(listener net.Addr) {
	cfg := &srv.Now().Config
	if !srv.store.Shared() {
		return
	}
	at, err := cfg.Store.Reached(listener)
	if err != nil {
		srv.Host.Log.Warn("other replicas cannot find this one, and calls that only it can serve fail elsewhere: set store.advertise to an address at which they reach it", zap.Error(err))
		return
	}
	srv.Host.Log.Info("other replicas find this one in the store", zap.String("address", at))
	srv.Replicas.Register(at)
}
