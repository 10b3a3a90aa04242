package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestWebPagesLogInThroughTheProxy lets pages of other origins log in through the proxy and call a tool, in a real browser,
// which sends preflight requests and hides answers that CORS does not allow the page to read: a page of our own, and the
// published Inspector in its direct mode, in which the page itself speaks to the server.
func TestWebPagesLogInThroughTheProxy(t *testing.T) {
	testset.Need(t, testset.Peers, "chromium", "node", "npm")
	t.Parallel()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	m := nodePeers(t)
	inspector, err := inspectorPage()
	if err != nil {
		t.Fatal(err)
	}
	proxy := build(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	browser, cancel := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)...)
	defer cancel()
	browser, cancel = chromedp.NewContext(browser)
	defer cancel()
	if err := chromedp.Do(browser); err != nil {
		t.Fatal(err)
	}
	own, unlisted, inspecting := website(t, os.DirFS("peers"), "page.html"), website(t, os.DirFS("peers"), "page.html"), website(t, inspector, "index.html")
	for mode, pages := range map[string]map[string]func(*testing.T, *tab, string){
		"own":   {own: ownPage, unlisted: unlistedPage, inspecting: inspectDirectly},
		"apart": {inspecting: inspectDirectly},
	} {
		t.Run(mode+" authorization server", func(t *testing.T) {
			port := freePort(t)
			to := endpoint{over: streamable, url: "http://127.0.0.1:" + port + "/mcp", stderr: &output{}}
			flags := []string{"--config", config(t, "cors: {origins: ['"+own+"', '"+inspecting+"']}\n")}
			err := proxy.serve(ctx, streamable, to, flags, func(served endpoint) error {
				defer guardedServer(t, m, port, served.url, mode)()
				for origin, visit := range pages {
					tab := newTab(t, browser, origin)
					visit(t, tab, served.url)
					tab.close()
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v\n%s", err, to.stderr)
			}
		})
	}
}

// ownPage checks that peers/page.html, which does each step of a login by fetch(), reaches its end.
func ownPage(t *testing.T, b *tab, served string) {
	want := []string{"initialize 401 challenge Bearer", "prm 200", "asm 200", "register 201", "authorize true", "token 200", "initialize 200 session true", "call 200 true", "end"}
	if said := b.readPage(t, served); !slices.EqualFunc(strings.Split(said, "\n"), want, strings.HasPrefix) {
		t.Errorf("the page says\n%s", said)
	}
	b.mustSee(t, "OPTIONS "+served+" 204", "POST "+served+" 401", "POST "+served+" 200")
}

// unlistedPage checks that the browser lets a page of an origin that is not configured send nothing and read nothing.
func unlistedPage(t *testing.T, b *tab, served string) {
	if said := b.readPage(t, served); said != "failed: TypeError: Failed to fetch\nend" {
		t.Errorf("the page says\n%s", said)
	}
	for _, request := range b.requests() {
		if strings.HasPrefix(request, "POST "+served) {
			t.Errorf("after the preflight the browser sent %s", request)
		}
	}
}

// readPage opens peers/page.html and returns what it says at its end.
func (b *tab) readPage(t *testing.T, served string) string {
	t.Helper()
	b.run(t, chromedp.Navigate(b.origin+"/?base="+url.QueryEscape(strings.TrimSuffix(served, "/mcp"))),
		until(`document.getElementById("out").textContent.endsWith("end\n")`))
	return strings.TrimSpace(b.read(t, "#out"))
}

// inspectDirectly does what a person does in the Inspector: choose a direct connection, connect, log in, and run a tool.
func inspectDirectly(t *testing.T, b *tab, served string) {
	b.run(t, chromedp.Navigate(b.origin+"/?transport=streamable-http&serverUrl="+url.QueryEscape(served)),
		chromedp.Click("#connection-type-select"), chromedp.Click(`//*[@role="option"][contains(., "Direct")]`),
		press(`//button[contains(., "Connect")]`), // the page then goes to the authorization server and comes back
		press(`//button[contains(., "List Tools")]`), press(`//span[text()="whoami"]`), press(`//button[contains(., "Run Tool")]`))
	result := b.read(t, `//h4[contains(., "Tool Result")]/..`)
	if !strings.Contains(result, "Success") {
		t.Errorf("the tool's result reads %q", result)
	}
	b.mustSee(t, "OPTIONS "+served+" 204", "POST "+served+" 401", "POST "+served+" 200", "POST …/token 200")
}

// until waits until an expression of the page is true. The document that the tab had before its last step may be asked first: it
// is asked again when that one ends.
func until(expression string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, at *chromedp.Target) (chromedp.Void, error) {
		for {
			v, err := chromedp.Poll[chromedp.Void](expression)(ctx, at)
			if err == nil || !strings.Contains(err.Error(), "Cannot find context with specified id") && !strings.Contains(err.Error(), "Execution context was destroyed") && !strings.Contains(err.Error(), "Inspected target navigated or closed") {
				return v, err
			}
		}
	}
}

// press clicks an element when there is one, even where a hint lies over it.
func press(xpath string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.WaitVisible(xpath),
		chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue.click()", xpath)))
}

// tab is a tab of the browser.
type tab struct {
	origin string // of the page that it shows first
	ctx    context.Context
	close  context.CancelFunc

	mu  sync.Mutex
	saw map[network.RequestID]string
	all []string
}

func newTab(t *testing.T, browser context.Context, origin string) *tab {
	b := &tab{origin: origin, saw: map[network.RequestID]string{}}
	b.ctx, b.close = chromedp.NewContext(browser)
	err := chromedp.Listen(b.ctx, func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *network.EventRequestWillBeSent:
			b.saw[e.RequestID] = e.Request.Method + " " + e.Request.URL
		case *network.EventResponseReceived:
			b.all = append(b.all, fmt.Sprint(b.saw[e.RequestID], " ", e.Response.Status))
		}
	})
	if err == nil {
		_, err = chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// requests returns method, URL and status of the requests that were answered.
func (b *tab) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.all)
}

// mustSee waits until each of want is among the requests that were answered; … stands for any text. The browser may report
// them after the page has shown what came of them.
func (b *tab) mustSee(t *testing.T, want ...string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := b.requests()
		want = slices.DeleteFunc(want, func(w string) bool {
			return slices.ContainsFunc(got, func(request string) bool { return matches(request, w) })
		})
		if len(want) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// run does what a person does in the tab, and fails the test with what the page shows if it takes too long.
func (b *tab) run(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		shows, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("%v\nThe requests were\n%s\nThe page shows\n%s", err, strings.Join(b.requests(), "\n"), shows)
	}
}

// read returns the visible text of an element, for which it waits.
func (b *tab) read(t *testing.T, element string) (text string) {
	t.Helper()
	b.run(t, func(ctx context.Context, at *chromedp.Target) (none chromedp.Void, err error) {
		text, err = chromedp.Text(element)(ctx, at)
		return none, err
	})
	return text
}

// website serves files until the test ends, and the page index at each path that has no file.
func website(t *testing.T, files fs.FS, index string) (origin string) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if _, err := fs.Stat(files, name); err != nil || name == "" {
			name = index
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// The last Inspector that has a direct mode; the page of later ones speaks only to the Inspector's own process.
const (
	inspectorPackage = "@modelcontextprotocol/inspector-client@1.0.3"
	inspectorFile    = "modelcontextprotocol-inspector-client-1.0.3.tgz"
	inspectorSum     = "94xOP+Cwf7rMbT5qt7guEAN9T9aDGv90cI8QVg2MmsFoUX1jmo6cQy3KQ11UnTenssBFYRK0GwXz27AwZ3w2qg=="
)

// inspectorPage returns the files of the published Inspector's page. They are complete in its package: the 400 packages
// that it was built of are not installed.
func inspectorPage() (fs.FS, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "dragoman", "e2e")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	packed, err := os.ReadFile(filepath.Join(dir, inspectorFile))
	if err != nil {
		fresh, err := os.MkdirTemp(dir, "installing-") // another process may run the same test
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(fresh)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		npm := exec.CommandContext(ctx, "npm", "pack", "--silent", inspectorPackage)
		npm.Dir = fresh
		if out, err := npm.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("npm pack %s: %w\n%s", inspectorPackage, err, out)
		}
		if err := os.Rename(filepath.Join(fresh, inspectorFile), filepath.Join(dir, inspectorFile)); err != nil {
			return nil, err
		}
		if packed, err = os.ReadFile(filepath.Join(dir, inspectorFile)); err != nil {
			return nil, err
		}
	}
	if sum := sha512.Sum512(packed); base64.StdEncoding.EncodeToString(sum[:]) != inspectorSum {
		return nil, fmt.Errorf("%s in %s is not the published one", inspectorFile, dir)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	files := fstest.MapFS{}
	for all := tar.NewReader(unzipped); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return fs.Sub(files, "package/dist")
		} else if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(all)
		if err != nil {
			return nil, err
		}
		files[header.Name] = &fstest.MapFile{Data: content}
	}
}
