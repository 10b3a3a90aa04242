package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// Tests of what a person needs who sees the page for the first time.

// rowOf returns the text of a cell of the row of call n.
func rowOf(n int, cell string) string {
	return fmt.Sprintf(`document.querySelector("#rows tr[data-n='%d'] %s")?.textContent.replaceAll("\u00a0", " ") ?? ""`, n, cell)
}

// TestNumbersHaveUnits in the table, in an open call and in what is said of sessions.
func TestNumbersHaveUnits(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	row := madeUpRow(11, time.Now())
	row["ms"], row["bytes"] = object{"client": 0.04, "proxy": 312.4, "server": 61_240.0}, object{"before": 186_000, "after": 96}
	row["tokens"] = object{"before": 39_891, "after": 1000}
	f.calls[11] = toolsList(row)
	f.add(row)
	b.until(`document.querySelector("#rows tr").dataset.n === "11"`)
	for cell, want := range map[string]string{
		".c-ms .part:nth-of-type(2)": "0.0 ms", ".c-ms .part:nth-of-type(3)": "312 ms", ".c-ms .part:nth-of-type(4)": "61.2 s", ".c-ms .all": "61.6 s",
		".c-bytes": "186 kB → 96 B", ".c-tokens": "39,891 → 1,000",
	} {
		if got := value[string](b, rowOf(11, cell)); got != want {
			t.Errorf("%s says %q, want %q", cell, got, want)
		}
	}
	b.press("j")
	b.press("\r")
	b.until(`!!document.querySelector("#body .ln")`)
	if said := value[string](b, `document.getElementById("detail").innerText.replaceAll("\u00a0", " ")`); !strings.Contains(said, "186 kB → 96 B") || !strings.Contains(said, "39,891 → 1,000 tokens") || !strings.Contains(said, "server 61.2 s") || !strings.Contains(said, "kB\n") {
		t.Errorf("the call says %s", said)
	}
	b.press("3")
	b.until(`!!document.querySelector(".step .at")`)
	if at := value[string](b, `document.querySelectorAll(".step .at")[1].textContent`); !strings.HasSuffix(at, "\u00a0ms") {
		t.Errorf("the timeline says %q", at)
	}
	value[any](b, `document.querySelector("#views [data-view=sessions]").click()`)
	if said := value[string](b, `document.getElementById("panel").innerText.replaceAll("\u00a0", " ")`); !strings.Contains(said, "41.2 ms") || !strings.Contains(said, "95 of 100 calls took no longer") {
		t.Errorf("sessions say %s", said)
	}
}

// TestRowsSayWhatAndWhy: the resource that is read, and what went wrong, without a click, in wide and in narrow tables.
func TestRowsSayWhatAndWhy(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 1)
	read, failed := madeUpRow(2, time.Now()), madeUpRow(3, time.Now())
	for _, r := range []object{read, failed} {
		delete(r, "tool")
		delete(r, "rules")
		r["method"], r["subject"], r["status"] = "resources/read", "file:///srv/notes.txt", "ok"
	}
	failed["status"], failed["error"] = "error", "no such file: notes.txt"
	f.add(read, failed)
	for _, width := range []int64{1280, 768, 360} {
		b.size(width, 740)
		b.until(`document.querySelectorAll("#rows tr").length === 3 && document.getElementById("scroll").clientWidth <= ` + fmt.Sprint(width))
		seen := func(n int) string {
			return value[string](b, fmt.Sprintf(`document.querySelector("#rows tr[data-n='%d'] .c-call").innerText`, n))
		}
		first := map[int64]string{1280: "resources/read file:///srv/notes.txt", 768: "resources/read file:///srv/notes.txt", 360: "file:///srv/notes.txt"}[width]
		if said := seen(2); !strings.HasPrefix(strings.TrimSpace(said), first) || !strings.Contains(said, "resources/read") || strings.Contains(said, "no such file") {
			t.Errorf("at %d: %q", width, said)
		}
		if said := seen(3); strings.Count(said, "no such file: notes.txt") != 1 {
			t.Errorf("at %d: %q", width, said)
		}
	}
	if title := value[string](b, `document.querySelector("#rows tr[data-n='3'] .c-call").title`); title != "resources/read file:///srv/notes.txt no such file: notes.txt" {
		t.Errorf("its title is %q", title)
	}
}

// TestChipsExplainThemselves by mouse, keyboard and touch, in the words of the docs.
func TestChipsExplainThemselves(t *testing.T) {
	b := live(t, newFake(t), 10)
	tip := `(tip => tip.matches(":popover-open") ? tip.innerText : "")(document.getElementById("tip"))`
	b.click("#story .chip")
	b.until(tip + ` !== ""`)
	if said := value[string](b, tip); !strings.HasPrefix(said, "C01\n") || !strings.Contains(said, "title moves a tool's title to annotations.title for 2025-03-26, and removes it for 2024-11-05 (came with 2025-06-18)") {
		t.Errorf("the chip says %s", said)
	}
	b.press("\x1b")
	b.until(tip + ` === ""`)
	if open := value[bool](b, `document.activeElement.matches("#story .chip")`); !open {
		t.Error("the focus has not come back")
	}
	// In a row: the chip does not open the call, and Tab leads from the row to it.
	b.click("#rows tr:nth-child(2) .chip")
	b.until(tip + `.startsWith("transform\n")`)
	if open := value[bool](b, `!document.getElementById("detail").hidden`); open {
		t.Error("the call has opened, too")
	}
	b.press("\x1b")
	b.press("j")
	b.press("\t")
	b.until(`document.activeElement.matches("#rows tr[aria-current] .chip")`)
	b.press("\r")
	b.until(tip + `.startsWith("C01\n")`)
	if seen := value[bool](b, `(r => r.left >= 0 && r.top >= 0 && r.right <= innerWidth && r.bottom <= innerHeight)(document.getElementById("tip").getBoundingClientRect())`); !seen {
		t.Error("a part of it is outside of what can be seen")
	}
	if n := value[int](b, `document.querySelectorAll("#rows tr:not([aria-current]) .chip[tabindex='0']").length`); n != 0 {
		t.Errorf("Tab would stop at %d chips of other rows", n)
	}
	// What a recording names need not be a rule.
	b.press("\x1b")
	value[any](b, `(c => { c.dataset.ruleWords = "__proto__"; c.click() })(document.querySelector("#story .chip"))`)
	b.until(tip + `.includes("dragoman has no words for it.")`)
	b.press("\x1b")
	value[any](b, `(c => { c.dataset.ruleWords = "C01"; c.click() })(document.querySelector("#story .chip"))`)
	b.until(tip + `.startsWith("C01\n")`)
	value[any](b, `document.querySelector("#tip [data-q]").click()`)
	b.until(`document.getElementById("q").value === "rule:C01" && ` + tip + ` === ""`)
}

// TestTheEmptyPageCanBeCopied whole, and says what fits the way that clients come.
func TestTheEmptyPageCanBeCopied(t *testing.T) {
	for name, c := range map[string]struct {
		url, file, says string
		copies          []string
	}{
		"http": {url: "http://127.0.0.1:8808/mcp", says: "Point a client at dragoman", copies: []string{
			`{"mcpServers": {"dragoman": {"type": "http", "url": "http://127.0.0.1:8808/mcp"}}}`,
			`npx -y @modelcontextprotocol/inspector --cli http://127.0.0.1:8808/mcp --transport http --method tools/list`}},
		"a unix socket": {url: "unix:/run/dragoman.sock:/mcp", says: "Point a client at dragoman", copies: []string{
			`{"mcpServers": {"dragoman": {"command": "dragoman", "args": ["stdio", "unix:/run/dragoman.sock:/mcp"]}}}`}},
		"stdio":       {says: "serves the client that has started it"},
		"a recording": {file: "calls.jsonl", says: "This recording has no calls"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.clients, f.file = c.url, c.file
			b := live(t, f, 0)
			b.until(`!document.getElementById("empty").hidden`)
			value[any](b, `navigator.clipboard.writeText = async (text) => { globalThis.copied = text }`)
			if said := value[string](b, `document.getElementById("empty").innerText`); !strings.Contains(said, c.says) {
				t.Errorf("it says %s", said)
			}
			if n := value[int](b, `document.querySelectorAll("#empty [data-copy]").length`); n != len(c.copies) {
				t.Errorf("%d can be copied, want %d", n, len(c.copies))
			}
			for i, want := range c.copies {
				value[any](b, fmt.Sprintf(`document.querySelectorAll("#empty [data-copy]")[%d].click()`, i))
				b.until(fmt.Sprintf(`globalThis.copied === %q`, want))
				one := value[string](b, fmt.Sprintf(`(p => { getSelection().selectAllChildren(p); return p.textContent + getComputedStyle(p).userSelect })(document.querySelectorAll("#empty pre")[%d])`, i))
				if one != want+"all" {
					t.Errorf("the text is %q", one)
				}
			}
		})
	}
}

// TestCopyWithoutAClipboard: a browser gives none to pages that came by http from another machine.
func TestCopyWithoutAClipboard(t *testing.T) {
	b := live(t, newFake(t), 0)
	value[any](b, `Object.defineProperty(navigator, "clipboard", {value: undefined}); document.addEventListener("copy", () => { globalThis.copied = document.activeElement.value })`)
	b.click("#empty [data-copy]")
	b.until(`(globalThis.copied ?? "").startsWith('{"mcpServers"') && document.querySelector(".toast")?.textContent === "the text copied" && !document.querySelector("textarea")`)
}

// TestWaitingForUsersIsSaidPlainly: for what, where and for how long, and one click from the row of the session.
func TestWaitingForUsersIsSaidPlainly(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	f.mu.Lock()
	f.state["parked"] = append(f.state["parked"].([]object), object{"method": "sampling/createMessage", "since": time.Now().Add(-3 * time.Minute).Format(time.RFC3339)}, object{"method": "tools/call", "client": "zed 1", "since": time.Now().Format(time.RFC3339)})
	f.mu.Unlock()
	b.click("#story [data-view=parked]")
	b.until(`document.querySelectorAll("#panel tbody tr").length === 3`)
	lines := value[[]string](b, `[...document.querySelectorAll("#panel tbody tr")].map((r) => [...r.cells].map((c) => c.innerText.trim()).join("|"))`)
	for i, want := range []string{"the user to answer a question|claude-code 2.1|2", "the client’s model to write, which the user may have to allow|–|3 min|it is answered|–|–|sampling/createMessage", "the client to answer|zed 1|"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d says %q, want %q", i, lines[i], want)
		}
	}
	if !strings.Contains(lines[0], "|book_flight #8|tracker 0.9|elicitation/create") {
		t.Errorf("%q", lines[0])
	}
	b.until(`document.getElementById("n-parked").textContent === "3" && document.querySelector("#views [aria-pressed=true]").innerText.startsWith("Waiting for users")`)
}

// TestEndedSessionsAreShown with when and why, below those that live.
func TestEndedSessionsAreShown(t *testing.T) {
	b := live(t, newFake(t), 10)
	value[any](b, `document.querySelector("#views [data-view=sessions]").click()`)
	b.until(`document.querySelectorAll("#panel tbody tr").length === 3`)
	lines := value[[]string](b, `[...document.querySelectorAll("#panel tbody tr")].map((r) => [...r.cells].slice(0, 3).map((c) => c.innerText.replace("\n", ", ").replace(/\d\d:\d\d:\d\d/, "TIME").replace(/\d+ min$/, "N min")).join("|"))`)
	if want := []string{"cursor 0.41|live|N min", "claude-code 2.1|live|N min", "zed 0.200|ended TIME, its client has ended it|N min"}; fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("sessions say %q, want %q", lines, want)
	}
	if n := value[string](b, `document.getElementById("n-sessions").textContent`); n != "2" {
		t.Errorf("%s live", n)
	}
	if story := value[string](b, `document.getElementById("story").innerText`); strings.Contains(story, "zed") {
		t.Error("a session that has ended is among those that speak")
	}
}

// TestNarrowScreensReachAll: filters, buttons and each tab, and where there is more to scroll to can be seen.
func TestNarrowScreensReachAll(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	for _, width := range []int64{360, 768, 1280} {
		b.size(width, 740)
		inside := `(e) => (r => r.width > 0 && r.left >= -1 && r.right <= innerWidth + 1)(e.getBoundingClientRect())`
		b.until(fmt.Sprintf(`innerWidth === %d && [...document.querySelectorAll("#bar button, .quick button, #q, #shown")].filter((e) => e.id !== "again").every(%s)`, width, inside))
		for _, view := range []string{"sessions", "parked", "replicas", "losses", "calls"} {
			value[any](b, fmt.Sprintf(`document.querySelector("#views [data-view=%s]").click()`, view))
			b.until(fmt.Sprintf(`(%s)(document.querySelector("#views [data-view=%s]"))`, inside, view))
		}
		b.click(".quick [data-word='-status:ok']")
		b.until(`document.getElementById("q").value === "-status:ok" && / of 10 shown$/.test(document.getElementById("shown").textContent)`)
		b.press("\x1b")
	}
	// Long names make room for what is said of the session.
	long := object{"session": "1", "client": strings.Repeat("client ", 6), "client_rev": "2024-11-05", "server": strings.Repeat("server ", 6), "server_rev": "2025-11-25", "transport": "http",
		"calls": 12_345, "errors": 12, "asking": 2, "open": 3, "p95_ms": 1234, "rules": []string{"C01", "C02", "C03", "C07", "C08"}}
	f.mu.Lock()
	f.sessions = []object{long}
	f.mu.Unlock()
	f.send("stats", object{"sessions": f.sessions})
	b.until(`document.querySelectorAll("#story li").length === 1`)
	for _, width := range []int64{1600, 1280, 1100, 768, 360} {
		b.size(width, 740)
		b.until(fmt.Sprintf(`innerWidth === %d && [...document.querySelectorAll("#story li > *, #story .wire > *, #story .facts > *")].every((e) => { const r = e.getBoundingClientRect(), o = e.parentNode.getBoundingClientRect(); return r.left >= o.left - 1 && r.right <= o.right + 6 })`, width))
	}
	b.size(360, 740)
	if shadow := value[string](b, `(v => v.scrollWidth > v.clientWidth ? getComputedStyle(v).backgroundImage + getComputedStyle(v).backgroundAttachment : "all tabs fit")(document.getElementById("views"))`); shadow != "all tabs fit" && (!strings.Contains(shadow, "linear-gradient") || !strings.Contains(shadow, "local")) {
		t.Errorf("nothing says that there are more tabs: %s", shadow)
	}
	// One process has no replicas, and no tab for them.
	f.mu.Lock()
	f.state["replicas"] = []object{}
	f.mu.Unlock()
	value[any](b, `document.querySelector("#views [data-view=sessions]").click()`)
	b.until(`document.querySelector("#views [data-view=replicas]").hidden`)
}

// TestAnInvitationGivesTheToken: a browser that dragoman has opened has a code in the address.
func TestAnInvitationGivesTheToken(t *testing.T) {
	f := newFake(t)
	f.madeUp(10)
	b := newTab(t)
	b.open(f.url + "#once=" + testCode + "&q=tool:list*")
	b.until(`document.body.dataset.link === "live" && !!document.querySelector("#rows tr")`)
	if at := value[string](b, "location.href"); strings.Contains(at, "once") || !strings.Contains(at, "q=tool") {
		t.Errorf("the address is %s", at)
	}
	if kept := value[string](b, `sessionStorage.getItem("dragoman.token")`); kept != testToken {
		t.Errorf("the tab has kept %q", kept)
	}
	value[any](b, "location.reload()")
	b.until(`document.body.dataset.link === "live"`)
	value[any](b, "sessionStorage.clear()")
	b.open("about:blank")
	b.open(f.url + "#once=used")
	b.until(`document.body.dataset.link === "token" && !document.getElementById("refused").hidden`)
	peertest.Eventually(t, "the page has asked", func() bool { n, _ := f.feedsOpened(); return len(n) > 0 })
}
