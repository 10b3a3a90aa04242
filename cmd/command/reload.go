package command

import (
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// maxWatched is the maximum number of bytes of a file that are compared to see whether it has changed.
const maxWatched = 4 << 20

// reloader reads the configuration again when the process gets SIGHUP, or when
// the content of one of its files has changed.
type reloader struct {
	log  *zap.Logger
	load func() (config.Config, error)
	use  func(config.Config) error // keeps the old configuration if it fails

	file     string   // that the configuration is read from; "" for none
	inUse    []string // the files that the configuration in use names
	rejected []string // those of the last configuration, if it could not be used: it is tried again when they change
	sums     map[string][sha256.Size]byte
}

// newReloader returns a reloader of the configuration of s, which is cfg now. [reloader.applyTo] must be called before its use.
func newReloader(s *settings, args []string, cfg config.Config) *reloader {
	return &reloader{
		load: func() (config.Config, error) { return s.config(args) },
		file: s.configFile(), inUse: cfg.Files(),
	}
}

// applyTo makes r apply what it reads to srv, and to the level and the form of its log.
func (r *reloader) applyTo(srv *proxy.Server, log *zap.Logger, level zap.AtomicLevel) {
	r.log = log
	r.use = func(cfg config.Config) error {
		if err := srv.Reload(cfg); err != nil {
			return err
		}
		stderr.form.set(cfg.Log.Format)
		return level.UnmarshalText([]byte(cfg.Log.Level))
	}
}

// files returns the files that r watches.
func (r *reloader) files() (all []string) {
	if r.file != "" {
		all = append(all, r.file)
	}
	return slices.Concat(all, r.inUse, r.rejected)
}

// concern returns the files that r watches, as a concern.
func (r *reloader) concern() *concern {
	r.changed()
	return &concern{
		files: func() (files, folders []string) { return r.files(), nil },
		read: func(because string) {
			if r.changed() || because != becauseFile {
				r.reload(because)
			}
		},
	}
}

// changed reports whether the content of any file has changed since the last call.
func (r *reloader) changed() bool {
	now := make(map[string][sha256.Size]byte)
	for _, file := range r.files() {
		now[file] = [sha256.Size]byte{}                                         // for a file that is not there, which is another one than an empty file
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() { // a pipe is read once, and its end would be waited for
			continue
		}
		if f, err := os.Open(file); err == nil {
			h := sha256.New()
			_, _ = io.Copy(h, io.LimitReader(f, maxWatched)) // load reports the error
			f.Close()
			now[file] = [sha256.Size]byte(h.Sum(nil))
		}
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
		r.rejected = cfg.Files()
		r.changed() // before the files are read, so that a later change is noticed
		if err = r.use(cfg); err == nil {
			r.inUse, r.rejected = r.rejected, nil
			maps.DeleteFunc(r.sums, func(file string, _ [sha256.Size]byte) bool { return !slices.Contains(r.files(), file) })
		}
	}
	if err != nil {
		r.log.Error("configuration is invalid: the last valid one stays in use", zap.String("because", because), zap.Error(err))
		return
	}
	r.log.Info("new configuration", zap.String("because", because))
}
