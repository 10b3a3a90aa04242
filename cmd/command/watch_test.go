package command

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// watched is a runtime that reloads its sources when they change.
type watched struct {
	*adapterrt.Runtime
	told chan []file.Problem // the problems of each reading
}

func watching(t *testing.T, sources ...file.Source) *watched {
	t.Helper()
	rt, err := adapterrt.New(adapterrt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{rt, make(chan []file.Problem, 1000)}
	if _, _, err := rt.Refresh(sources); err != nil {
		t.Fatal(err)
	}
	c := adapterConcern(func() []file.Source { return sources }, func(string) {
		problems, _, err := rt.Refresh(sources)
		if err != nil {
			t.Error(err)
		}
		w.told <- problems
	})
	stop := (&watcher{log: zap.NewNop(), concerns: []*concern{c}}).start(context.Background())
	t.Cleanup(func() { stop(); rt.Close() })
	return w
}

// becomes waits until these adapters are loaded, as name@version.
func (w *watched) becomes(t *testing.T, want ...string) {
	t.Helper()
	peertest.Eventually(t, fmt.Sprintf("%q are loaded", want), func() bool {
		var all []string
		for _, a := range w.Adapters() {
			all = append(all, a.Name+"@"+a.Version)
		}
		return slices.Equal(all, want)
	})
}

// tells waits for a problem that contains want.
func (w *watched) tells(t *testing.T, want string) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case problems := <-w.told:
			for _, p := range problems {
				if strings.Contains(p.String(), want) {
					return
				}
			}
		case <-late:
			t.Fatalf("no problem contains %q", want)
		}
	}
}

func versioned(name, version string) string {
	text := adapterFile("https://notes.example.com", "")
	text = strings.Replace(text, "notes-api", name, 1)
	return strings.Replace(text, "1.2.0", version, 1)
}

// replace writes a file next to the old one and moves it into its place.
func replace(t *testing.T, file, text string) {
	t.Helper()
	write(t, file+".new", text)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// relink moves a new link into the place of an old one, as Kubernetes does it.
func relink(t *testing.T, target, name string) {
	t.Helper()
	link(t, target, name+"_tmp")
	if err := os.Rename(name+"_tmp", name); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAChangedAdapterFileIsLoaded(t *testing.T) {
	const base = "notes-api-adapter.md"
	for name, c := range map[string]struct {
		before func(t *testing.T, dir string) string // makes 1.0.0; returns the source
		change func(t *testing.T, dir string)        // makes 2.0.0
	}{
		"written": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(dir, base), versioned("notes-api", "1.0.0"))
				return dir
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, base), versioned("notes-api", "2.0.0"))
			},
		},
		"written, named as a file": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(dir, base), versioned("notes-api", "1.0.0"))
				return filepath.Join(dir, base)
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, base), versioned("notes-api", "2.0.0"))
			},
		},
		"renamed into place": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(dir, base), versioned("notes-api", "1.0.0"))
				return dir
			},
			func(t *testing.T, dir string) {
				replace(t, filepath.Join(dir, base), versioned("notes-api", "2.0.0"))
			},
		},
		"a ConfigMap": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "..1")), base), versioned("notes-api", "1.0.0"))
				link(t, "..1", filepath.Join(dir, "..data"))
				link(t, filepath.Join("..data", base), filepath.Join(dir, base))
				return dir
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "..2")), base), versioned("notes-api", "2.0.0"))
				relink(t, "..2", filepath.Join(dir, "..data"))
				if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
					t.Fatal(err)
				}
			},
		},
		"a file behind a link": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "real")), "x"), versioned("notes-api", "1.0.0"))
				link(t, filepath.Join("..", "real", "x"), filepath.Join(mkdir(t, filepath.Join(dir, "served")), base))
				return filepath.Join(dir, "served")
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "real", "x"), versioned("notes-api", "2.0.0"))
			},
		},
		"a directory behind a link": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "releases", "1")), base), versioned("notes-api", "1.0.0"))
				link(t, filepath.Join("releases", "1"), filepath.Join(dir, "current"))
				return filepath.Join(dir, "current")
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "releases", "2")), base), versioned("notes-api", "2.0.0"))
				relink(t, filepath.Join("releases", "2"), filepath.Join(dir, "current"))
			},
		},
		"a directory that was moved in": {
			func(t *testing.T, dir string) string {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "served")), base), versioned("notes-api", "1.0.0"))
				return filepath.Join(dir, "served")
			},
			func(t *testing.T, dir string) {
				write(t, filepath.Join(mkdir(t, filepath.Join(dir, "next")), base), versioned("notes-api", "2.0.0"))
				if err := os.Rename(filepath.Join(dir, "served"), filepath.Join(dir, "old")); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "served")); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := watching(t, file.Source{Path: c.before(t, dir)})
			w.becomes(t, "notes-api@1.0.0")
			c.change(t, dir)
			w.becomes(t, "notes-api@2.0.0")
		})
	}
}

func TestAddedAndRemovedAdapterFilesAreNoticed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "yet")
	w := watching(t, file.Source{Path: dir, Recursive: true})
	w.becomes(t)
	file := filepath.Join(mkdir(t, dir), "notes-api-adapter.md")
	write(t, file, versioned("notes-api", "1.0.0"))
	w.becomes(t, "notes-api@1.0.0")

	deeper := filepath.Join(mkdir(t, filepath.Join(dir, "deep", "er")), "other-api-adapter.md")
	write(t, deeper, versioned("other-api", "1.0.0"))
	w.becomes(t, "other-api@1.0.0", "notes-api@1.0.0")
	replace(t, deeper, versioned("other-api", "2.0.0"))
	w.becomes(t, "other-api@2.0.0", "notes-api@1.0.0")

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	w.becomes(t, "other-api@2.0.0")
}

func TestABrokenChangeKeepsTheOldAndSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "notes-api-adapter.md")
	write(t, at, versioned("notes-api", "1.0.0"))
	w := watching(t, file.Source{Path: dir})
	replace(t, at, strings.Replace(versioned("notes-api", "2.0.0"), "transport: http", "transport: serial", 1))
	w.tells(t, "target.transport: Transport serial is known, not supported")
	w.becomes(t, "notes-api@1.0.0")
	replace(t, at, versioned("notes-api", "2.0.1"))
	w.becomes(t, "notes-api@2.0.1")
}

// TestManyFilesAreReadOnce checks that files that are moved into place together are read together, and not only half
// of them.
func TestManyFilesAreReadOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := watching(t, file.Source{Path: dir})
	var want []string
	began := time.Now()
	for i := range 20 {
		name := fmt.Sprintf("notes-%02d", i)
		replace(t, filepath.Join(dir, name+"-adapter.md"), versioned(name, "1.0.0"))
		want = append(want, name+"@1.0.0")
	}
	w.becomes(t, want...)
	most := 5 + int(time.Since(began)/settled) // a busy machine may pause between two files for long enough
	if n := len(w.told); n > most {
		t.Errorf("read %d times, want at most %d", n, most)
	}
}

func TestNoGoroutineOfAWatcherIsLeft(t *testing.T) {
	peertest.NoLeaks(t)
	c := adapterConcern(func() []file.Source { return []file.Source{{Path: t.TempDir()}} }, func(string) {})
	(&watcher{log: zap.NewNop(), concerns: []*concern{c}}).start(context.Background())()
}

// TestChangesAreFoundWithoutEvents checks that changes are found at intervals if the system reports no events.
func TestChangesAreFoundWithoutEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	read := make(chan string, 10)
	c := adapterConcern(func() []file.Source { return []file.Source{{Path: dir}} }, func(because string) { read <- because })
	c.changed()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w := &watcher{log: zap.NewNop(), concerns: []*concern{c}}
	running.Go(func() { w.run(ctx, nil, &eyes{log: w.log}) })
	write(t, filepath.Join(dir, "notes-api-adapter.md"), versioned("notes-api", "1.0.0"))
	select {
	case <-read:
	case <-time.After(patience):
		t.Error("not found")
	}
	stop()
	running.Wait()
}

func TestFoldersOnTheWayToAFileAreWatched(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(dir, "a", "b"))
	link(t, filepath.Join("..", "..", "c"), filepath.Join(dir, "a", "b", "one"))
	mkdir(t, filepath.Join(dir, "c"))
	link(t, filepath.Join(dir, "a", "two"), filepath.Join(dir, "c", "file"))
	link(t, "loop", filepath.Join(dir, "loop"))
	for path, want := range map[string]string{
		"a/b/plain":       "a/b",
		"a/b/one/file":    "a/b/one a/b c a",
		"missing/and/far": ".",
		"loop":            ".",
	} {
		got := map[string]bool{}
		roads(filepath.Join(dir, filepath.FromSlash(path)), got)
		wanted := map[string]bool{}
		for _, p := range strings.Fields(want) {
			wanted[filepath.Join(dir, filepath.FromSlash(p))] = true
		}
		if fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Errorf("%s: %v, want %v", path, got, wanted)
		}
	}
}

// TestNoCallFailsWhileTheFileChanges makes 200 calls a second, alternately by MCP and by the
// plain endpoints, while the watched file changes 50 times. Every tenth version is
// invalid.
func TestNoCallFailsWhileTheFileChanges(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.URL.Path) }))
	defer api.Close()
	text := func(i int) string {
		s := strings.Replace(adapterFile(api.URL, ""), "auth: {type: bearer, token_env: NOTES_TOKEN}\n", "", 1)
		s = strings.Replace(s, `"GET /notes/{id}"`, fmt.Sprintf(`"GET /v%d/{id}"`, i), 1)
		if i%10 == 9 {
			s = strings.Replace(s, "transport: http", "transport: serial", 1)
		}
		return s
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "notes-api-adapter.md")
	write(t, file, text(1))
	base, logs := serving(t, dir)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}
	defer client.CloseIdleConnections()
	post := func(path, session, body string) (string, http.Header) {
		req, err := http.NewRequest("POST", base+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return "", nil
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return "", nil
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return string(b), resp.Header
	}
	_, head := post("/mcp", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := head.Get("Mcp-Session-Id")
	const plain = `{"operation":"get_note","params":{"id":"7"}}`
	byMCP := func() string {
		s, _ := post("/mcp", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_aql_read","arguments":`+plain+`}}`)
		return strings.ReplaceAll(s, `\`, "")
	}
	byHTTP := func() string {
		s, _ := post("/adapters/notes-api/read", "", plain)
		return s
	}
	becomes := func(i int) {
		t.Helper()
		want := fmt.Sprintf(`"data":"/v%d/7"`, i)
		peertest.Eventually(t, fmt.Sprintf("version %d is live", i), func() bool { return strings.Contains(byHTTP(), want) })
	}

	ctx, stop := context.WithCancel(context.Background())
	var calls atomic.Int64
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second / 200)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-tick.C
			call := []func() string{byMCP, byHTTP}[i%2]
			running.Go(func() {
				if got := call(); !strings.Contains(got, `"success":true,"data":"/v`) {
					t.Errorf("%s", got)
				}
				calls.Add(1)
			})
		}
	})
	for i := 2; i <= 51; i++ {
		replace(t, file, text(i))
		if i%10 != 9 {
			becomes(i)
			continue
		}
		peertest.Eventually(t, fmt.Sprintf("the log says why version %d is not live", i), func() bool {
			return logs.FilterField(zap.String("problem", "Transport serial is known, not supported")).Len() > i/10
		})
		becomes(i - 1)
	}
	stop()
	running.Wait()
	if calls.Load() < 50 {
		t.Errorf("%d calls only", calls.Load())
	}
	t.Logf("%d calls", calls.Load())
}

// serving starts a server of the adapters in dir that watches them, as the command serve does.
func serving(t *testing.T, dir string) (base string, logs *observer.ObservedLogs) {
	t.Helper()
	cfg := config.Default()
	cfg.Adapters.Sources = []string{dir}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	log := zap.New(core)
	srv, err := proxy.New(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	unwatch := (&watcher{log: log, concerns: adapterConcerns(srv, cfg)}).start(ctx)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		unwatch()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String(), logs
}
