package main

import (
	"bytes"
	"fmt"
	"math"

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
.line{stroke:var(--c);fill:none;stroke-width:2}.p99{stroke-dasharray:4 3;stroke-width:1.3}.dot{fill:var(--c)}
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
		for kind, name := range kindNames() {
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

// loadChart has a line for the median and a dashed one for the 99th percentile of each way, both scales logarithmic. Rates
// that were not kept are left out.
func loadChart(curves []curve) []byte {
	const (
		left, right, top, bottom = 70, 270, 62, 56
		width, height            = 900, 470
	)
	least, most, first, last := math.Inf(1), 0.0, math.Inf(1), 0.0
	for _, c := range curves {
		for _, p := range c.points {
			if p.kept {
				least, most = min(least, p.p50), max(most, p.p99)
			}
			first, last = min(first, float64(p.rate)), max(last, float64(p.rate))
		}
	}
	b := svg(width, height, "Latency of a small call against calls a second, for each way")
	label(b, 20, 28, "ink title", "start", "Latency of a small call at fixed rates")
	label(b, 20, 46, "dim", "start", "ms, from when the call was due; solid: median, dashed: 99th percentile; a line ends where the rate was not kept")
	if most == 0 {
		b.WriteString("</svg>\n")
		return b.Bytes()
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	high = max(high, low+1)
	x := func(rate float64) float64 {
		return left + (width-left-right)*(math.Log(rate)-math.Log(first))/max(math.Log(last)-math.Log(first), 1e-9)
	}
	y := func(us float64) float64 {
		return height - bottom - (height-top-bottom)*(math.Log10(max(us, 1e-3))-low)/(high-low)
	}
	for e := low; e <= high; e++ {
		at := y(math.Pow(10, e))
		fmt.Fprintf(b, `<path class="grid" d="M%d %.1fH%d"/>`+"\n", left, at, width-right)
		label(b, left-8, at+4, "dim", "end", fmt.Sprintf("%g", math.Pow(10, e-3)))
	}
	seen := map[int]bool{}
	for _, c := range curves {
		for _, p := range c.points {
			if !seen[p.rate] {
				seen[p.rate] = true
				fmt.Fprintf(b, `<path class="grid" d="M%.1f %dV%d"/>`+"\n", x(float64(p.rate)), top, height-bottom)
				label(b, x(float64(p.rate)), height-bottom+18, "dim", "middle", thousands(p.rate))
			}
		}
	}
	label(b, (left+width-right)/2, height-14, "dim", "middle", "calls a second")
	for i, c := range curves {
		class := fmt.Sprintf("s%d", i%9)
		middle, slow := "", ""
		for _, p := range c.points {
			if !p.kept {
				continue
			}
			command := "L"
			if middle == "" {
				command = "M"
			}
			middle += fmt.Sprintf("%s%.1f %.1f", command, x(float64(p.rate)), y(p.p50))
			slow += fmt.Sprintf("%s%.1f %.1f", command, x(float64(p.rate)), y(p.p99))
			fmt.Fprintf(b, `<circle class="%s dot" cx="%.1f" cy="%.1f" r="3"/>`+"\n", class, x(float64(p.rate)), y(p.p50))
		}
		at := float64(top + 14 + 22*i)
		if middle == "" {
			label(b, width-right+54, at+4, "dim", "start", c.way+" (kept no rate)")
			continue
		}
		fmt.Fprintf(b, `<path class="%s line" d="%s"/><path class="%[1]s line p99" d="%s"/>`+"\n", class, middle, slow)
		fmt.Fprintf(b, `<path class="%s line" d="M%d %.1fh28"/>`+"\n", class, width-right+20, at)
		label(b, width-right+54, at+4, "ink", "start", c.way)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
