package page_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var measure = flag.Bool("measure", false, "measure the page on a quiet machine, for a minute")

// TestMeasure prints what the page takes: go test -run Measure -measure -v.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("figures are taken with -measure")
	}
	f := newFake(t)
	b := live(t, f, 10)
	first := `new Promise((done) => { const look = () => document.querySelector("#rows tr") ? done(performance.now()) : requestAnimationFrame(look); look() })`
	for range 3 {
		b.open("about:blank")
		b.open(f.withToken())
		t.Logf("from the request to the first row: %.0f ms", value[float64](b, first))
	}

	var before, after, changes []any
	words := strings.Repeat("what this tool does, and when to use it; ", 9)
	for i := range 50 {
		name := fmt.Sprintf("tool_%d", i)
		properties := object{}
		for j := range 5 {
			properties[fmt.Sprintf("p%d", j)] = object{"type": "string", "description": words[:80]}
		}
		tool := object{"name": name, "description": words, "inputSchema": object{"type": "object", "properties": properties}}
		after = append(after, tool)
		before = append(before, object{"name": name, "title": name, "description": words, "inputSchema": tool["inputSchema"], "annotations": object{"readOnlyHint": true}, "outputSchema": object{"type": "object", "properties": object{"x": object{"type": "number"}}}})
		for _, m := range []string{"title", "annotations", "outputSchema"} {
			changes = append(changes, object{"rule": "C01", "what": m, "change": "removed", "before": fmt.Sprintf("result.tools[%d].%s", i, m), "does": gone})
		}
	}
	f.calls[10] = call(f.rows[9], object{}, object{"result": object{"tools": before}}, object{"result": object{"tools": after}}, changes, nil)
	t.Log(value[string](b, `(async () => {
		const { getJSON } = await import("./feed.js"), { show } = await import("./lines.js"), detail = document.getElementById("detail"), times = [];
		detail.hidden = false;
		for (let i = 0; i < 15; i++) {
			const begin = performance.now(), compared = await getJSON("calls/10/3"), got = performance.now();
			detail.replaceChildren(show(compared, () => ""));
			detail.getBoundingClientRect();
			times.push(performance.now() - begin);
			globalThis.parts = (got - begin).toFixed(1) + " to ask + " + (performance.now() - got).toFixed(1) + " to show " + compared.lines.length + " lines";
		}
		detail.hidden = true;
		return "difference to screen: first " + times[0].toFixed(1) + " ms, median " + times.sort((a, b) => a - b)[7].toFixed(1) + " ms; the last " + globalThis.parts;
	})()`))

	f = newFake(t)
	b = live(t, f, 10_000)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 10_001; ; n += 20 {
			select {
			case <-stop:
				return
			case <-tick.C:
				var rows []object
				for i := range 20 {
					rows = append(rows, madeUpRow(n+i, time.Now()))
				}
				f.send("rows", object{"rows": rows})
			}
		}
	}()
	busy := b.mainThread()
	t.Log(value[string](b, `new Promise((done) => {
		let last = performance.now(), slow = 0, worst = 0, frames = 0;
		const end = last + 30_000;
		const frame = (now) => {
			const took = now - last;
			last = now;
			frames++;
			slow += took > 50;
			worst = Math.max(worst, took);
			if (now < end) requestAnimationFrame(frame);
			else done(frames + " frames in 30 s at 10,000 rows and 200/s, " + slow + " over 50 ms, the longest " + worst.toFixed(0) + " ms; rows in the document: " + document.querySelectorAll("#rows tr").length);
		};
		requestAnimationFrame(frame);
	})`))
	t.Logf("the main thread was busy for %.2f of these 30 s", b.mainThread()-busy)
	close(stop)
	<-ended
	t.Logf("heap %.1f MB", b.heap()/1e6)
}
