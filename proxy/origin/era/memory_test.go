package era

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// userCache makes a directory the user's, for one test, and returns the path of the file with what servers turned out to be.
func userCache(t *testing.T) string {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", os.Getenv("HOME"))
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(cache, "dragoman", "servers.json")
}

func TestUserMemory(t *testing.T) {
	file := userCache(t)
	command := []string{"npx", "server", "--token=hunter2"}
	here, there := t.TempDir(), t.TempDir()
	m := UserMemory(command, here, "1.0")
	if r, ok := m.Recall(); ok {
		t.Errorf("recalls %+v", r)
	}
	want := Remembered{Modern: true, Server: identity(`{"name":"s","version":"1"}`)}
	m.Remember(want)
	if r, ok := UserMemory(command, here, "1.0").Recall(); !ok || r != want {
		t.Errorf("recalls %+v, %t", r, ok)
	}
	for name, other := range map[string]Memory{
		"another command":   UserMemory(command[:2], here, "1.0"),
		"another split":     UserMemory([]string{"npx", "server --token=hunter2"}, here, "1.0"),
		"another directory": UserMemory(command, there, "1.0"),
		"another version":   UserMemory(command, here, "1.1"),
	} {
		if r, ok := other.Recall(); ok {
			t.Errorf("%s recalls %+v", name, r)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, clear := range []string{"hunter2", "npx", here} {
		if strings.Contains(string(text), clear) {
			t.Errorf("the file has %q in clear: %s", clear, text)
		}
	}
	UserMemory(command, here, "1.0").Forget()
	if r, ok := m.Recall(); ok {
		t.Errorf("recalls %+v after it was told to forget", r)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); err != nil || len(left) != 1 {
		t.Errorf("%q, %v", left, err)
	}
}

// TestUserMemoryIsBounded: the entries that were written first go first.
func TestUserMemoryIsBounded(t *testing.T) {
	userCache(t)
	synctest.Test(t, func(t *testing.T) {
		entryOf := func(n int) Memory { return UserMemory([]string{fmt.Sprint(n)}, "/", "1.0") }
		all := make(map[string]entry)
		for n := range maxRemembered {
			u := entryOf(n).(*userMemory)
			all[u.key] = entry{Remembered{Server: hash("s")}, time.Now()}
			time.Sleep(time.Second)
		}
		entryOf(0).(*userMemory).write(all)
		for n := range 2 {
			entryOf(maxRemembered + n).Remember(Remembered{Modern: true})
		}
		for n, want := range map[int]bool{0: false, 1: false, 2: true, maxRemembered: true, maxRemembered + 1: true} {
			if _, ok := entryOf(n).Recall(); ok != want {
				t.Errorf("entry %d: %t", n, ok)
			}
		}
		if n := len(entryOf(0).(*userMemory).read()); n != maxRemembered {
			t.Errorf("%d entries", n)
		}
	})
}

// TestUserMemoryWithoutAFile: what cannot be kept is not, and nothing fails.
func TestUserMemoryWithoutAFile(t *testing.T) {
	file := userCache(t)
	m := UserMemory([]string{"s"}, "", "1.0")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "null", "{", `{"a":1}`, `[]`, strings.Repeat(" ", maxMemory) + "{}"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := m.Recall(); ok {
			t.Errorf("%.20q: recalled", text)
		}
		m.Forget()
		m.Remember(Remembered{Modern: true})
		if r, ok := m.Recall(); !ok || !r.Modern {
			t.Errorf("%.20q: recalls %+v", text, r)
		}
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Dir(file), nil, 0o600); err != nil { // where the directory should be
		t.Fatal(err)
	}
	m.Remember(Remembered{Modern: true})
	m.Forget()
	if _, ok := m.Recall(); ok {
		t.Error("recalled")
	}
	t.Setenv("HOME", "")
	t.Setenv("LocalAppData", "")
	m = UserMemory([]string{"s"}, "", "1.0")
	m.Remember(Remembered{Modern: true})
	if _, ok := m.Recall(); ok {
		t.Error("recalled without a home")
	}
}
