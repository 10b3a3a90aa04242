package instances

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func list(t *testing.T, dir string) []Instance {
	t.Helper()
	all, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestInstancesAreListedUntilTheyAreWithdrawn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "dragoman")
	if all := list(t, dir); len(all) != 0 {
		t.Errorf("without a directory: %v", all)
	}
	old := Instance{PID: 7, URL: "http://127.0.0.1:8809/inspect/#token=a", Server: "s", Started: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	young := old
	young.Started = old.Started.Add(time.Hour)
	first, err := Announce(dir, old)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Announce(dir, young)
	if err != nil {
		t.Fatal(err)
	}
	if all := list(t, dir); len(all) != 2 || all[0] != young || all[1] != old {
		t.Errorf("listed %+v", all)
	}
	second()
	if all := list(t, dir); len(all) != 1 || all[0] != old {
		t.Errorf("after the second was withdrawn: %+v", all)
	}
	first()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestOthersCannotReadTheURL(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	dir := filepath.Join(t.TempDir(), "dragoman")
	withdraw, err := Announce(dir, Instance{URL: "http://127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	if at, err := os.Stat(dir); err != nil || at.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", at.Mode(), err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range files {
		if at, err := os.Stat(name); err != nil || at.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, at.Mode(), err)
		}
	}
	if len(files) != 2 {
		t.Errorf("files %v", files)
	}
}

// announces is set in the process that TestInstancesOfDeadProcessesAreRemoved starts and kills.
const announces = "TEST_ANNOUNCES_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(announces); dir != "" {
		if _, err := Announce(dir, Instance{PID: os.Getpid(), URL: "http://127.0.0.1:1/"}); err != nil {
			panic(err)
		}
		os.Stdout.WriteString("ready\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
	}
	os.Exit(m.Run())
}

func TestInstancesOfDeadProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), announces+"="+dir)
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if all := list(t, dir); len(all) != 1 || all[0].PID != c.Process.Pid {
		t.Errorf("while it runs: %+v", all)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	if all := list(t, dir); len(all) != 0 {
		t.Errorf("after its end: %+v", all)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestOtherFilesAreNeitherListedNorRemoved(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "x", "b": `{"url":"http://x/"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "c.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if all := list(t, dir); len(all) > 0 {
		t.Errorf("listed %+v", all)
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("left: %v", left)
	}
}

func TestTheDirectoryIsTheUsers(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	if dir, err := Dir(); err != nil || runtime.GOOS != "windows" && dir != "/run/user/1/dragoman" {
		t.Errorf("%q, %v", dir, err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "relative")
	t.Setenv("HOME", t.TempDir())
	if dir, err := Dir(); err != nil || !filepath.IsAbs(dir) || filepath.Base(dir) != "run" {
		t.Errorf("%q, %v", dir, err)
	}
}
