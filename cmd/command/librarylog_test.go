package command

import (
	"encoding/json"
	"log"
	"strings"
	"testing"
)

// TestLibraryLogDropsQuotations checks that text of a peer that a library quotes stays
// out of the log, and that the line has the form of dragoman's log.
func TestLibraryLogDropsQuotations(t *testing.T) {
	var out strings.Builder
	log.New(libraryLog{&out, new(logForm)}, "", 0).Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "token s3cr3t", nil)
	var line struct{ Level, Msg, Said string }
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Level != "warn" ||
		line.Said != "Unsolicited response received on idle HTTP channel starting with" || strings.Contains(out.String(), "s3cr3t") {
		t.Error(err, out.String())
	}
}
