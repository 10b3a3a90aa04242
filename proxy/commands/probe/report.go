package probe

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Report describes a server, and what its clients get through the proxy.
type Report struct {
	Server string `json:"server"` // the server's name and version
	// Era is "legacy" for a handshake server, "modern" for a server without a handshake, and
	// "both".
	Era string `json:"era"`
	// Revision is the server's newest revision. Handshake is its response to initialize, "" if it
	// has no handshake.
	Revision     string         `json:"revision"`
	Handshake    string         `json:"handshake,omitempty"`
	Transport    string         `json:"transport"` // http, sse or stdio
	Capabilities []string       `json:"capabilities"`
	Lists        []ListReport   `json:"lists"`
	Clients      []ClientReport `json:"clients"` // newest revision first
}

// ListReport is the length of one of the server's lists.
type ListReport struct {
	Name  string `json:"name"` // such as "tools"
	Count int    `json:"count"`
	// Refused is the message with which the server refuses the list, "" if it does not.
	Refused string `json:"refused,omitempty"`
	// Endless says why the list was not read to its end, "" if it was.
	Endless string `json:"endless,omitempty"`
}

// ClientReport says what clients of one revision get.
type ClientReport struct {
	Revision string `json:"revision"`
	// Way is "same" if messages pass unchanged, "translated", or "bridged" between a side with a
	// handshake and one without.
	Way string `json:"way"`
	// Features are the capabilities that clients are offered, such as "resources.subscribe".
	Features []string `json:"features"`
	// Works says that all entries of the lists reach the client.
	Works   bool     `json:"works"`
	Missing []string `json:"missing,omitempty"` // such as "tools: name", with the reason if it is known
	Changes []Change `json:"changes,omitempty"`
	// Lost describes what else of the server they lack.
	Lost []string `json:"lost,omitempty"`
	// PossiblyLost says what they would lack, and if what happens: "the server asks the user (elicitation): refused".
	PossiblyLost []string `json:"possibly_lost,omitempty"`
}

// Change is the effect of one rule on the entries of one list.
type Change struct {
	List  string   `json:"list"` // such as "tools", or "initialize"
	Rule  string   `json:"rule"`
	What  string   `json:"what"`
	Lost  bool     `json:"lost"`         // the client misses something of an entry
	To    string   `json:"to,omitempty"` // where the client finds it, if it was moved: "annotations.title"
	Level string   `json:"level"`
	Names []string `json:"names,omitempty"` // the changed entries
}

// handshake is the List of changes of the response to initialize.
const handshake = "initialize"

// Loses reports whether clients miss something of what they get.
func (c *ClientReport) Loses() bool {
	return len(c.Lost) > 0 || slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.Lost })
}

// RefusedTools returns the message with which the server refuses its list of tools, or "".
func (r *Report) RefusedTools() string {
	for _, l := range r.Lists {
		if l.Name == "tools" {
			return l.Refused
		}
	}
	return ""
}

// Works reports whether clients of every revision get all entries.
func (r *Report) Works() bool {
	return !slices.ContainsFunc(r.Clients, func(c ClientReport) bool { return !c.Works })
}

// carry translates one response of the server. facts are what the handshake has shown of the
// server.
func carry(t *translate.Translator, facts wire.Facts, method wire.Method, text []byte) ([]byte, []wire.Loss, error) {
	var m wire.Message
	if err := m.Scan(text, t.Shape()); err != nil {
		return nil, nil, err
	}
	m.Method, m.Facts = method, facts
	out, _, err := t.Rewrite(nil, &m)
	return out, m.Losses, err
}

// note adds an entry to the changes of the rules that have changed it.
func (c *ClientReport) note(list, name string, losses []wire.Loss) {
	for _, loss := range losses {
		if loss.Level < wire.Info {
			continue
		}
		at := -1
		for i, known := range c.Changes {
			if known.List == list && known.Rule == loss.Rule && known.What == loss.What {
				at = i
			}
		}
		if at < 0 {
			at = len(c.Changes)
			c.Changes = append(c.Changes, Change{List: list, Rule: loss.Rule, What: loss.What, Level: strings.ToLower(loss.Level.String())})
		}
		if loss.Level == wire.Warn {
			c.Changes[at].Level = "warn"
		}
		if loss.Standin {
			c.Changes[at].To = translate.MovedTo(loss.Rule, loss.What)
		}
		c.Changes[at].Lost = c.Changes[at].Lost || loss.Lost > 0
		if name != "" {
			c.Changes[at].Names = append(c.Changes[at].Names, name)
		}
	}
}
