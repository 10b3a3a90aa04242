package era

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Remembered is what a server turned out to be in an earlier process of dragoman. It decides which question the server is asked
// first, and how long the answer is awaited, but never its era.
type Remembered struct {
	Modern bool   `json:"modern"` // it names a revision without a handshake
	Server string `json:"server"` // a hash of its name and version
}

// A Memory keeps what one server turned out to be beyond the end of this process. What it fails to keep costs only time.
type Memory interface {
	// Recall returns what is known; ok is false for nothing.
	Recall() (r Remembered, ok bool)
	Remember(r Remembered)
	Forget()
}

// Forgetful is a Memory that keeps nothing.
type Forgetful struct{}

func (Forgetful) Recall() (Remembered, bool) { return Remembered{}, false }
func (Forgetful) Remember(Remembered)        {}
func (Forgetful) Forget()                    {}

const (
	// maxRemembered bounds the entries of the user's file, and maxMemory its size in bytes.
	maxRemembered = 1000
	maxMemory     = 1 << 20
)

// userMemory is the entry of one command in a file of the user.
type userMemory struct{ path, key string }

// entry is what the file has about one command.
type entry struct {
	Remembered
	At time.Time `json:"at"` // when it was written
}

// UserMemory returns the Memory of a command that runs in dir, "" for the current directory: an entry of a file of the user, whose
// key is a hash of these and of dragoman's version. Without a directory for the file it keeps nothing.
func UserMemory(command []string, dir, version string) Memory {
	cache, err := os.UserCacheDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return Forgetful{}
	}
	return &userMemory{filepath.Join(cache, "dragoman", "servers.json"), hash(append([]string{version, dir}, command...)...)}
}

func (u *userMemory) Recall() (Remembered, bool) {
	e, ok := u.read()[u.key]
	return e.Remembered, ok
}

func (u *userMemory) Remember(r Remembered) {
	all := u.read()
	if all[u.key].Remembered == r {
		return
	}
	delete(all, u.key)
	for len(all) >= maxRemembered {
		oldest := ""
		for key, e := range all {
			if oldest == "" || e.At.Before(all[oldest].At) {
				oldest = key
			}
		}
		delete(all, oldest)
	}
	all[u.key] = entry{r, time.Now().UTC()}
	u.write(all)
}

func (u *userMemory) Forget() {
	all := u.read()
	if _, ok := all[u.key]; ok {
		delete(all, u.key)
		u.write(all)
	}
}

// read returns the entries of the file, none if it cannot be read.
func (u *userMemory) read() map[string]entry {
	all := make(map[string]entry)
	f, err := os.Open(u.path)
	if err != nil {
		return all
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMemory))
	if err != nil || json.Unmarshal(text, &all) != nil || all == nil {
		return make(map[string]entry)
	}
	return all
}

// write replaces the file. If that fails, nothing is remembered. Of two processes that write at the same time, one may lose what
// the other has written.
func (u *userMemory) write(all map[string]entry) {
	text, err := json.Marshal(all)
	if err != nil || os.MkdirAll(filepath.Dir(u.path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(u.path), "servers-*.new") // mode 0600
	if err != nil {
		return
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), u.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// identity returns a hash of the name and version in a serverInfo, raw JSON; "" if there is none.
func identity(info string) string {
	said := gjson.GetMany(info, "name", "version")
	if !said[0].Exists() {
		return ""
	}
	return hash(said[0].String(), said[1].String())
}

// hash returns a hash of texts that does not reveal them.
func hash(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:])
}
