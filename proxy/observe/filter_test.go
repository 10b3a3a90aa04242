package observe

import (
	"strings"
	"testing"
)

func TestFilter(t *testing.T) {
	row := Row{
		N: 1, Kind: "request", Method: "tools/call", Tool: "list_issues", ID: "7", Session: "9f21c0d200000000", Client: "Claude Code 2.1", ClientRevision: "2025-11-25",
		Server: "everything 2026", ServerRevision: "2024-11-05", Status: "ok", MS: &RowMS{0.5, 0.5, 38}, Bytes: &RowSize{186000, 1900}, Tokens: &RowSize{39891, 385},
		Rules: []string{"C01", "C31"}, By: []string{"transform"},
	}
	payload := func(text string) bool { return strings.Contains(`{"result":"needle"}`, text) }
	for filter, want := range map[string]bool{
		"":                                 true,
		"list_":                            true,
		"LIST_ISSUES":                      true,
		"needle":                           true,
		"other":                            false,
		"-other":                           true,
		"-needle":                          false,
		"method:tools/call status:ok":      true,
		"method:tools/call status:error":   false,
		"method:tools":                     false,
		"method:tools/*":                   true,
		"tool:list* rule:c31":              true,
		"rule:C02":                         false,
		"rule:transform":                   true,
		"-rule:C02":                        true,
		"client:2025-11-25":                true,
		"client:claude* server:everything": true,
		"server:every":                     false,
		"session:9f21*":                    true,
		"dir:in":                           true,
		"dir:out":                          false,
		"kind:request id:7":                true,
		"ms:>38":                           true,
		"ms:>40":                           false,
		"ms:<40 tokens:>1000":              true,
		"bytes:>1000":                      true,
		"bytes:<1000":                      false,
		"ms:>x":                            false, // is text
		"-ms:>40":                          true,
	} {
		if got := ParseFilter(filter).Match(&row, payload); got != want {
			t.Errorf("%q: %v, want %v", filter, got, want)
		}
	}
	row.MS, row.Tokens, row.Bytes = nil, nil, nil
	for _, filter := range []string{"ms:>0", "ms:<9", "tokens:<9", "bytes:<9"} {
		if ParseFilter(filter).Match(&row, payload) {
			t.Errorf("%q chooses a row without a number", filter)
		}
	}
}
