package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt"
)

// Adapters sets which adapters are served, and how.
type Adapters struct {
	// Sources are adapter files and directories of them. Without any, no adapters are served. Recursive
	// includes subdirectories.
	Sources   []string `yaml:"sources"`
	Recursive bool     `yaml:"recursive"`
	// SkipInvalid starts without the files that are invalid.
	SkipInvalid bool `yaml:"skip_invalid"`

	// Mode is semantic, a tool for each of create, read, update, delete and
	// execute; single, one tool for all; or all, both.
	Mode string `yaml:"mode"`
	// Tools is shared, for tools that all adapters have in common, or per_adapter.
	Tools string `yaml:"tools"`
	// Prefix is put before the names of the tools.
	Prefix string `yaml:"prefix"`
	// OnClash sets what happens to a server's tool with the name of an adapter tool: shadow hides it, fail
	// refuses the session. Prefix avoids the collision.
	OnClash string `yaml:"on_clash"`
	// Instructions places the adapters' instructions beside the server's: append, prepend, replace, or
	// off.
	Instructions string `yaml:"instructions"`
	// Introspection is extended, which names parameters under both of their keys; compact,
	// under params alone; or strict, the closed form of details.
	Introspection string `yaml:"introspection"`

	// HTTPPrefix is the path of the plain HTTP endpoints; "" for none.
	HTTPPrefix string `yaml:"http_prefix"`
	// MaxResponse is the greatest size of an API's answer.
	MaxResponse Size `yaml:"max_response"`

	// TokenCommands are programs and their arguments, by the name of the adapter whose
	// token they print.
	TokenCommands map[string][]string `yaml:"token_commands"`

	Errors  AdapterErrors  `yaml:"errors"`
	Trust   AdapterTrust   `yaml:"trust"`
	Confirm AdapterConfirm `yaml:"confirm"`
	Network AdapterNetwork `yaml:"network"`
}

// What happens when an adapter's tool has the name of one of the server's: see [Adapters.OnClash].
const (
	ClashShadow = "shadow"
	ClashFail   = "fail"
)

// AdapterErrors sets what errors contain.
type AdapterErrors struct {
	// Dev leaves errors as APIs word them, with paths and addresses.
	Dev bool `yaml:"dev"`
	// Addresses is mask, or keep to leave private addresses and inner hosts in errors,
	// for an operator who runs dragoman beside the API.
	Addresses string `yaml:"addresses"`
	// Body adds to an API's error message what else its answer contains.
	Body bool `yaml:"body"`
}

// AdapterTrust sets what adapters may do at each level of trust.
type AdapterTrust struct {
	// Enforce is declared, for files with a trust block; strict, for all; or off.
	Enforce string `yaml:"enforce"`
	// Overrides are levels by adapter name, which override those of the files.
	Overrides map[string]string `yaml:"overrides"`
	// MaxSelfDeclared is the highest level that a file may declare.
	MaxSelfDeclared string `yaml:"max_self_declared"`
}

// AdapterConfirm sets which operations need confirmation, and how it is given.
type AdapterConfirm struct {
	// Destructive requires confirmation of every operation that is destructive by category or name.
	Destructive bool `yaml:"destructive"`
	// Via is auto, which asks the user where the client supports elicitation and returns a token
	// elsewhere; token, for tokens alone; or elicitation, which refuses the operation where the user
	// cannot be asked.
	Via string `yaml:"via"`
}

// AdapterNetwork sets which hosts adapters may call.
type AdapterNetwork struct {
	// InsecureHosts are hosts that may be called over http.
	InsecureHosts []string `yaml:"insecure_hosts"`
	// PublicOnly forbids private and loopback addresses.
	PublicOnly bool `yaml:"public_only"`
	// Redirects follows a GET's redirects within its origin.
	Redirects bool `yaml:"redirects"`
	// WebProxy uses the HTTP proxy that the environment names; addresses behind
	// one are not checked.
	WebProxy bool `yaml:"web_proxy"`
	// CAFile is a PEM file of the authorities that certificates of APIs are verified with; "" for the
	// system's.
	CAFile string `yaml:"ca_file"`
}

func defaultAdapters() Adapters {
	return Adapters{
		Mode:          adapterrt.Semantic.String(),
		Tools:         "shared",
		OnClash:       ClashShadow,
		Instructions:  "append",
		Introspection: "extended",
		HTTPPrefix:    "/adapters",
		MaxResponse:   10 << 20,
		Errors:        AdapterErrors{Addresses: "mask", Body: true},
		Trust:         AdapterTrust{Enforce: "declared", MaxSelfDeclared: "community_reviewed"},
		Confirm:       AdapterConfirm{Via: "auto"},
	}
}

// List returns the sources of adapters.
func (a *Adapters) List() []adapterrt.Source {
	var all []adapterrt.Source
	for _, path := range a.Sources {
		all = append(all, adapterrt.Source{Path: path, Recursive: a.Recursive})
	}
	return all
}

// validate returns an error for the first invalid setting. taken has the URL paths that are in use
// already.
func (a *Adapters) validate(taken []string) error {
	if _, err := adapterrt.ParseMode(a.Mode); err != nil {
		return fmt.Errorf("adapters.mode: %w", err)
	}
	for _, word := range []struct {
		path, value string
		of          []string
	}{
		{"tools", a.Tools, []string{"shared", "per_adapter"}},
		{"on_clash", a.OnClash, []string{ClashShadow, ClashFail}},
		{"instructions", a.Instructions, []string{"append", "prepend", "replace", "off"}},
		{"introspection", a.Introspection, []string{"extended", "compact", "strict"}},
		{"errors.addresses", a.Errors.Addresses, []string{"mask", "keep"}},
		{"confirm.via", a.Confirm.Via, []string{"auto", "token", "elicitation"}},
		{"trust.enforce", a.Trust.Enforce, []string{"declared", "strict", "off"}},
	} {
		if !slices.Contains(word.of, word.value) {
			return fmt.Errorf("adapters.%s: %q is not one of %s", word.path, word.value, strings.Join(word.of, ", "))
		}
	}
	if a.MaxResponse < 1<<20 || a.MaxResponse > 100<<20 {
		return fmt.Errorf("adapters.max_response: %d is not within 1MiB and 100MiB", a.MaxResponse)
	}
	for i, path := range a.Sources {
		if path == "" {
			return fmt.Errorf("adapters.sources[%d]: is empty", i)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.TokenCommands)) {
		if command := a.TokenCommands[name]; len(command) == 0 || command[0] == "" {
			return fmt.Errorf("adapters.token_commands.%s: is empty; it must name a program", name)
		}
	}
	return a.validatePrefix(taken)
}

func (a *Adapters) validatePrefix(taken []string) error {
	p := a.HTTPPrefix
	switch {
	case p == "":
		return nil
	case !strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/"):
		return fmt.Errorf("adapters.http_prefix: %q must begin with / and not end with it", p)
	case strings.HasPrefix(p, "/.well-known"):
		return fmt.Errorf("adapters.http_prefix: %q is a path of dragoman itself; choose another", p)
	}
	for _, other := range taken {
		if other == p || strings.HasPrefix(other, p+"/") {
			return fmt.Errorf("adapters.http_prefix: %q collides with %s", p, other)
		}
	}
	return nil
}
