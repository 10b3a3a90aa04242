package observe

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/translate"
)

// Words say what a rule, or what else changes messages, does.
type Words struct {
	What  string `json:"what,omitempty"`  // it is about, such as a member
	Since string `json:"since,omitempty"` // the revision that the rule is of
	Does  string `json:"does"`
}

// Rules returns what the names in [Row] of Rules and By mean: the rules of the translation as the docs list them, and the constants
// of [Note].
func Rules() map[string][]Words {
	all := map[string][]Words{}
	for by, does := range others {
		all[by] = []Words{{Does: does}}
	}
	for _, rule := range translate.Rules() {
		w := Words{What: rule.What, Does: rule.Does}
		if rule.Revision != nil {
			w.Since = rule.Revision.Name
		}
		if !slices.Contains(all[rule.ID], w) {
			all[rule.ID] = append(all[rule.ID], w)
		}
	}
	return all
}

// others are what changes messages besides the translation.
var others = map[string]string{
	Transform: "made a result shorter, or gave it another form, so that it fits a model",
	OwnTools:  "added a tool of dragoman's own or of an adapter, or answered a call of one",
	Cache:     "answered with a result that was kept from before",
	Bridge:    "put a client with a handshake and a server without one together, or the other way round",
	Gate:      "checked the call before the server got it, and may have refused it",
	Restart:   "sent the request again, because the server's process or session began anew",
	Replica:   "forwarded the message to the replica of dragoman that has the session",
	Trace:     "added the trace context of telemetry to the message",
	Dialect:   "rewrote tool schemas of JSON Schema draft-07 to 2020-12",
	Footprint: "made the list of tools or the instructions smaller",
	Handshake: "chose the revision that is proposed or agreed",
}
