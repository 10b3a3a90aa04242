package main

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
)

// settled is how long files must have been left alone before they are read: they
// are often written in several steps.
const settled = 200 * time.Millisecond

// maxWatched bounds what is read of a file to see whether it has changed.
const maxWatched = 4 << 20

// reloader reads the configuration anew when the process gets SIGHUP, or when
// what is in one of its files is no longer the same.
type reloader struct {
	log  *zap.Logger
	load func() (proxy.Config, error)
	use  func(proxy.Config) error // keeps the old one when it fails

	files []string
	sums  map[string][sha256.Size]byte
}

// files are those that a configuration is made of.
func filesOf(config string, cfg proxy.Config) []string {
	all := []string{
		config, cfg.Session.KeyFile, cfg.TLS.Cert, cfg.TLS.Key,
		cfg.Upstream.CAFile, cfg.Upstream.ClientCert, cfg.Upstream.ClientKey,
	}
	return slices.DeleteFunc(all, func(file string) bool { return file == "" })
}

// start watches until the function it returns is called, which waits for the end.
func (r *reloader) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	r.changed()
	watch := r.watch()
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx, hangup, watch) })
	return func() {
		cancel()
		running.Wait()
		signal.Stop(hangup)
		if watch != nil {
			watch.Close()
		}
	}
}

// watch watches the folders that the files are in, since files are replaced
// rather than written, and folders of mounted ones too. nil when that cannot be
// had: then there is still SIGHUP.
func (r *reloader) watch() *fsnotify.Watcher {
	if len(r.files) == 0 {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		r.log.Warn("files are not watched", zap.Error(err))
		return nil
	}
	for _, file := range r.files {
		if err := w.Add(filepath.Dir(file)); err != nil {
			r.log.Warn("file is not watched", zap.String("file", file), zap.Error(err))
		}
	}
	return w
}

func (r *reloader) run(ctx context.Context, hangup <-chan os.Signal, w *fsnotify.Watcher) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	if w != nil {
		events, errs = w.Events, w.Errors
	}
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.changed()
			r.reload("SIGHUP")
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			quiet.Reset(settled)
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			r.log.Warn("watching files", zap.Error(err))
		case <-quiet.C:
			if r.changed() {
				r.reload("file")
			}
		}
	}
}

// changed reports whether any file holds something else than when last asked.
func (r *reloader) changed() bool {
	now := make(map[string][sha256.Size]byte)
	for _, file := range r.files {
		h := sha256.New()
		if f, err := os.Open(file); err == nil {
			_, _ = io.Copy(h, io.LimitReader(f, maxWatched)) // what cannot be read is told by loading it
			f.Close()
		}
		now[file] = [sha256.Size]byte(h.Sum(nil))
	}
	same := len(now) == len(r.sums)
	for file, sum := range now {
		same = same && r.sums[file] == sum
	}
	r.sums = now
	return !same
}

func (r *reloader) reload(because string) {
	cfg, err := r.load()
	if err == nil {
		err = r.use(cfg)
	}
	if err != nil {
		r.log.Error("new configuration is not used", zap.String("because", because), zap.Error(err))
		return
	}
	r.log.Info("new configuration", zap.String("because", because))
}
