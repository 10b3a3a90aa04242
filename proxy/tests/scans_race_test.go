//go:build race

package tests

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestScansOfACall: how often a call and its response are read from end to end. Between two eras a request is scanned
// once, and so is the response of a handshake server. That of a modern server is scanned before the bridge translates it,
// and afterwards.
func TestScansOfACall(t *testing.T) {
	want := map[string]int64{
		"legacy to legacy": 2, "modern to legacy": 2, "modern that can be asked to legacy": 2, "legacy to modern": 2, "newest legacy to modern": 2,
	}
	for _, c := range eraCalls(`{}`, "It will rain.") {
		call := c.begin(t)
		call() // opens the session
		before := wire.Scans()
		call()
		if n := wire.Scans() - before; n != want[c.name] {
			t.Errorf("%s: %d scans, want %d", c.name, n, want[c.name])
		}
	}
}
