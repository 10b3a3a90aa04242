package page_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// This file has all uses of chromedp.

// browser is the one browser of all tests.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.stop != nil {
		browser.stop()
	}
	os.Exit(code)
}

// tab is a tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// newTab opens an empty tab. It skips the test if there is no browser.
func newTab(t *testing.T) *tab {
	t.Helper()
	testset.Need(t, testset.Browsers, "chromium")
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	browser.once.Do(func() {
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(peertest.Patience))...)
		browser.ctx, browser.stop = chromedp.NewContext(ctx)
		last := browser.stop
		browser.stop = func() { last(); cancel() }
		browser.err = chromedp.Do(browser.ctx)
	})
	if browser.err != nil {
		t.Fatal(browser.err)
	}
	ctx, cancel := chromedp.NewContext(browser.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of its first step
		t.Fatal(err)
	}
	b.size(1600, 900)
	return b
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		shows, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.t.Fatalf("%v\nThe page shows\n%s", err, shows)
	}
}

// size sets the size of what can be seen.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// media sets a feature of the medium, such as prefers-color-scheme.
func (b *tab) media(name, value string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name, Value: value}}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// until waits until an expression of the page is true. The document that a tab had before its last step may be asked first: it is
// asked again when that one ends.
func (b *tab) until(expression string) {
	b.t.Helper()
	b.do(func(ctx context.Context, tab *chromedp.Target) (chromedp.Void, error) {
		for {
			v, err := chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(0))(ctx, tab)
			if err == nil || !documentEnded(err) {
				return v, err
			}
		}
	})
}

// documentEnded reports whether an expression has no result because the tab has another document.
func documentEnded(err error) bool {
	for _, text := range []string{"Cannot find context with specified id", "Execution context was destroyed", "Inspected target navigated or closed"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// press presses a key.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(selector))
}

// shoot returns a picture of what can be seen.
func (b *tab) shoot() []byte {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}

// value returns what an expression of the page, or the promise that it is, comes to.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 60*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// The keys that have no character.
const (
	arrowDown = kb.ArrowDown
	arrowUp   = kb.ArrowUp
)

// downloadTo lets the browser save files into a folder.
func (b *tab) downloadTo(dir string) {
	b.t.Helper()
	if _, err := chromedp.CallBrowser(b.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: "allow", DownloadPath: dir}); err != nil {
		b.t.Fatal(err)
	}
}

// heap returns the bytes of the page's heap that are in use.
func (b *tab) heap() float64 {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
	usage, err := chromedp.Call(b.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	return usage.UsedSize
}

// mainThread returns how many seconds of a processor the page's main thread has used.
func (b *tab) mainThread() float64 {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{TimeDomain: "threadTicks"}); err != nil {
		b.t.Fatal(err)
	}
	got, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range got.Metrics {
		if m.Name == "TaskDuration" {
			return m.Value
		}
	}
	b.t.Fatal("the browser does not say how busy it was")
	return 0
}
