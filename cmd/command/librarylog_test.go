package command

import (
	"encoding/json"
	"log"
	"strings"
	"testing"
)

// TestLibrariesQuoteNobody shows that what a library logs of a peer's words stays
// out of the log, and that the line is one of ours.
func TestLibrariesQuoteNobody(t *testing.T) {
	var out strings.Builder
	log.New(libraryLog{&out}, "", 0).Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "token s3cr3t", nil)
	var line struct{ Level, Msg, Said string }
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Level != "warn" ||
		line.Said != "Unsolicited response received on idle HTTP channel starting with" || strings.Contains(out.String(), "s3cr3t") {
		t.Error(err, out.String())
	}
}
