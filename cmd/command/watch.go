package command

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// settled is how long files must have been left alone before they are read:
	// they are often written in several steps. When they never are left alone,
	// they are read after patient.
	settled = 200 * time.Millisecond
	patient = 600 * time.Millisecond

	// Not every file system tells what happens in it; then looking must do.
	glance     = 10 * time.Second
	glanceOnly = 500 * time.Millisecond // when nothing at all is told

	// The most folders that are watched; what is in others is looked at.
	maxFolders = 1000
)

// Why something is read anew.
const becauseFile, becauseSignal = "file", "SIGHUP"

var errTooManyFolders = fmt.Errorf("more than %d folders", maxFolders)

// concern is something that is read anew when it has changed on disk.
type concern struct {
	// files are what it is made of, and folders where more of it may turn up. They
	// are asked for anew each time.
	files func() (files, folders []string)
	// read reads it: what changed it, or the signal that says so, is because.
	read func(because string)

	seen map[string]fs.FileInfo
}

// watcher has concerns read when the process gets SIGHUP, or when one of their
// files is another one than it was.
type watcher struct {
	log      *zap.Logger
	concerns []*concern
}

// start watches until the function it returns is called, which waits for the end.
func (w *watcher) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("cannot watch files: they are read again at intervals", zap.Error(err))
		notify = nil
	}
	for _, c := range w.concerns {
		c.changed()
	}
	eyes := &eyes{log: w.log, notify: notify}
	eyes.turn(w.concerns)
	var running sync.WaitGroup
	running.Go(func() { w.run(ctx, hangup, eyes) })
	return func() {
		cancel()
		running.Wait()
		signal.Stop(hangup)
		if notify != nil {
			notify.Close()
		}
	}
}

func (w *watcher) run(ctx context.Context, hangup <-chan os.Signal, eyes *eyes) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	if eyes.notify != nil {
		events, errs = eyes.notify.Events, eyes.notify.Errors
	}
	// What changed between the time that the concerns were read and now.
	quiet := time.NewTimer(settled)
	defer quiet.Stop()
	var first time.Time // event since the last look
	for {
		look := time.NewTimer(eyes.pause())
		select {
		case <-ctx.Done():
			look.Stop()
			return
		case <-hangup:
			w.look(becauseSignal, eyes)
		case _, ok := <-events:
			if !ok {
				events = nil
				break
			}
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			quiet.Reset(min(settled, max(patient-now.Sub(first), 0)))
		case err, ok := <-errs:
			if !ok {
				errs = nil
				break
			}
			w.log.Warn("watching files", zap.Error(err))
			quiet.Reset(settled) // events may have been lost
		case <-quiet.C:
			first = time.Time{}
			w.look(becauseFile, eyes)
		case <-look.C:
			w.look(becauseFile, eyes)
		}
		look.Stop()
	}
}

// look has those concerns read that changed, or all of them on a signal.
func (w *watcher) look(because string, eyes *eyes) {
	// Turned first: what changes from here on is told.
	eyes.turn(w.concerns)
	for _, c := range w.concerns {
		if c.changed() || because == becauseSignal {
			c.read(because)
		}
	}
}

// changed reports whether any file is another one than when last asked.
func (c *concern) changed() bool {
	files, _ := c.files()
	now := make(map[string]fs.FileInfo, len(files))
	same := true
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil {
			st = nil // what cannot be read is told by reading it
		}
		now[file] = st
		before, known := c.seen[file]
		same = same && known && sameFile(before, st)
	}
	same = same && len(now) == len(c.seen)
	c.seen = now
	return !same
}

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// eyes are the folders that the system tells us of.
type eyes struct {
	log    *zap.Logger
	notify *fsnotify.Watcher // nil when that cannot be had
	blind  map[string]bool   // folders that it tells nothing of
}

// pause is how long to rely on being told.
func (e *eyes) pause() time.Duration {
	if e.notify == nil || len(e.blind) > 0 {
		return glanceOnly
	}
	return glance
}

// turn watches all folders that have to do with the concerns, and no others. Files
// are replaced rather than written, so that watching them would not do, and some
// are reached over links, each of which may be replaced.
func (e *eyes) turn(concerns []*concern) {
	if e.notify == nil {
		return
	}
	want := map[string]bool{}
	for _, c := range concerns {
		files, folders := c.files()
		for _, dir := range folders {
			want[filepath.Clean(dir)] = true
			roads(dir, want)
		}
		for _, file := range files {
			if st, err := os.Lstat(file); err == nil && st.Mode()&fs.ModeSymlink == 0 && want[filepath.Dir(file)] {
				continue // nothing new
			}
			roads(file, want)
		}
	}
	for _, dir := range e.notify.WatchList() {
		if !want[dir] {
			_ = e.notify.Remove(dir) // it may be gone
		}
	}
	blind := map[string]bool{}
	n := 0
	for dir := range want {
		if !isFolder(dir) {
			continue // told when it appears, by its own folder
		}
		err := errTooManyFolders
		if n++; n <= maxFolders {
			err = e.notify.Add(dir) // again: it may be another one of the same name
		}
		if err != nil {
			if blind[dir] = true; !e.blind[dir] {
				e.log.Warn("cannot watch folder: it is read again at intervals", zap.String("folder", dir), zap.Error(err))
			}
		}
	}
	e.blind = blind
}

// The most links that a path may lead over.
const maxLinks = 40

// roads adds the folders in which something decides what is at path: its own, or
// the nearest one above it that there is, and those of every link on the way.
func roads(path string, into map[string]bool) {
	for range maxLinks {
		dir := filepath.Dir(filepath.Clean(path))
		for up := filepath.Dir(dir); up != dir; dir, up = up, filepath.Dir(up) {
			if _, err := os.Stat(dir); err == nil {
				break
			}
		}
		into[dir] = true
		link, rest := firstLink(path)
		if link == "" {
			return
		}
		into[filepath.Dir(link)] = true
		target, err := os.Readlink(link)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
}

// firstLink is the first symbolic link on the way along path, and what comes
// behind it; "" without one.
func firstLink(path string) (link, rest string) {
	path = filepath.Clean(path)
	for dir := path; ; {
		if st, err := os.Lstat(dir); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			link = dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	if link == "" {
		return "", ""
	}
	rest, err := filepath.Rel(link, path)
	if err != nil {
		return "", ""
	}
	return link, rest
}

func isFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
