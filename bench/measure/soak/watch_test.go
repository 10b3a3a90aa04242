package soak

import "testing"

func TestGrowthIsReported(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(i int) float64
		want bool
	}{
		{"level", func(int) float64 { return 50 }, true},
		{"saw", func(i int) float64 { return 50 + float64(i%12)*9 }, true},
		{"rising saw", func(i int) float64 { return 50 + float64(i%12)*9 + float64(i)/2 }, false},
		{"early growth", func(i int) float64 { return float64(min(i, 30)) * 5 }, true},
		{"shrinking", func(i int) float64 { return 500 - float64(i) }, true},
		{"slow leak", func(i int) float64 { return 50 + float64(i) }, false},
		{"fast leak", func(i int) float64 { return float64(i * i) }, false},
		{"step", func(i int) float64 { return 50 + float64(i/60*40) }, false},
	} {
		values := make([]float64, 90)
		for i := range values {
			values[i] = c.at(i)
		}
		if from, to, ok := flat(values, 6); ok != c.want {
			t.Errorf("%s: %v, from %v to %v", c.name, ok, from, to)
		}
	}
}
