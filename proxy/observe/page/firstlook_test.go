package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Tests of what puzzles a person who looks at the page for the first time.

// TestANotificationIsShownAsOne: it opens at what was sent, has no tab for a response, and its status does not say that it was answered.
func TestANotificationIsShownAsOne(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 1)
	row := madeUpRow(2, time.Now())
	for _, m := range []string{"tool", "subject", "rules", "by", "error"} {
		delete(row, m)
	}
	row["method"], row["kind"], row["status"] = "notifications/initialized", "notification", "ok"
	message := object{"jsonrpc": "2.0", "method": "notifications/initialized"}
	f.calls[2] = call(row, message, message, message, nil, nil)
	f.calls[2]["messages"] = f.calls[2]["messages"].([]object)[:2]
	f.add(row)
	b.until(`document.querySelector("#rows tr").dataset.n === "2"`)
	if said := value[string](b, `document.querySelector("#rows tr .status").title`); said != "sent: a notification has no answer" {
		t.Errorf("its status means %q", said)
	}
	b.press("j")
	b.press("\r")
	b.until(`!!document.querySelector("#body .ln")`)
	if said := value[string](b, `[...document.querySelectorAll(".tabs button")].map((e) => e.innerText + (e.ariaPressed === "true" ? "!" : "")).join()`); said != "Request!,Timeline,Headers" {
		t.Errorf("its tabs are %s", said)
	}
	if said := value[string](b, `document.getElementById("detail").innerText`); !strings.Contains(said, "sent: a notification has no answer") || strings.Contains(said, "no response") {
		t.Errorf("it says %s", said)
	}
}

// TestARuleIsListedOnce, with all places where it changed something.
func TestARuleIsListedOnce(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 1)
	row := madeUpRow(2, time.Now())
	ask := object{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
	tell := func(name string) object {
		return object{"jsonrpc": "2.0", "id": 2, "result": object{"tools": []any{name}}}
	}
	change := object{"rule": "C36", "what": "schemas", "change": "replaced", "before": "result.tools[0]", "after": "result.tools[0]", "does": "schemas are updated"}
	f.calls[2] = call(row, ask, tell("a"), tell("b"), []any{change, change}, []any{object{"at": row["at"], "ms": 1, "by": "C36", "what": "schemas", "path": "result.tools", "detail": "schemas are updated"}})
	f.add(row)
	b.until(`document.querySelector("#rows tr").dataset.n === "2"`)
	b.press("j")
	b.press("\r")
	b.until(`!!document.querySelector(".why-list li")`)
	if said := value[string](b, `[...document.querySelectorAll(".why-list li")].map((e) => e.innerText.replaceAll("\n", " ")).join("|")`); said != "C36 schemas ×2 schemas are updated" {
		t.Errorf("it lists %q", said)
	}
}

// TestTheTimelineNamesMessages, and times within a millisecond differ.
func TestTheTimelineNamesMessages(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 1)
	row := madeUpRow(2, time.Now())
	message := object{"jsonrpc": "2.0", "method": "notifications/progress"}
	f.calls[2] = call(row, message, message, message, nil, nil)
	for i, m := range f.calls[2]["messages"].([]object) {
		m["kind"], m["method"], m["ms"] = "notification", "notifications/progress", []float64{0, 0.04, 0.31, 2.5}[i]
	}
	f.add(row)
	b.until(`document.querySelector("#rows tr").dataset.n === "2"`)
	b.press("j")
	b.press("\r")
	b.press("3")
	b.until(`document.querySelectorAll(".step").length === 5`)
	said := value[string](b, `[...document.querySelectorAll(".step:not(.top)")].map((e) => e.querySelector(".at").textContent.replace("\u00a0", " ") + " " + e.querySelector(".arrow span").textContent).join()`)
	if said != "+0.00 ms notifications/progress,+0.04 ms notifications/progress,+0.31 ms notifications/progress,+2.5 ms notifications/progress" {
		t.Errorf("it says %s", said)
	}
}

// TestOneProcessIsNoReplica, and sessions have one count.
func TestOneProcessIsNoReplica(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	about := `document.getElementById("about").innerText`
	b.until(about + `.includes("replica")`)
	if said := value[string](b, about); strings.Contains(said, "connection") {
		t.Errorf("it says %s", said)
	}
	f.mu.Lock()
	f.state["replicas"] = []object{}
	f.mu.Unlock()
	value[any](b, `document.querySelector("#views [data-view=sessions]").click()`)
	b.until(`!` + about + `.includes("replica")`)
}

// TestLittleRoom: tables say all in few lines, tabs fit, and rules are named.
func TestLittleRoom(t *testing.T) {
	f := newFake(t)
	b := live(t, f, 10)
	f.mu.Lock()
	f.state["replicas"] = []object{}
	for i := range 12 {
		more := object{}
		for k, v := range claude {
			more[k] = v
		}
		more["session"] = fmt.Sprint("more", i)
		f.sessions = append(f.sessions, more)
	}
	f.state["sessions"] = f.sessions
	f.mu.Unlock()
	f.send("stats", object{"sessions": f.sessions})
	b.until(`document.getElementById("story").innerText.includes("and 12 more sessions")`)
	for _, width := range []int64{1280, 360} {
		b.size(width, 740)
		for _, view := range []string{"sessions", "losses"} {
			value[any](b, fmt.Sprintf(`document.querySelector("#views [data-view=%s]").click()`, view))
			b.until(fmt.Sprintf(`innerWidth === %d && document.querySelectorAll("#panel tbody tr").length > 3 && document.querySelector("#panel h2").innerText.startsWith(%q)`, width, map[string]string{"sessions": "Sessions", "losses": "Lost"}[view]))
			if tall := value[int](b, `Math.max(...[...document.querySelectorAll("#panel tbody tr")].map((r) => r.offsetHeight))`); tall > 80 {
				t.Errorf("%s at %d: a row of %d pixels", view, width, tall)
			}
			if wraps := value[bool](b, `[...document.querySelectorAll("#panel tbody th")].some((e) => e.getClientRects().length > 1 || e.offsetHeight > e.parentNode.offsetHeight || getComputedStyle(e).whiteSpace !== "nowrap")`); wraps {
				t.Errorf("%s at %d: names wrap", view, width)
			}
			if over := value[int](b, `(w => w.scrollWidth - w.clientWidth)(document.querySelector("#panel .wide"))`); width == 1280 && over > 0 {
				t.Errorf("%s at %d: %d pixels too wide", view, width, over)
			}
		}
	}
	b.until(`document.getElementById("story").innerText.includes("and 13 more sessions")`)
	if over := value[int](b, `(v => v.scrollWidth - v.clientWidth)(document.getElementById("views"))`); over > 0 {
		t.Errorf("tabs are %d pixels too wide", over)
	}
	value[any](b, `document.querySelector("#views [data-view=calls]").click()`)
	if said := value[string](b, rowOf(10, ".sub")); !strings.Contains(said, "  C01 C02 C03 +1  ") {
		t.Errorf("a row says %q", said)
	}
}
