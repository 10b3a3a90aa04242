package cost

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// report is what a run has measured.
type report struct {
	began   time.Time
	slice   time.Duration
	quick   bool
	pairs   []pair
	others  []*group
	load    []curve
	skipped []string
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s, %s, in %.0f s, with %v for each cell. ", r.began.UTC().Format(time.DateOnly), machine(), time.Since(r.began).Seconds(), r.slice)
	if r.quick {
		b.WriteString("This was a quick run: **the numbers mean nothing**. ")
	}
	b.WriteString("Times are in µs.\n\n")
	fmt.Fprintf(&b, "![What dragoman adds to a call between each two revisions](images/%s)\n\n", heatFile)
	fmt.Fprintf(&b, "![Latency at rates from 100 to 20,000 calls a second](images/%s)\n\n", loadFile)
	r.summary(&b)
	r.pairTable(&b)
	r.otherTables(&b)
	r.loadTable(&b)
	if len(r.skipped) > 0 {
		fmt.Fprintf(&b, "Not measured: %s.\n\n", strings.Join(r.skipped, "; "))
	}
	return b.String()
}

// summary has one row for each transport and kind of call, with the median and the worst of all pairs.
func (r *report) summary(b *strings.Builder) {
	b.WriteString("| all pairs of revisions | added p50: median; worst | added p99: median; worst | CPU per call: median; worst |\n|---|---|---|---|\n")
	for _, transport := range []string{overPipe, remote} {
		for kind, name := range timedKinds() {
			of := func(get func(added) float64) string {
				list := r.addedBy(transport, kind, get)
				return fmt.Sprintf("%s; %s", micros(median(list)), micros(slices.Max(list)))
			}
			fmt.Fprintf(b, "| %s, %s | %s | %s | %s |\n", transport, name, of(func(a added) float64 { return a.p50 }), of(func(a added) float64 { return a.p99 }), of(func(a added) float64 { return a.cpu }))
		}
	}
	b.WriteString("\n")
}

func (r *report) addedBy(transport string, kind int, get func(added) float64) (list []float64) {
	for _, p := range r.pairs {
		if p.transport == transport {
			list = append(list, get(p.added[kind]))
		}
	}
	return list
}

func (r *report) pairTable(b *strings.Builder) {
	b.WriteString("<details><summary>Each pair: what dragoman adds over a direct client of the server's revision</summary>\n\n")
	b.WriteString("| client | server | transport | small call: p50 | p99 | CPU | list of 50 tools: p50 | p99 | CPU |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.pairs {
		fmt.Fprintf(b, "| %s | %s | %s ", p.client.Name, p.server.Name, p.route())
		for _, a := range p.added {
			fmt.Fprintf(b, "| %s | %s | %s ", micros(a.p50), micros(a.p99), micros(a.cpu))
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n</details>\n\n")
}

func (p *pair) route() string {
	if p.transport == overPipe {
		return "stdio"
	}
	client, server := roleOf(p.client), roleOf(p.server)
	if client == server {
		return client
	}
	return client + " to " + server
}

func (r *report) otherTables(b *strings.Builder) {
	fmt.Fprintf(b, "Beside others, one call at a time, with a server of %s; over the direct client:\n\n", translate.Handshake()[1].Name)
	b.WriteString("| | small call: added p50 | added p99 | CPU | list of 50 tools: added p50 | added p99 | CPU |\n|---|---|---|---|---|---|---|\n")
	for _, g := range r.others {
		direct := g.kept[0]
		fmt.Fprintf(b, "| **%s**: direct, in all | %s | %s | | %s | %s | |\n", g.name, micros(direct.cell(small, 1).quantile(.5)), micros(direct.cell(small, 1).quantile(.99)),
			micros(direct.cell(list, 1).quantile(.5)), micros(direct.cell(list, 1).quantile(.99)))
		for _, w := range g.kept[1:] {
			fmt.Fprintf(b, "| %s ", w.name)
			for kind := range list + 1 {
				a := difference(w, direct, kind)
				fmt.Fprintf(b, "| %s | %s | %s ", micros(a.p50), micros(a.p99), micros(a.cpu))
			}
			b.WriteString("|\n")
		}
	}
	b.WriteString("\n")
}

func (r *report) loadTable(b *strings.Builder) {
	fmt.Fprintf(b, "Small calls at fixed rates on %d connections, from when they were due: p50; p99. Client, proxy and server share the machine.\n\n|", connections)
	var rates []int
	for _, c := range r.load {
		for _, p := range c.points {
			if !slices.Contains(rates, p.rate) {
				rates = append(rates, p.rate)
			}
		}
	}
	slices.Sort(rates)
	b.WriteString(" calls a second ")
	for _, rate := range rates {
		fmt.Fprintf(b, "| %s ", thousands(rate))
	}
	b.WriteString("| CPU at the highest rate that was kept |\n|---" + strings.Repeat("|---", len(rates)+1) + "|\n")
	for _, c := range r.load {
		cpu := ""
		fmt.Fprintf(b, "| %s ", c.way)
		for i := range rates {
			switch {
			case i >= len(c.points):
				b.WriteString("| — ")
			case !c.points[i].kept:
				b.WriteString("| not kept ")
			default:
				fmt.Fprintf(b, "| %s; %s ", micros(c.points[i].p50), micros(c.points[i].p99))
				cpu = micros(c.points[i].cpu)
			}
		}
		fmt.Fprintf(b, "| %s |\n", cpu)
	}
	b.WriteString("\n")
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func micros(f float64) string {
	if f > -10 && f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return thousands(int(f + 0.5))
}

func thousands(n int) string {
	if n < 0 {
		return "−" + thousands(-n)
	}
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// machine describes the processor, the system and Go.
func machine() string {
	name := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				name = cmp.Or(strings.TrimSpace(value), name)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s, %s", runtime.NumCPU(), name, runtime.GOOS, runtime.Version())
}
