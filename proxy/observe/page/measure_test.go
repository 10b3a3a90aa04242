package page_test

import (
	"flag"
	"testing"
	"time"
)

var measure = flag.Bool("measure", false, "measure the page on a quiet machine, for a minute")

// TestMeasure prints what the page takes: go test -run Measure -measure -v.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("figures are taken with -measure")
	}
	b := newTab(t)
	at := newReal(t)
	first := `new Promise((done) => { const look = () => document.querySelector("#rows tr") ? done(performance.now()) : requestAnimationFrame(look); look() })`
	for i := range 6 {
		b.open("about:blank")
		b.open(at)
		if took := value[float64](b, first); i > 0 {
			t.Logf("from the request to the first row: %.0f ms", took)
		}
	}
	t.Log(value[string](b, `(async () => {
		const { getJSON } = await import("./feed.js"), { show } = await import("./lines.js"), detail = document.getElementById("detail"), times = [], sizes = (await getJSON("calls/1")).messages.map((m) => m.size);
		detail.hidden = false;
		let parts;
		for (let i = 0; i < 15; i++) {
			const begin = performance.now(), compared = await getJSON("calls/1/3"), got = performance.now();
			detail.replaceChildren(show(compared, () => ""));
			detail.getBoundingClientRect();
			times.push(performance.now() - begin);
			parts = (got - begin).toFixed(1) + " to ask + " + (performance.now() - got).toFixed(1) + " to show " + compared.lines.length + " lines";
		}
		detail.hidden = true;
		return sizes.slice(2) + " bytes, difference to screen: first " + times[0].toFixed(1) + " ms, median " + times.sort((a, b) => a - b)[7].toFixed(1) + " ms; the last " + parts;
	})()`))

	f := newFake(t)
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
