package oauth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// Kind says how a [Store] keeps tokens.
type Kind string

const (
	Auto    Kind = "auto"    // in files, encrypted if there is a keyring
	Keyring Kind = "keyring" // in encrypted files only
	Memory  Kind = "memory"  // in this process only
	Shared  Kind = "store"   // in the engine that all replicas use
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Auto, Keyring, Memory, Shared} }

const (
	fileVersion = 1
	maxFile     = 256 << 10
	maxID       = 8 << 10
	lockWait    = 30 * time.Second
	lockPoll    = 20 * time.Millisecond
	maxLabel    = 80 // of a file's name, in bytes
)

// ErrUnusable is wrapped by the errors of [Entry] about a file that exists and cannot be used.
var ErrUnusable = errors.New("the stored tokens cannot be used")

// Store keeps the tokens of accounts. Tokens that cannot be written stay in memory, and a log line
// says so. Its methods are safe for concurrent use.
type Store struct {
	dir    string
	kind   Kind
	log    *zap.Logger
	sealer sealer
	open   func() (*store.Store, error) // nil unless the kind is Shared

	mu      sync.Mutex
	engine  *store.Store // of the kind Shared; nil until it is used
	opened  *store.Store // the engine, if open has returned it
	closed  bool
	entries map[string]*entry
	plain   sync.Once // logs that files are not sealed
}

// Entry is an account while it is locked.
type Entry = interface {
	// Get returns the stored data, or nil if there is none. Its errors wrap [ErrUnusable] unless the
	// data can be read once the keyring is unlocked.
	Get() ([]byte, error)
	// Put stores data, which is JSON; nil removes what is stored. After an error, data is kept
	// in memory until the process ends.
	Put(data []byte) error
}

// New returns a store of files below dir; "" stands for dragoman/credentials in the user's
// configuration directory. It accesses no file before it is used.
func New(dir string, kind Kind, log *zap.Logger) *Store {
	return &Store{dir: dir, kind: kind, log: log, entries: map[string]*entry{}}
}

// entry is the state of an account in this process.
type entry struct {
	lock   chan struct{} // full while the account is locked
	failed bool          // the last write failed

	unsaved []byte      // data that could not be written
	instead []byte      // the file's text at that time, which unsaved replaces
	retry   *time.Timer // writes unsaved to the engine later; nil if there is none
}

// held is an account that a call of Locked holds.
type held struct {
	store *Store
	entry *entry
	id    string
	path  string // "" if there is no directory for it
	none  error  // why path is "", or why there is no lock file
}

// lockFile locks the account for this process. If a lock file cannot be made, no file can be
// written either, and no other process is disturbed.
func (h *held) lockFile(ctx context.Context) (unlock func(), err error) {
	nothing := func() {}
	dir, err := h.store.directory()
	if err != nil {
		h.none = err
		return nothing, nil
	}
	h.path = filepath.Join(dir, fileName(h.id))
	path := h.path + ".lock"
	if err := regular(path); err != nil {
		return nil, err
	}
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryLockContext(ctx, lockPoll)
	switch {
	case ok:
		return func() { l.Close() }, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("another process has locked %s: %w", path, ctx.Err())
	}
	l.Close()
	h.none = err
	return nothing, nil
}

// location returns the path of the directory of the files.
func (s *Store) location() (string, error) {
	if s.dir != "" {
		return s.dir, nil
	}
	base, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no directory for tokens (set credentials): %w", err)
	}
	return filepath.Join(base, "dragoman", "credentials"), nil
}

// directory returns the directory of the files, which it makes if it does not exist.
func (s *Store) directory() (string, error) {
	dir, err := s.location()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot make the directory for tokens: %w", err)
	}
	return dir, nil
}

// fileName returns a name that begins with readable text for people and ends with a hash of
// id, so that no other account has it.
func fileName(id string) string {
	label, _, _ := strings.Cut(id, "\n")
	label = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, label)
	sum := sha256.Sum256([]byte(id))
	return label[:min(len(label), maxLabel)] + "-" + hex.EncodeToString(sum[:8]) + ".json"
}

// kept is the content of a file of the store.
type kept struct {
	Version int             `json:"version"`
	For     string          `json:"for"`
	Sealed  []byte          `json:"sealed,omitempty"`
	Plain   json.RawMessage `json:"plain,omitempty"`
}

func (h *held) Get() ([]byte, error) {
	e := h.entry
	if h.path == "" {
		return e.unsaved, nil
	}
	text, err := h.read()
	if e.unsaved != nil && (err != nil || bytes.Equal(text, e.instead)) {
		return e.unsaved, nil
	}
	e.unsaved, e.instead = nil, nil // another process has written since
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if text == nil {
		return nil, nil
	}
	data, err := h.open(text)
	if errors.Is(err, errLocked) { // the file is good
		return nil, fmt.Errorf("%w; unlock it, it has the key of %s", err, h.path)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnusable, h.path, err)
	}
	return data, nil
}

// open decodes the data in a file's text.
func (h *held) open(text []byte) ([]byte, error) {
	var k kept
	if json.Unmarshal(text, &k) != nil || k.Version == 0 {
		return nil, errors.New("the file is damaged")
	}
	switch {
	case k.Version != fileVersion:
		return nil, fmt.Errorf("the file has format version %d, this build of dragoman reads %d", k.Version, fileVersion)
	case k.For != h.id:
		return nil, errors.New("the file belongs to another account")
	case k.Sealed == nil && k.Plain == nil:
		return nil, errors.New("the file is damaged")
	case k.Sealed == nil:
		return k.Plain, nil
	}
	aead, err := h.store.sealer.get(filepath.Dir(h.path))
	if errors.Is(err, errLocked) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("the file is encrypted with a key in the keyring: %w", err)
	}
	data, err := aead.Open(nil, nil, k.Sealed, []byte(h.id))
	if err != nil {
		return nil, errors.New("the file is encrypted with another key than the one in the keyring")
	}
	return data, nil
}

// read returns the file's text, or nil if there is no file.
func (h *held) read() ([]byte, error) {
	if err := regular(h.path); err != nil {
		return nil, err
	}
	f, err := os.Open(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := h.own(f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", h.path, maxFile)
	}
	if text == nil {
		text = []byte{}
	}
	return text, err
}

// own checks that the file belongs to this user and that no other user can read it. Containers
// may mount a volume with wider permissions than its files were made with: own narrows them
// again.
func (h *held) own(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", h.path)
	}
	if runtime.GOOS == "windows" {
		return nil
	}
	if !ownedByUs(st) {
		return fmt.Errorf("%s belongs to another user", h.path)
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return fmt.Errorf("%s can be read by other users (%v): %w", h.path, mode, err)
		}
		h.store.log.Warn("other users could read stored tokens until now; if there are such users, log in again",
			zap.String("file", h.path), zap.Stringer("mode", mode))
	}
	return nil
}

// regular refuses symbolic links, which could lead out of the directory, and files that would
// block when opened.
func regular(path string) error {
	st, err := os.Lstat(path)
	switch {
	case err != nil || st.Mode().IsRegular():
		return nil // opening the file reports the error
	case st.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link", path)
	}
	return fmt.Errorf("%s is not a regular file", path)
}

func (h *held) Put(data []byte) error {
	e, log := h.entry, h.store.log
	if h.store.kind == Memory {
		e.unsaved = data
		return nil
	}
	err := h.none
	var text []byte
	if err == nil {
		text, err = h.seal(data)
	}
	if err == nil {
		err = h.write(text)
	}
	if err == nil {
		e.unsaved, e.instead = nil, nil
		if e.failed {
			log.Info("tokens are stored again", zap.String("file", h.path))
		}
		e.failed = false
		return nil
	}
	e.unsaved, e.instead = data, nil
	if h.path != "" {
		e.instead, _ = h.read()
	}
	if !e.failed {
		log.Warn("tokens cannot be stored: they are kept in memory and lost when this process ends", zap.String("file", h.path), zap.Error(err))
	}
	e.failed = true
	return err
}

// seal returns the text for the file, or nil to remove the file.
func (h *held) seal(data []byte) ([]byte, error) {
	if data == nil {
		return nil, nil
	}
	k := kept{Version: fileVersion, For: h.id}
	aead, err := h.store.sealer.get(filepath.Dir(h.path))
	switch {
	case err == nil:
		k.Sealed = aead.Seal(nil, nil, data, []byte(h.id))
	case h.store.kind == Keyring:
		return nil, err
	default:
		k.Plain = data
		if isState(h.id) { // which holds no token
			break
		}
		h.store.plain.Do(func() {
			why := "no keyring here"
			if errors.Is(err, errLocked) {
				why = errLocked.Error()
			}
			h.store.log.Info(why+": tokens are in "+h.path+", readable by you alone", zap.Error(err))
		})
	}
	text, err := json.Marshal(k)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("the tokens are too large for a file of %d bytes: %d bytes", maxFile, len(data))
	}
	return text, err
}

// write replaces the file in one step; nil removes it. After a crash, either the old file or
// the new one is there.
func (h *held) write(text []byte) error {
	if text == nil {
		if err := os.Remove(h.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDirectory(filepath.Dir(h.path))
	}
	next := h.path + ".new" // only the holder of the lock uses it; a file that a crash has left is replaced
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(next, h.path)
	}
	if err != nil {
		os.Remove(next)
		return err
	}
	return syncDirectory(filepath.Dir(h.path))
}

// ofSignIn and ofTerminal end the ids of entries about a sign-in that is going on.
const ofSignIn, ofTerminal = "\nsign-in", "\nterminal"

// isState reports whether an entry is about a sign-in that is going on, and holds no token.
func isState(id string) bool {
	return strings.HasSuffix(id, ofSignIn) || strings.HasSuffix(id, ofTerminal)
}
