package page_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe/page"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// maxSize is the size of all files of the page together, of which gzip leaves two fifths, and maxLines the lines of one.
const (
	maxSize  = 69_000
	maxLines = 400
)

func TestThePageStaysSmall(t *testing.T) {
	sum := 0
	files, err := fs.Glob(page.Files(), "*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := fs.ReadFile(page.Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		sum += len(data)
		if n := strings.Count(string(data), "\n"); n > maxLines {
			t.Errorf("%s has %d lines, want at most %d", name, n, maxLines)
		}
		for _, unsafe := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\"", "onclick=\""} {
			if strings.Contains(string(data), unsafe) {
				t.Errorf("%s has %s", name, unsafe)
			}
		}
	}
	if sum > maxSize {
		t.Errorf("all files have %d bytes, want at most %d", sum, maxSize)
	}
	t.Logf("%d files, %d bytes", len(files), sum)
}

// live opens the page of a fake with so many calls, and waits until it shows them and their sessions.
func live(t *testing.T, f *fake, rows int) *tab {
	t.Helper()
	f.madeUp(rows)
	b := newTab(t)
	b.open(f.withToken())
	b.until(fmt.Sprintf(`document.body.dataset.link === "live" && !!document.querySelector("#story li") && document.getElementById("n-calls").textContent.replace(",", "") === "%d"`, rows))
	return b
}

const drawnRows = `document.querySelectorAll("#rows tr").length`

func TestCallsAreShown(t *testing.T) {
	for _, rows := range []int{0, 10, 10_000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			b := live(t, newFake(t), rows)
			b.until(fmt.Sprintf(`document.getElementById("table").getAttribute("aria-rowcount") === "%d"`, rows+1))
			if n := value[int](b, drawnRows); n > 60 || n < min(rows, 10) {
				t.Errorf("%d rows are in the document", n)
			}
			if hidden := value[bool](b, `document.getElementById("empty").hidden`); hidden != (rows > 0) {
				t.Errorf("the empty page is hidden: %v", hidden)
			}
			if at := value[string](b, "location.href"); strings.Contains(at, testToken) {
				t.Errorf("the token is still in the address: %s", at)
			}
			if rows == 0 {
				return
			}
			story := value[string](b, `[...document.querySelectorAll("#story li:first-child :is(b, .rev, .wire > span)")].map((e) => e.textContent).join("|")`)
			if want := "cursor 0.41|2024-11-05|translatedC01C02C03C07|2025-11-25|everything 2.0"; story != want {
				t.Errorf("the page says %s, want %s", story, want)
			}
			value[any](b, `document.getElementById("scroll").scrollTop = 1e9`)
			b.until(fmt.Sprintf(`document.querySelector("#rows tr:last-child").getAttribute("aria-rowindex") === "%d"`, rows+1))
		})
	}
}

func TestFilter(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 1000)
	all := value[string](b, `document.getElementById("shown").textContent`)
	if all != "1,000 calls" {
		t.Errorf("without a filter the page says %q", all)
	}
	for _, c := range []struct{ query, none, some string }{
		{"tool:list*", "ping", "list_issues"},
		{"method:tools/call status:failed", "list_issues", "create_pull_request"},
		{"rule:C04", "tools/list", "search_code"},
		{"ms:>500 -status:failed", "create_pull_request", "run_query"},
		{"tokens:>30000", "search_code", "list_issues"},
		{"client:claude-code", "list_issues", "ping"},
		{"WEATHER", "list_issues", "get_weather"},
	} {
		value[any](b, fmt.Sprintf(`(q => { q.value = %q; q.dispatchEvent(new Event("input")) })(document.getElementById("q"))`, c.query))
		b.until(`document.getElementById("table").ariaBusy === "false" && / of 1,000 shown$/.test(document.getElementById("shown").textContent)`)
		b.until(fmt.Sprintf(`document.getElementById("rows").innerText.includes(%q)`, c.some))
		if text := value[string](b, `document.getElementById("rows").innerText`); strings.Contains(text, c.none) {
			t.Errorf("%s shows %s", c.query, c.none)
		}
		if at := value[string](b, "decodeURIComponent(location.hash)"); at != "#q="+c.query {
			t.Errorf("the address ends with %s", at)
		}
	}
	// What comes later is filtered as well, and a row that changes can begin to fit.
	row := madeUpRow(1001, time.Now())
	row["tool"], row["method"], row["status"] = "get_weather", "tools/call", "open"
	f.add(row)
	b.until(`document.querySelector("#rows tr").dataset.n === "1001"`)
	b.press("/")
	if at := value[string](b, "document.activeElement.id"); at != "q" {
		t.Errorf("/ leads to %q", at)
	}
	value[any](b, `(q => { q.value = "status:cancelled"; q.dispatchEvent(new Event("input")) })(document.getElementById("q"))`)
	b.until(`!document.getElementById("none").hidden`)
	row = madeUpRow(1001, time.Now())
	row["status"] = "cancelled"
	f.add(row)
	b.until(drawnRows + ` === 1 && document.getElementById("none").hidden`)
}

func TestRecordingSaysItsName(t *testing.T) {
	f := newFake(t)
	f.file = "calls.jsonl"
	b := live(t, f, 12)
	b.until(`document.querySelectorAll("#story li").length === 2`)
	if said := value[string](b, `document.querySelector("#link").textContent + document.querySelector("#about").textContent`); said != "recording0.3.0recording calls.jsonl" {
		t.Errorf("the page says %q", said)
	}
}

func TestPauseStopsTheTable(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	b.press("p")
	b.until(`document.getElementById("link").textContent === "paused"`)
	f.add(madeUpRow(11, time.Now()), madeUpRow(12, time.Now()))
	b.until(`document.getElementById("pause").textContent === "Resume (2)"`)
	if n := value[int](b, drawnRows); n != 10 {
		t.Errorf("%d rows while paused", n)
	}
	b.press("p")
	b.until(drawnRows + " === 12")
}

func TestKeysReachEverything(t *testing.T) {
	b := live(t, newFake(t), 40)
	current := `document.querySelector("#rows tr[aria-current]")?.dataset.n ?? ""`
	for _, c := range []struct{ key, at string }{{"j", "40"}, {"j", "39"}, {"k", "40"}, {arrowDown, "39"}, {arrowUp, "40"}} {
		b.press(c.key)
		if at := value[string](b, current); at != c.at {
			t.Fatalf("after %q the row is %q, want %q", c.key, at, c.at)
		}
	}
	b.press("\r")
	b.until(`document.querySelectorAll("#body .rm").length > 30`)
	if said := value[string](b, `document.querySelector("#body > .note").textContent`); said != "37 differences, each explained." {
		t.Errorf("the page says %q", said)
	}
	for i, tab := range []string{"Request", "Response", "Timeline", "Headers"} {
		b.press(fmt.Sprint(i + 1))
		b.until(fmt.Sprintf(`document.querySelector(".tabs [aria-pressed=true]").textContent === %q`, tab))
	}
	b.press("j")
	b.until(`document.querySelector("#detail h2").textContent.includes("#39")`)
	b.press("\x1b")
	b.until(`document.getElementById("detail").hidden`)
	if at := value[string](b, "document.activeElement.dataset.n"); at != "39" {
		t.Errorf("after Escape the focus is on %q", at)
	}
	for range 38 {
		b.press("j")
	}
	if seen := value[bool](b, `(r => r.top > 100 && r.bottom <= innerHeight + 1)(document.activeElement.getBoundingClientRect())`); !seen {
		t.Errorf("the focused row cannot be seen: %s", value[string](b, `JSON.stringify([document.activeElement.getBoundingClientRect(), document.activeElement.outerHTML.slice(0, 200), innerHeight])`))
	}
	b.press("?")
	b.until(`document.getElementById("help").open`)
	b.press("\x1b")
	b.until(`!document.getElementById("help").open`)
	b.press("t")
	if theme := value[string](b, "document.documentElement.dataset.theme"); theme != "dark" {
		t.Errorf("the theme is %q", theme)
	}
	b.press("t")
	value[any](b, "localStorage.clear()")
	if said := value[string](b, `document.getElementById("said").textContent`); said != "" && said != "40 new calls" {
		t.Errorf("a screen reader hears %q", said)
	}
}

// TestOpenCallIsDrawnAgainOnlyWithMessages lets the row of the open call come again, as it does when dragoman has explained it.
func TestOpenCallIsDrawnAgainOnlyWithMessages(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	b.press("j")
	b.press("\r")
	b.until(`!!document.querySelector("#body .ln")`)
	value[any](b, `document.getElementById("body").mark = 1`)
	row := maps.Clone(f.rows[9])
	row["tool"] = "explained"
	f.add(row)
	b.until(`document.querySelector("#rows b")?.textContent === "explained"`)
	f.mu.Lock()
	f.calls[10]["row"] = madeUpRow(10, time.Now())
	f.calls[10]["row"].(object)["status"] = "cancelled"
	f.mu.Unlock()
	if drawn := value[bool](b, `!document.getElementById("body").mark`); drawn {
		t.Error("it was drawn again with the same messages")
	}
	f.add(row)
	b.until(`!document.getElementById("body").mark && document.querySelector("#detail .status").textContent === "cancelled"`)
}

func TestTokenIsAskedFor(t *testing.T) {
	f := newFake(t)
	f.madeUp(10)
	b := newTab(t)
	b.open(f.url)
	b.until(`document.body.dataset.link === "token" && !document.getElementById("gate").hidden`)
	if wrong := value[bool](b, `document.getElementById("refused").hidden`); !wrong {
		t.Error("without a token the page says that it was refused")
	}
	b.open("about:blank")
	b.open(f.url + "#token=wrong")
	b.until(`document.body.dataset.link === "token" && !document.getElementById("refused").hidden`)
	value[any](b, fmt.Sprintf(`document.getElementById("paste").value = "http://127.0.0.1/inspect/#token=%s"`, testToken))
	b.click("#token-form button")
	b.until(drawnRows + " === 10")
	f.mu.Lock()
	f.refuse = 403
	f.mu.Unlock()
	b.open("about:blank")
	b.open(f.withToken())
	b.until(`document.body.dataset.link === "forbidden" && !document.getElementById("no-host").hidden`)
}

func TestHostileNamesStayText(t *testing.T) {
	f := newFake(t)
	row := madeUpRow(1, time.Now())
	evil := "<img src=x onerror=alert(1)>\u202egnp\u0007\u200b\U000e0041"
	for _, m := range []string{"tool", "method", "client", "error", "status"} {
		row[m] = evil
	}
	row["rules"] = []string{evil}
	session := object{"session": "1", "client": evil, "server": evil, "client_rev": evil, "rules": []string{evil}}
	f.sessions = []object{session}
	message := object{"jsonrpc": "2.0", "id": evil, "result": object{evil: evil, "__proto__": object{"x": evil}, "text": evil + "\n" + evil}}
	f.calls[1] = call(row, message, message, object{"jsonrpc": "2.0", "id": 1}, []any{object{"rule": evil, "what": evil, "change": "removed", "before": "id", "does": evil}}, []any{object{"at": row["at"], "ms": 1, "by": evil, "detail": evil}})
	f.add(row)
	b := newTab(t)
	b.open(f.withToken())
	b.until(drawnRows + " === 1")
	b.press("j")
	b.press("\r")
	for i := range 4 {
		b.press(fmt.Sprint(i + 1))
		b.until(fmt.Sprintf(`document.querySelectorAll(".tabs button")[%d]?.ariaPressed === "true"`, i))
		if n := value[int](b, `document.querySelectorAll("img:not(#logo), iframe, body script").length`); n != 0 {
			t.Errorf("%d elements of markup in a name", n)
		}
		if text := value[string](b, "document.body.textContent"); strings.ContainsAny(text, "\u202e\u0007\u200b\U000e0041") || !strings.Contains(text, `\u202egnp\u0007\u200b\ue0041`) {
			t.Errorf("hidden characters are not shown as escapes")
		}
	}
}

func TestLostFeedIsResumed(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 3)
	open := madeUpRow(4, time.Now())
	open["status"] = "open"
	f.add(open, madeUpRow(6, time.Now()))
	b.until(drawnRows + " === 5")
	f.cut()
	b.until(`!document.getElementById("lost").hidden`)
	f.add(madeUpRow(4, time.Now()), madeUpRow(7, time.Now()))
	b.until(drawnRows + ` === 6 && document.getElementById("lost").hidden`)
	queries, now := f.feedsOpened()
	if want := []string{"after=0&started=", "after=3&started=" + url.QueryEscape(f.started)}; !slices.Equal(queries, want) || now != 1 {
		t.Errorf("the page opened feeds with %q, and has %d; want %q: the second begins with the call that was open", queries, now, want)
	}
	if text := value[string](b, `document.querySelector("#rows tr[data-n='4']").innerText`); strings.Contains(text, "open") {
		t.Errorf("the call that ended meanwhile is %q", text)
	}
	// After a restart numbers begin anew.
	f.mu.Lock()
	f.started, f.rows = "2026-01-01T00:00:00Z", nil
	f.mu.Unlock()
	f.add(madeUpRow(1, time.Now()))
	f.cut()
	b.until(drawnRows + " === 1")
}

func TestHiddenPageClosesItsFeed(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 3)
	value[any](b, `Object.defineProperty(document, "hidden", {configurable: true, get: () => globalThis.away}); globalThis.away = true; document.dispatchEvent(new Event("visibilitychange"))`)
	b.until(`document.body.dataset.link === "hidden"`)
	peertest.Eventually(t, "the hidden page closes its feed", func() bool { _, now := f.feedsOpened(); return now == 0 })
	f.add(madeUpRow(4, time.Now()))
	value[any](b, `globalThis.away = false; document.dispatchEvent(new Event("visibilitychange"))`)
	b.until(drawnRows + " === 4")
	if queries, _ := f.feedsOpened(); len(queries) != 2 || !strings.HasPrefix(queries[1], "after=3&") {
		t.Errorf("the page opened feeds with %q", queries)
	}
}

func TestExportSavesWhatTheFilterShows(t *testing.T) {
	b := live(t, newFake(t), 10)
	dir := t.TempDir()
	b.downloadTo(dir)
	value[any](b, `(q => { q.value = "tool:list*"; q.dispatchEvent(new Event("input")) })(document.getElementById("q"))`)
	b.click("#export")
	file := filepath.Join(dir, "dragoman.jsonl")
	// The browser reserves the name with an empty file, and renames the whole file to it when it has all of it.
	var data []byte
	peertest.Eventually(t, "the file is saved", func() bool { data, _ = os.ReadFile(file); return len(data) > 0 })
	if !strings.Contains(string(data), `{"query":"tool:list*"}`) {
		t.Errorf("the saved file is %s", data)
	}
}

func TestNothingScrollsSideways(t *testing.T) {
	b := live(t, newFake(t), 10)
	for _, width := range []int64{360, 800, 1600} {
		b.size(width, 900)
		for _, view := range []string{"calls", "sessions", "parked", "replicas", "losses"} {
			value[any](b, fmt.Sprintf(`document.querySelector("[data-view=%s]").click()`, view))
			if over := value[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s at %d: %d pixels too wide", view, width, over)
			}
		}
		value[any](b, `document.querySelector("[data-view=calls]").click()`)
		b.until(drawnRows + ` > 5`)
		value[any](b, `document.querySelector("#rows tr").click()`)
		b.until(`!!document.querySelector("#body .ln")`)
		if over := value[int](b, `Math.max(...["body", "scroll"].map((id) => document.getElementById(id)).map((e) => e.scrollWidth - e.clientWidth), document.documentElement.scrollWidth - innerWidth)`); over > 0 {
			t.Errorf("a call at %d: %d pixels too wide", width, over)
		}
		b.press("\x1b")
		b.until(`document.getElementById("detail").hidden`)
	}
}

func TestAxeFindsNothing(t *testing.T) {
	script := axe(t)
	f := newFake(t)
	b := live(t, newFake(t), 0)
	check := func(what string) {
		t.Helper()
		found := value[[]struct {
			ID    string
			Nodes []struct{ HTML, FailureSummary string }
		}](b, `axe.run({resultTypes: ["violations"]}).then((r) => r.violations)`)
		for _, v := range found {
			t.Errorf("%s: %s, %d times, first %s\n%s", what, v.ID, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
		}
	}
	value[any](b, script+"; 0")
	b.until(`!document.getElementById("empty").hidden`)
	check("without calls")
	b = live(t, f, 30)
	value[any](b, script+"; 0")
	for _, scheme := range []string{"light", "dark"} {
		b.media("prefers-color-scheme", scheme)
		b.press("j")
		b.press("\r")
		b.until(`!!document.querySelector("#body .ln")`)
		check(scheme + " response")
		b.press("3")
		check(scheme + " timeline")
		b.press("2")
		b.press("\x1b")
		for _, view := range []string{"sessions", "parked", "losses"} {
			value[any](b, fmt.Sprintf(`document.querySelector("#views [data-view=%s]").click()`, view))
			b.until(`!!document.querySelector("#panel tbody td")`)
			check(scheme + " " + view)
		}
		value[any](b, `document.querySelector("#views [data-view=calls]").click()`)
		b.size(360, 740)
		check(scheme + " at 360")
		b.size(1600, 900)
		b.click("#story li:first-child .chip:first-of-type")
		b.until(`document.getElementById("tip").matches(":popover-open")`)
		check(scheme + " words of a rule")
		b.press("\x1b")
	}
	b.press("?")
	check("help")
	b.press("\x1b")
	value[any](b, `sessionStorage.clear()`)
	f.cut()
	b.until(`!document.getElementById("gate").hidden`)
	check("gate")
}

// axe returns axe-core, which npm brings into the folder of the test.
func axe(t *testing.T) string {
	testset.Need(t, testset.Browsers, "npm")
	dir := t.TempDir()
	pack := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "axe-core@4.14.1")
	pack.Dir = dir
	if out, err := pack.CombinedOutput(); err != nil {
		t.Skipf("npm has no axe-core here: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "tar", "-xzOf", filepath.Join(dir, "axe-core-4.14.1.tgz"), "package/axe.min.js").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
