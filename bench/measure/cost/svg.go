package cost

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/dragoman-proxy/dragoman/translate"
)

// The names of the pictures.
const (
	heatFile = "latency-pairs.svg"
	loadFile = "latency-load.svg"
)

// style has the colors of both modes; a browser chooses when it shows the picture.
const style = `<style>
svg{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;font-size:12px}
.bg{fill:#ffffff}.ink{fill:#1f2328}.dim{fill:#59636e}.grid{stroke:#d1d9e0;fill:none}.heat{fill:#0969da}
.title{font-size:14px;font-weight:600}.s0{--c:#59636e}.s1{--c:#9a6700}.s2{--c:#1a7f37}.s3{--c:#0969da}.s4{--c:#8250df}.s5{--c:#bf3989}.s6{--c:#0a7d8c}.s7{--c:#cf222e}.s8{--c:#bc4c00}
.line{stroke:var(--c);fill:none;stroke-width:2}.dot{fill:var(--c)}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.ink{fill:#f0f6fc}.dim{fill:#9198a1}.grid{stroke:#3d444d}.heat{fill:#4493f8}
.s0{--c:#9198a1}.s1{--c:#d29922}.s2{--c:#3fb950}.s3{--c:#4493f8}.s4{--c:#ab7df8}.s5{--c:#f778ba}.s6{--c:#39c5cf}.s7{--c:#ff7b72}.s8{--c:#f0883e}}
</style>
`

func svg(width, height int, label string) *bytes.Buffer {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img" aria-label="%[3]s">`+"\n%s", width, height, label, style)
	fmt.Fprintf(b, `<rect class="bg" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	return b
}

func label(b *bytes.Buffer, x, y float64, class, anchor, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`+"\n", x, y, class, anchor, text)
}

// heatMap has a square for each pair of revisions: a panel for each transport and kind of call.
func heatMap(pairs []pair) []byte {
	const (
		left, top     = 96, 92
		wide, high    = 62, 34
		panelW        = left + 5*wide + 24
		panelH        = top + 5*high + 14
		darkest       = 0.6 // text must stay readable on it
		width, height = 2*panelW + 8, 2*panelH + 40
	)
	b := svg(width, height, "What dragoman adds to the median latency of a call, in microseconds, for each pair of revisions")
	for row, transport := range []string{overPipe, remote} {
		for kind, name := range timedKinds() {
			x0, y0 := float64(kind*panelW), float64(row*panelH)
			top0, most := y0+top, 1.0
			for _, p := range pairs {
				if p.transport == transport {
					most = max(most, p.added[kind].p50)
				}
			}
			label(b, x0+20, y0+30, "ink title", "start", fmt.Sprintf("%s, %s", transport, name))
			label(b, x0+20, y0+48, "dim", "start", "added to p50, in µs")
			label(b, x0+left+2.5*wide, y0+66, "dim", "middle", "server")
			label(b, x0+20, top0-8, "dim", "start", "client")
			for i, r := range translate.All() {
				label(b, x0+left+(float64(i)+.5)*wide, top0-8, "ink", "middle", r.Name[2:])
				label(b, x0+left-8, top0+float64(i)*high+high/2+4, "ink", "end", r.Name)
			}
			for _, p := range pairs {
				if p.transport != transport {
					continue
				}
				x, y := x0+left+float64(index(p.server)*wide), top0+float64(index(p.client)*high)
				share := max(0, p.added[kind].p50) / most
				fmt.Fprintf(b, `<rect class="heat" x="%.1f" y="%.1f" width="%d" height="%d" rx="3" fill-opacity="%.2f"/>`+"\n", x+1, y+1, wide-2, high-2, 0.06+(darkest-0.06)*share)
				label(b, x+wide/2, y+high/2+4, "ink", "middle", micros(p.added[kind].p50))
			}
		}
	}
	label(b, 20, height-14, "dim", "start", "network: HTTP+SSE for 2024-11-05, Streamable HTTP for the others. Each panel has its own scale; less is better.")
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func index(r *translate.Revision) int { return int(r.Number()) - 1 }

// loadChart has a panel for the median and one for the 99th percentile, with a line for each way, on logarithmic scales. Rates that were
// not kept are left out.
func loadChart(curves []curve) []byte {
	const (
		panel, gap = 370, 60
		top, high  = 84, 300
		legend     = 300
		width      = 2*(panel+gap) + legend
	)
	b := svg(width, max(top+high+70, top+22*len(curves)+30), "Latency of a small call against calls a second, for each way")
	label(b, 20, 28, "ink title", "start", "Latency of a small call at fixed rates")
	label(b, 20, 46, "dim", "start", "ms, from when the call was due; a line ends where the rate was not kept")
	var rates []int
	low, most := math.Inf(1), math.Inf(-1) // powers of ten, in µs
	for _, c := range curves {
		for _, p := range c.points {
			if rates = append(rates, p.rate); p.kept {
				low, most = min(low, math.Floor(math.Log10(max(p.p50, 1e-3)))), max(most, math.Ceil(math.Log10(max(p.p99, 1e-3))))
			}
		}
	}
	slices.Sort(rates)
	rates = slices.Compact(rates)
	if low > most { // no rate was kept
		low, most = 1, 2
	}
	most = max(most, low+1)
	y := func(us float64) float64 { return top + high*(most-math.Log10(max(us, 1e-3)))/(most-low) }
	for i, name := range []string{"median", "99th percentile"} {
		left := gap + float64(i)*(panel+gap)
		x := func(rate int) float64 {
			first, last := math.Log(float64(rates[0])), math.Log(float64(rates[len(rates)-1]))
			return left + panel*(math.Log(float64(rate))-first)/max(last-first, 1e-9)
		}
		label(b, left, top-12, "ink", "start", name)
		label(b, left+panel/2, top+high+40, "dim", "middle", "calls a second")
		for e := low; e <= most; e++ {
			at := y(math.Pow(10, e))
			fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fh%d"/>`+"\n", left, at, panel)
			label(b, left-8, at+4, "dim", "end", fmt.Sprintf("%g", math.Pow(10, e-3)))
		}
		for _, rate := range rates {
			fmt.Fprintf(b, `<path class="grid" d="M%.1f %dv%d"/>`+"\n", x(rate), top, high)
			label(b, x(rate), top+high+18, "dim", "middle", thousands(rate))
		}
		for n, c := range curves {
			command, path := "M", ""
			for _, p := range c.points {
				if !p.kept {
					continue
				}
				at := y([]float64{p.p50, p.p99}[i])
				path += fmt.Sprintf("%s%.1f %.1f", command, x(p.rate), at)
				command = "L"
				fmt.Fprintf(b, `<circle class="s%d dot" cx="%.1f" cy="%.1f" r="3"/>`+"\n", n%9, x(p.rate), at)
			}
			fmt.Fprintf(b, `<path class="s%d line" d="%s"/>`+"\n", n%9, path)
		}
	}
	for n, c := range curves {
		at, name := float64(top+10+22*n), c.way
		if len(c.points) == 0 || !c.points[0].kept {
			name += " (kept no rate)"
		}
		fmt.Fprintf(b, `<path class="s%d line" d="M%d %.1fh24"/>`+"\n", n%9, width-legend+24, at)
		label(b, width-legend+56, at+4, "ink", "start", name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
