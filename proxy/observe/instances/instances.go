// Package instances lets the user of a machine find the pages of the dragomans that run there. Each puts a file with the URL
// of its page, which holds the page's token, into a directory of the user's that others cannot read.
package instances

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Instance is one running dragoman.
type Instance struct {
	PID     int       `json:"pid"`
	URL     string    `json:"url"`    // of the page, with its token
	Server  string    `json:"server"` // the server that it stands in front of, without secrets
	Command string    `json:"command"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
}

const (
	maxFile  = 64 << 10
	maxFiles = 1000

	suffix     = ".json"
	lockSuffix = ".lock"
)

// Dir returns the directory of the user's instances. It may not exist yet.
func Dir() (string, error) {
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		return filepath.Join(run, "dragoman"), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory for the URLs of pages: %w", err)
	}
	return filepath.Join(cache, "dragoman", "run"), nil
}

// Announce puts the instance into dir, until withdraw is called or the process ends.
func Announce(dir string, i Instance) (withdraw func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, fmt.Sprintf("%d-*.new", i.PID)) // mode 0600
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(f.Name(), ".new")
	lock := flock.New(base+lockSuffix, flock.SetPermissions(0o600))
	withdraw = func() {
		_ = os.Remove(base + suffix)
		_ = lock.Unlock()
		_ = os.Remove(base + lockSuffix)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		var held bool
		if held, err = lock.TryLock(); err == nil && !held {
			err = fmt.Errorf("%s is locked", lock.Path())
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), base+suffix)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		withdraw()
		return nil, err
	}
	return withdraw, nil
}

// List returns the running instances in dir, the newest first, and removes the files of those that have ended.
func List(dir string) ([]Instance, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var all []Instance
	for _, e := range entries[:min(len(entries), maxFiles)] {
		base, ok := strings.CutSuffix(filepath.Join(dir, e.Name()), suffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if removedIfEnded(base) {
			continue
		}
		if i, err := read(base + suffix); err == nil {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Instance) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.PID, b.PID)) })
	return all, nil
}

// removedIfEnded removes the files of an instance whose process holds its lock no more.
func removedIfEnded(base string) bool {
	lock := flock.New(base+lockSuffix, flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil || !held {
		return false
	}
	_ = os.Remove(base + suffix)
	_ = lock.Unlock()
	_ = os.Remove(base + lockSuffix)
	return true
}

func read(name string) (i Instance, err error) {
	f, err := os.Open(name)
	if err != nil {
		return i, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return i, err
	}
	if !strings.HasPrefix(i.URL, "http://") && !strings.HasPrefix(i.URL, "https://") {
		return i, fmt.Errorf("%s: not the file of an instance", name)
	}
	return i, nil
}
