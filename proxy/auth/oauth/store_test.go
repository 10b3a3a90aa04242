package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

const (
	id    = "adapter github\nhttps://as.example/token\nclient-1"
	token = `{"refresh_token":"canary-refresh-token"}`
)

// stored returns a store, and what it logs.
func stored(dir string, kind Kind) (*Store, *observer.ObservedLogs) {
	core, seen := observer.New(zapcore.DebugLevel)
	return New(dir, kind, zap.New(core)), seen
}

// keyringHidden says which keyring is in place, since tests that run beside each other share it.
var keyringHidden struct {
	sync.Mutex
	is bool
}

// withoutKeyring hides the machine's keyring.
func withoutKeyring(*testing.T) {
	keyringHidden.Lock()
	defer keyringHidden.Unlock()
	if !keyringHidden.is {
		keyring.MockInitWithError(errors.New("no keyring in tests"))
		keyringHidden.is = true
	}
}

// withKeyring gives a keyring in memory, for a test that runs alone.
func withKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	keyringHidden.Lock()
	defer keyringHidden.Unlock()
	keyring.MockInit()
	keyringHidden.is = false
}

func put(t *testing.T, s *Store, data string) error {
	t.Helper()
	var err error
	if locked := s.Locked(context.Background(), id, func(e Entry) { err = e.Put([]byte(data)) }); locked != nil {
		t.Fatal(locked)
	}
	return err
}

func get(t *testing.T, s *Store) (string, error) {
	t.Helper()
	var data []byte
	var err error
	if locked := s.Locked(context.Background(), id, func(e Entry) { data, err = e.Get() }); locked != nil {
		t.Fatal(locked)
	}
	return string(data), err
}

// theFile returns the one file of a store.
func theFile(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0]
}

func TestTokensOutliveTheirProcess(t *testing.T) {
	for name, arrange := range map[string]func(*testing.T){"plain": withoutKeyring, "sealed": withKeyring} {
		t.Run(name, func(t *testing.T) {
			arrange(t)
			dir := filepath.Join(t.TempDir(), "made", "here")
			s, seen := stored(dir, Auto)
			if got, err := get(t, s); got != "" || err != nil {
				t.Error(got, err)
			}
			if err := put(t, s, token); err != nil {
				t.Fatal(err)
			}
			next, _ := stored(dir, Auto)
			if got, err := get(t, next); got != token || err != nil {
				t.Error(got, err)
			}
			path := theFile(t, dir)
			if base := filepath.Base(path); !strings.HasPrefix(base, "adapter-github-") {
				t.Error("people do not know the file:", base)
			}
			text, _ := os.ReadFile(path)
			if sealed := !bytes.Contains(text, []byte("canary")); sealed != (name == "sealed") {
				t.Errorf("%s", text)
			}
			for _, at := range []string{path, path + ".lock", dir} {
				if st, err := os.Stat(at); err != nil || runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0 {
					t.Error(at, st.Mode(), err)
				}
			}
			put(t, s, token)
			if said := seen.FilterMessageSnippet("no keyring").Len(); said != map[string]int{"plain": 1, "sealed": 0}[name] {
				t.Error("said of the keyring:", said)
			}
			if err := next.Locked(context.Background(), id, func(e Entry) { e.Put(nil) }); err != nil {
				t.Error(err)
			}
			if got, err := get(t, s); got != "" || err != nil {
				t.Error("still there:", got, err)
			}
		})
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	withKeyring(t)
	sealed := t.TempDir()
	s, _ := stored(sealed, Auto)
	put(t, s, token)
	sealedText, _ := os.ReadFile(theFile(t, sealed))
	withoutKeyring(t)
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"empty":           {[]byte{}, "damaged"},
		"cut":             {[]byte(`{"version":1,"for":"adapter`), "damaged"},
		"binary":          {[]byte{0, 1, 2, 0xff}, "damaged"},
		"a list":          {[]byte(`[1]`), "damaged"},
		"nothing in it":   {[]byte(`{"version":1,"for":` + strconv.Quote(id) + `}`), "damaged"},
		"another version": {[]byte(`{"version":2,"tokens":"x"}`), "version 2, this build of dragoman reads 1"},
		"another account": {[]byte(`{"version":1,"for":"adapter else","plain":{}}`), "another account"},
		"too large":       {bytes.Repeat([]byte{' '}, maxFile+1), "larger than"},
		"sealed":          {sealedText, "no keyring in tests"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, _ := stored(dir, Auto)
			put(t, s, token)
			path := theFile(t, dir)
			os.WriteFile(path, c.text, 0o600)
			got, err := get(t, s)
			if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) && name != "sealed" || got != "" {
				t.Error(got, err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, c.text) {
				t.Error("reading has changed the file")
			}
			if err := put(t, s, token); err != nil { // a login
				t.Error(err)
			}
			if got, err := get(t, s); got != token || err != nil {
				t.Error(got, err)
			}
		})
	}
	t.Run("sealed with another key", func(t *testing.T) {
		withKeyring(t)
		s, _ := stored(sealed, Keyring)
		if got, err := get(t, s); err == nil || !strings.Contains(err.Error(), "another key") {
			t.Error(got, err)
		}
	})
}

func TestFilesOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such permissions")
	}
	withoutKeyring(t)
	dir := t.TempDir()
	s, seen := stored(dir, Auto)
	put(t, s, token)
	path := theFile(t, dir)
	os.Chmod(path, 0o640)
	if got, err := get(t, s); got != token || err != nil {
		t.Error(got, err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 || seen.FilterMessageSnippet("could read").Len() != 1 {
		t.Error(st.Mode(), seen.All())
	}
	if os.Geteuid() == 0 {
		os.Chown(path, 65534, 65534)
		if _, err := get(t, s); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "another user") {
			t.Error(err)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	os.WriteFile(elsewhere, []byte("mine"), 0o600)
	os.Remove(path)
	os.Symlink(elsewhere, path)
	if _, err := get(t, s); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
	put(t, s, token)
	if text, _ := os.ReadFile(elsewhere); string(text) != "mine" {
		t.Errorf("written through a link: %s", text)
	}
	os.Remove(path + ".lock")
	os.Symlink(elsewhere, path+".lock")
	if err := s.Locked(context.Background(), id, func(Entry) { t.Error("ran") }); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
}

func TestWhatCannotBeWrittenStaysInMemory(t *testing.T) {
	withoutKeyring(t)
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	for name, dir := range map[string]string{"no directory": filepath.Join(file, "below"), "full disk": fullDisk(t)} {
		if dir == "" {
			continue
		}
		s, seen := stored(dir, Auto)
		for _, data := range []string{token, `{"refresh_token":"canary-second"}`} {
			err := put(t, s, data)
			if err == nil {
				t.Error(name, "was written")
			}
			if got, err := get(t, s); got != data || err != nil {
				t.Error(name, got, err)
			}
		}
		warned := seen.FilterMessageSnippet("cannot be stored")
		if warned.Len() != 1 || strings.Contains(fmt.Sprint(seen.All()), "canary") {
			t.Error(name, seen.All())
		}
	}

	dir := t.TempDir()
	s, seen := stored(dir, Auto)
	put(t, s, token)
	path := theFile(t, dir)
	os.MkdirAll(filepath.Join(path+".new", "in the way"), 0o700)
	if err := put(t, s, `{"second":2}`); err == nil {
		t.Error("was written")
	}
	if got, err := get(t, s); got != `{"second":2}` || err != nil {
		t.Error(got, err)
	}
	os.RemoveAll(path + ".new")
	other, _ := stored(dir, Auto)
	put(t, other, `{"third":3}`)
	if got, err := get(t, s); got != `{"third":3}` || err != nil {
		t.Error("another process's is newer:", got, err)
	}
	put(t, s, `{"fourth":4}`)
	if got, _ := get(t, other); got != `{"fourth":4}` || seen.FilterMessageSnippet("stored again").Len() != 1 {
		t.Error(got, seen.All())
	}
}

// fullDisk returns a directory on a file system without room, or "" if none can be made.
func fullDisk(t *testing.T) string {
	dir := t.TempDir()
	if exec.Command("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", dir).Run() != nil {
		t.Log("no full disk: mounting one needs root")
		return ""
	}
	t.Cleanup(func() { exec.Command("umount", dir).Run() })
	os.WriteFile(filepath.Join(dir, "big"), make([]byte, 8192), 0o600)
	return dir
}

func TestKeyringOrNothing(t *testing.T) {
	withoutKeyring(t)
	dir := t.TempDir()
	s, _ := stored(dir, Keyring)
	if err := put(t, s, token); err == nil {
		t.Error("was written in the clear")
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*.json*")); len(all) != 1 || !strings.HasSuffix(all[0], ".lock") {
		t.Error(all)
	}
	dir = filepath.Join(t.TempDir(), "untouched")
	s, _ = stored(dir, Memory)
	if err := put(t, s, token); err != nil {
		t.Error(err)
	}
	if got, err := get(t, s); got != token || err != nil {
		t.Error(got, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("memory alone has made a directory")
	}
}

// TestMain lets the test binary run as a second process.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("OAUTH_TEST_DIR"); os.Getenv("OAUTH_TEST_DO") {
	case "count":
		keyring.MockInitWithError(errors.New("none"))
		s := New(dir, Auto, zap.NewNop())
		for range 50 {
			count(s)
		}
		return
	case "write":
		keyring.MockInitWithError(errors.New("none"))
		s := New(dir, Auto, zap.NewNop())
		fmt.Println("begun")
		for i := 0; ; i++ {
			s.Locked(context.Background(), id, func(e Entry) {
				e.Put(fmt.Appendf(nil, `{"n":%d,"text":%q}`, i, strings.Repeat(strconv.Itoa(i%10), 20_000)))
			})
		}
	case "call":
		callAsProcess(dir)
		return
	case "locked":
		withLockedKeyring(dir)
		return
	case "hold":
		s := New(dir, Auto, zap.NewNop())
		s.Locked(context.Background(), id, func(Entry) {
			fmt.Println("held")
			time.Sleep(time.Minute)
		})
		return
	}
	peertest.WaitTogether()
	os.Exit(m.Run())
}

// count adds one to the stored number.
func count(s *Store) {
	s.Locked(context.Background(), id, func(e Entry) {
		data, _ := e.Get()
		n, _ := strconv.Atoi(string(data))
		e.Put([]byte(strconv.Itoa(n + 1)))
	})
}

func beside(t *testing.T, do, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OAUTH_TEST_DO="+do, "OAUTH_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	t.Cleanup(func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
		}
	})
	return cmd
}

func TestOneHolderOverProcesses(t *testing.T) {
	t.Parallel() // it waits most of the time
	withoutKeyring(t)
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 2 {
		cmd := beside(t, "count", dir)
		all.Go(func() {
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	s, _ := stored(dir, Auto)
	for range 4 {
		all.Go(func() {
			for range 25 {
				count(s)
			}
		})
	}
	all.Wait()
	if got, err := get(t, s); got != "200" || err != nil {
		t.Errorf("%s of 200 additions, %v", got, err)
	}
}

func TestALockEndsWithItsProcess(t *testing.T) {
	withoutKeyring(t)
	dir := t.TempDir()
	s, _ := stored(dir, Auto)
	cmd := beside(t, "hold", dir)
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 5))
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	if err := s.Locked(ctx, id, func(Entry) { t.Error("two hold it") }); err == nil || !strings.Contains(err.Error(), "another process has locked") {
		t.Error(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := put(t, s, token); err != nil { // while another process holds the lock, put waits for lockWait, and then names that process
		t.Error(err)
	}
}

func TestAKilledWriterLeavesTheOldFileOrTheNew(t *testing.T) {
	testset.WithoutRace(t, "what is beside it is another process")
	withoutKeyring(t)
	dir := t.TempDir()
	s, _ := stored(dir, Auto)
	put(t, s, `{"n":-1,"text":""}`)
	for i := range 30 {
		cmd := beside(t, "write", dir)
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 5))
		time.Sleep(time.Duration(i) * 700 * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		if got, err := get(t, s); err != nil || !strings.HasPrefix(got, `{"n":`) {
			t.Fatal(i, len(got), err)
		}
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*")); len(all) > 3 {
		t.Error("files are left:", all)
	}
}
