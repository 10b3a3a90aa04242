package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Gate allows parameters of a server's tool only while another of its tools, the source, says that they
// are supported. The source is called for each call, so that a change there takes effect at once.
type Gate struct {
	// Tool is the tool, and Params are its gated parameters.
	Tool   string   `yaml:"tool"`
	Params []string `yaml:"params"`
	// Source is the tool that is called, with SourceParams: literals, or {param} for the value that the
	// call has.
	Source       string         `yaml:"source"`
	SourceParams map[string]any `yaml:"source_params"`
	// List is the path to the rows in the source's result. Match selects the row: a member, or one of
	// several ("name|stream"), and its value. Capability is the path in the row to what is supported.
	List       string            `yaml:"list"`
	Match      map[string]string `yaml:"match"`
	Capability string            `yaml:"capability"`
	// MatchValues requires each requested value to be among those of the capability.
	MatchValues bool `yaml:"match_values"`
	// Subject is the parameter that the refusal names, ErrorCode its code.
	Subject   string `yaml:"subject"`
	ErrorCode string `yaml:"error_code"`
	// OnUnavailable is allow (default) or deny: what happens to the call when Source fails.
	OnUnavailable string `yaml:"on_unavailable"`
	// TimeoutMS bounds the wait for Source, in milliseconds; 0 is 2000.
	TimeoutMS int `yaml:"timeout_ms"`
}

// longestGateTime is the greatest timeout_ms.
const longestGateTime = 60_000

// validate returns an error for the first invalid setting.
func (g *Gate) validate() error {
	for _, need := range [][2]string{{"tool", g.Tool}, {"source", g.Source}, {"capability", g.Capability}, {"error_code", g.ErrorCode}} {
		if need[1] == "" {
			return fmt.Errorf("%s: is required", need[0])
		}
	}
	switch {
	case len(g.Params) == 0 || slices.Contains(g.Params, ""):
		return errors.New("params: at least one name is required")
	case len(g.Match) == 0:
		return errors.New("match: is required")
	case g.OnUnavailable != "" && g.OnUnavailable != "allow" && g.OnUnavailable != "deny":
		return fmt.Errorf("on_unavailable: %q is neither allow nor deny", g.OnUnavailable)
	case g.TimeoutMS < 0 || g.TimeoutMS > longestGateTime:
		return fmt.Errorf("timeout_ms: %d is not within 0 and %d", g.TimeoutMS, longestGateTime)
	}
	if strings.Trim(g.ErrorCode, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return fmt.Errorf("error_code: %q is not in snake_case", g.ErrorCode)
	}
	if _, err := json.Marshal(g.SourceParams); err != nil {
		return errors.New("source_params: not JSON")
	}
	return nil
}
