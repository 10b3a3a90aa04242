package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Gate lets parameters of one of the server's tools through only while another
// one of its tools says that they are supported. It is asked each time, so that a
// change over there counts at once.
type Gate struct {
	// Tool is the tool, and Params the parameters of it that are gated.
	Tool   string   `yaml:"tool"`
	Params []string `yaml:"params"`
	// Source is the tool that is asked, with SourceParams: literals, or {param} for
	// what the call has there.
	Source       string         `yaml:"source"`
	SourceParams map[string]any `yaml:"source_params"`
	// List is where in its answer the rows are, and Match which of them is meant: a
	// member, or one of several ("name|stream"), and its value. Capability is where
	// in the row it stands what is supported.
	List       string            `yaml:"list"`
	Match      map[string]string `yaml:"match"`
	Capability string            `yaml:"capability"`
	// MatchValues says that each requested value must be among those there.
	MatchValues bool `yaml:"match_values"`
	// Subject is the parameter that a refusal speaks of, ErrorCode its code.
	Subject   string `yaml:"subject"`
	ErrorCode string `yaml:"error_code"`
	// OnUnavailable is allow or deny: what becomes of the call when Source gives no answer.
	OnUnavailable string `yaml:"on_unavailable"`
	// TimeoutMS bounds the wait for Source, in milliseconds; 0 is 2000.
	TimeoutMS int `yaml:"timeout_ms"`
}

// longestGateTime is the greatest timeout_ms.
const longestGateTime = 60_000

// validate finds the first thing that cannot be.
func (g *Gate) validate() error {
	for _, need := range [][2]string{{"tool", g.Tool}, {"source", g.Source}, {"capability", g.Capability}, {"error_code", g.ErrorCode}} {
		if need[1] == "" {
			return fmt.Errorf("%s: is needed", need[0])
		}
	}
	switch {
	case len(g.Params) == 0 || slices.Contains(g.Params, ""):
		return errors.New("params: names are needed")
	case len(g.Match) == 0:
		return errors.New("match: is needed")
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
