package page_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var shots = flag.String("shots", "", "write pictures of the page into this `folder`")

// TestShots writes pictures of the page for people to look at: go test -run Shots -shots DIR.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are made with -shots DIR")
	}
	b := newTab(t)
	if *at != "" {
		shootAt(t, b)
		return
	}
	for _, rows := range []int{0, 10, 10_000} {
		f := newFake(t)
		f.madeUp(rows)
		for _, width := range []int{360, 768, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				save := func(what string) {
					t.Helper()
					if err := os.WriteFile(filepath.Join(*shots, fmt.Sprintf("%d-%s-%d%s.png", width, scheme, rows, what)), b.shoot(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				b.size(int64(width), map[int]int64{360: 740, 768: 900, 1280: 800}[width])
				b.media("prefers-color-scheme", scheme)
				b.open("about:blank")
				b.open(f.withToken())
				b.until(`document.body.dataset.link === "live"`)
				if rows == 0 {
					b.until(`!document.getElementById("empty").hidden`)
					save("")
					continue
				}
				b.until(fmt.Sprintf(`document.getElementById("n-calls").textContent.replace(",", "") === "%d"`, rows))
				save("")
				b.press("j")
				b.press("\r")
				b.until(`!!document.querySelector("#body")`)
				save("-open")
				b.press("3")
				save("-timeline")
				b.press("j")
				b.press("2")
				b.until(`document.querySelector("#detail h2 b")?.textContent === "list_issues"`)
				save("-text")
				b.press("\x1b")
				if rows == 10 {
					for _, view := range []string{"sessions", "parked", "losses"} {
						b.click("#views [data-view=" + view + "]")
						b.until(`!!document.querySelector("#panel table")`)
						save("-" + view)
					}
					b.press("?")
					save("-help")
				}
			}
		}
	}
}

var at = flag.String("at", "", "take the pictures of the page at this `URL` instead, which has the token")

// shootAt writes pictures of the page of a running dragoman: its calls, the newest list of tools, and both of them at 360.
func shootAt(t *testing.T, b *tab) {
	save := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(*shots, name+".png"), b.shoot(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		b.media("prefers-color-scheme", scheme)
		for _, width := range []int64{1600, 360} {
			b.size(width, map[int64]int64{360: 740, 1600: 900}[width])
			b.open("about:blank")
			b.open(*at)
			b.until(drawnRows + " > 0")
			save(fmt.Sprintf("inspect-%d-%s", width, scheme))
			for name, query := range map[string]string{"list": "method:tools/list", "call": "method:tools/call", "open": "method:initialize"} {
				value[any](b, fmt.Sprintf(`(q => { q.value = %q; q.dispatchEvent(new Event("input")) })(document.getElementById("q"))`, query))
				b.until(fmt.Sprintf(`document.querySelector("#rows .c-call")?.textContent.startsWith(%q)`, strings.TrimPrefix(query, "method:")))
				value[any](b, `document.querySelector("#rows tr").click()`)
				b.until(fmt.Sprintf(`!!document.querySelector("#body .ln") && document.querySelector("#detail h2").textContent.startsWith(%q)`, strings.TrimPrefix(query, "method:")))
				value[any](b, `(q => { q.value = ""; q.dispatchEvent(new Event("input")) })(document.getElementById("q"))`)
				b.until(drawnRows + " > 1 || innerWidth < 1000")
				save(fmt.Sprintf("inspect-%d-%s-%s", width, scheme, name))
				b.press("3")
				save(fmt.Sprintf("inspect-%d-%s-%s-timeline", width, scheme, name))
				b.press("2")
				b.press("\x1b")
			}
		}
	}
}
