package main

import (
	"fmt"
	"testing"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
)

// BenchmarkSteps is what a step costs in worlds of more and more steps, and its part of the judge: neither should grow.
func BenchmarkSteps(b *testing.B) {
	b.Setenv(playsWorlds, "yes")
	for _, rows := range []int{25, 50, 100, 200, 500} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			l := &lane{}
			defer l.close()
			for seed := range uint64(40) { // what a process does once
				l.play(job{Script: script.MakeLong(seed, 5).String()})
			}
			var steps, played, judged float64
			for seed := uint64(1); b.Loop(); seed++ {
				s := script.MakeLong(seed, rows)
				r := l.play(job{Script: s.String()})
				steps += float64(len(s.Steps))
				played += float64((r.Ran - r.Judged).Nanoseconds())
				judged += float64(r.Judged.Nanoseconds())
			}
			b.ReportMetric(played/steps, "ns/step")
			b.ReportMetric(judged/steps, "judge-ns/step")
		})
	}
}
