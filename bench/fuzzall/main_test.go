package main

import "testing"

func TestOnlyTheClockIsNoFailure(t *testing.T) {
	for out, want := range map[string]bool{
		"fuzz: elapsed: 25s\n--- FAIL: FuzzCuts (25.19s)\n    context deadline exceeded\nFAIL\nexit status 1\n":                                    true,
		"--- FAIL: FuzzCuts (2s)\n    --- FAIL: FuzzCuts (0.00s)\n        x_test.go:1: wrong\n    \n    Failing input written to testdata\nFAIL\n": false,
		"--- FAIL: FuzzCuts (2s)\n    context deadline exceeded\nFAIL\n    Failing input written to testdata\n":                                    false,
		"panic: boom\nFAIL\n": false,
		"":                    false,
	} {
		if got := endedByClock([]byte(out)); got != want {
			t.Errorf("%t for %q", got, out)
		}
	}
}
