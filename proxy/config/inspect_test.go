package config

import (
	"strings"
	"testing"
)

// TestThePageNeedsATokenWhereOthersCanReachIt checks also the form of the settings.
func TestThePageNeedsATokenWhereOthersCanReachIt(t *testing.T) {
	long := strings.Repeat("x", minToken)
	for name, c := range map[string]struct {
		admin string
		set   Inspect
		fault string
	}{
		"off":                    {"0.0.0.0:8809", Inspect{Payloads: "masked"}, ""},
		"loopback":               {"127.0.0.1:8809", Inspect{Enabled: true, Payloads: "masked"}, ""},
		"loopback by name":       {"localhost:8809", Inspect{Enabled: true, Payloads: "none"}, ""},
		"loopback, IPv6":         {"[::1]:8809", Inspect{Enabled: true, Payloads: "none"}, ""},
		"no address of its own":  {"", Inspect{Enabled: true, Payloads: "masked"}, ""},
		"every address":          {":8809", Inspect{Enabled: true, Payloads: "masked"}, "inspect.token"},
		"another address":        {"10.0.0.1:8809", Inspect{Enabled: true, Payloads: "masked"}, "inspect.token"},
		"another name":           {"dragoman.internal:8809", Inspect{Enabled: true, Payloads: "masked"}, "inspect.token"},
		"every address, a token": {":8809", Inspect{Enabled: true, Token: long, Payloads: "masked"}, ""},
		"a short token":          {"127.0.0.1:8809", Inspect{Enabled: true, Token: long[1:], Payloads: "masked"}, "inspect.token"},
		"other payloads":         {"127.0.0.1:8809", Inspect{Payloads: "all"}, "inspect.payloads"},
	} {
		t.Run(name, func(t *testing.T) {
			switch err := c.set.validate(c.admin); {
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fault)):
				t.Errorf("%v, want a fault of %s", err, c.fault)
			case err != nil && strings.Contains(err.Error(), long[1:]):
				t.Errorf("the error holds the token: %v", err)
			}
		})
	}
}
