package proxy

import (
	"errors"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
)

// ReloadAdapters reads the adapter files again and applies all valid ones in one step. An invalid file
// keeps its last valid version, and the log names the error. Calls in flight finish on the version
// they began with. Clients are notified when the list of tools has changed. because is logged as the
// reason for the reload.
func (srv *Server) ReloadAdapters(because string) {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	a := srv.adapters
	if a == nil || srv.host.Draining.Err() != nil {
		return
	}
	changed, wrong, err := a.Refresh(srv.renewOwn)
	if err != nil || wrong {
		srv.metrics.AdapterReloads.WithLabelValues("failure").Inc()
		srv.host.Log.Error("adapter files are invalid: the last valid version of each stays in use", zap.String("because", because), zap.Error(err))
	}
	if changed {
		if !wrong && err == nil {
			srv.metrics.AdapterReloads.WithLabelValues("success").Inc()
		}
		srv.host.Log.Info("adapters changed", zap.String("because", because), zap.Int("adapters", a.Number()))
	}
}

// renewOwn makes a new catalog of dragoman's own tools and applies it. srv.reloading must be held.
func (srv *Server) renewOwn() error {
	was := srv.now()
	next := *was
	shaping, unshaped := shape.New(was.cfg, was.keys, srv.adapters.Rules(), was.shaping, srv.shapes)
	if unshaped == nil {
		next.shaping = shaping
	}
	var err error
	if next.own, err = owntools.New(was.table, owntools.WithMore(srv.own, next.shaping), was.cfg.Adapters.Instructions, was.own); err != nil {
		return errors.Join(unshaped, err)
	}
	if err := next.admits(); err != nil {
		return errors.Join(unshaped, err)
	}
	srv.use(&next)
	return unshaped
}

// use makes next the current setup, and notifies clients if the list of dragoman's own tools has
// changed.
func (srv *Server) use(next *setup) {
	was := srv.setup.Swap(next)
	if was != nil {
		was.own.ReplacedBy(next.own)
	}
	srv.connected()
}
