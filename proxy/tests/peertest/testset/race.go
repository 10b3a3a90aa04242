//go:build race

package testset

import "testing"

// WithoutRace skips the test under the race detector, because it shows nothing there: why says so.
func WithoutRace(t testing.TB, why string) {
	t.Helper()
	t.Skip("not with the race detector: " + why)
}
