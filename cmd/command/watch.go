package command

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// settled is how long files must be unchanged before they are read, because
	// they are often written in several steps. If they keep changing, they are read after
	// patient.
	settled = 200 * time.Millisecond
	patient = 600 * time.Millisecond

	// glance is how often the files are checked without an event, since not every file system
	// reports changes.
	glance     = 10 * time.Second
	glanceOnly = 500 * time.Millisecond // if there is no watcher, or not for every folder

	// maxFolders is how many folders are watched at most; files in others are only checked at
	// intervals.
	maxFolders = 1000
)

// becauseFile and becauseSignal are the reasons why a concern is read again.
const becauseFile, becauseSignal = "file", "SIGHUP"

var errTooManyFolders = fmt.Errorf("more than %d folders", maxFolders)

// concern is something that is read from files, and read again when they change.
type concern struct {
	// files returns its files, and the folders in which more of them may be created. It is
	// called again each time.
	files func() (files, folders []string)
	// read reads it again. because is becauseFile or becauseSignal.
	read func(because string)

	seen map[string]fs.FileInfo
}

// watcher reads concerns again: each one when its files change, and all of them when the process gets SIGHUP, unless that
// ends the process.
type watcher struct {
	log      *zap.Logger
	concerns []*concern

	// ends reports whether SIGHUP ends the process, by a call of end; nil for never.
	ends func(namesFile bool) bool
	end  context.CancelFunc

	manager *manager // learns when something is read again
}

// start begins to watch. stop ends it, and waits until no concern is being read.
func (w *watcher) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it; Notify would undo that
		signal.Notify(hangup, syscall.SIGHUP)
	}
	var notify *fsnotify.Watcher
	if w.namesFile() {
		var err error
		if notify, err = fsnotify.NewWatcher(); err != nil {
			w.log.Warn("cannot watch files: they are read again at intervals", zap.Error(err))
			notify = nil
		}
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

// namesFile reports whether there is a file, or a folder of files, that could change.
func (w *watcher) namesFile() bool {
	return slices.ContainsFunc(w.concerns, func(c *concern) bool {
		files, folders := c.files()
		return len(files)+len(folders) > 0
	})
}

func (w *watcher) run(ctx context.Context, hangup <-chan os.Signal, eyes *eyes) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	if eyes.notify != nil {
		events, errs = eyes.notify.Events, eyes.notify.Errors
	}
	// The first look finds changes since the concerns were first read.
	quiet := time.NewTimer(settled)
	defer quiet.Stop()
	var first time.Time // of the first event since the last look
	pause := eyes.pause
	if !w.namesFile() {
		pause = func() time.Duration { return math.MaxInt64 }
	}
	for {
		look := time.NewTimer(pause())
		select {
		case <-ctx.Done():
			look.Stop()
			return
		case <-hangup:
			if w.ends == nil || !w.ends(w.namesFile()) {
				w.look(becauseSignal, eyes)
				break
			}
			w.log.Info("stopping on SIGHUP")
			// A second SIGHUP changes nothing: a shell repeats the one that its terminal sent.
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			w.end()
			return
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
			w.log.Warn("the file watcher failed: all files are checked again", zap.Error(err))
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

// look reads the concerns that have changed, or all of them after a signal.
func (w *watcher) look(because string, eyes *eyes) {
	begun := false
	read := func(c *concern, because string) {
		if !begun {
			begun = true
			w.manager.reloading()
		}
		c.read(because)
	}
	defer func() {
		if begun {
			w.manager.reloaded()
		}
	}()
	// The folders are watched before the files are checked, so that no change is missed.
	eyes.turn(w.concerns)
	for _, c := range w.concerns {
		if c.changed() || because == becauseSignal {
			read(c, because)
		}
	}
	// What was read may name other files, which may have changed before their folders were watched.
	eyes.turn(w.concerns)
	for _, c := range w.concerns {
		if c.changed() {
			read(c, becauseFile)
		}
	}
}

// changed reports whether the list of files, or any of them by its metadata, has changed since the last call.
func (c *concern) changed() bool {
	files, _ := c.files()
	now := make(map[string]fs.FileInfo, len(files))
	same := true
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil {
			st = nil // read reports the error
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

// eyes is the set of watched folders.
type eyes struct {
	log    *zap.Logger
	notify *fsnotify.Watcher // nil if it could not be created
	blind  map[string]bool   // folders that it could not watch
}

// pause returns the time until the files are checked without an event.
func (e *eyes) pause() time.Duration {
	if e.notify == nil || len(e.blind) > 0 {
		return glanceOnly
	}
	return glance
}

// turn watches the folders that affect the concerns, and no others. It watches folders, not files, because
// files are often replaced instead of written. Some files are reached over links, each of which may be
// replaced.
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
				continue // its folder is in want already
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
			continue // the event for its creation comes from its parent folder
		}
		err := errTooManyFolders
		if n++; n <= maxFolders {
			err = e.notify.Add(dir) // even if it is watched: it may have been replaced by a new folder
		}
		if err != nil {
			if blind[dir] = true; !e.blind[dir] {
				e.log.Warn("cannot watch folder: it is read again at intervals", zap.String("folder", dir), zap.Error(err))
			}
		}
	}
	e.blind = blind
}

// maxLinks is the most links of a path that are followed.
const maxLinks = 40

// roads adds the folders in which a change can affect what path leads to: the folder of path, or the nearest
// existing one above it, and the folder of every link on the way.
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

// firstLink returns the first symbolic link in path, and the rest of path behind it, or "" if there is no
// link.
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
