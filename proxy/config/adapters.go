package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/transform"
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
	// execute; single, one tool for all; all, both; discrete, a tool for each operation;
	// search, tools that find operations and call them; or auto, discrete for up to 40
	// operations and search for more.
	Mode string `yaml:"mode"`
	// Pin names operations that have a tool of their own in every mode, as operation or adapter.operation.
	Pin []string `yaml:"pin"`
	// Tools is shared, for tools that all adapters have in common, or per_adapter.
	Tools string `yaml:"tools"`
	// Prefix is put before the names of the tools.
	Prefix string `yaml:"prefix"`
	// OnClash sets what happens to a server's tool with the name of an adapter tool: shadow hides it, fail
	// refuses the session. Prefix avoids the collision.
	OnClash string `yaml:"on_clash"`
	// Instructions places the adapters' instructions beside the server's: append, prepend, replace, or
	// off. With append, their first line comes first where the server's text would push it behind 512 characters.
	Instructions string `yaml:"instructions"`
	// InstructionsText is a sentence or two of the operator's for the adapters' instructions, at most 500 bytes.
	InstructionsText string `yaml:"instructions_text"`
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

	// Callers are adapters whose API gets the credentials of the client that calls, by name.
	Callers map[string]AdapterCallers `yaml:"callers"`
	// Tokens are what clients may use, by the name of their token in auth.named_tokens. * is for
	// all other HTTP clients.
	Tokens map[string]AdapterGrant `yaml:"tokens"`

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

// AdapterCallers says which headers of a client become which headers of the requests to the API.
type AdapterCallers struct {
	// Fallback sends the adapter's own credential where a client has sent none.
	Fallback bool `yaml:"fallback"`
	// Headers are the client's headers, by the header to the API.
	Headers map[string]string `yaml:",inline"`
}

// AdapterGrant says which operations clients may use: those that allow matches, without those that
// deny matches.
type AdapterGrant struct {
	// Allow and Deny are patterns such as github.*:read, create_issue or *:delete. Without Allow, all
	// operations are allowed.
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
}

// OtherClients stands in [Adapters.Tokens] for all HTTP clients whose token has no entry there.
const OtherClients = "*"

// AdapterErrors sets what errors contain.
type AdapterErrors struct {
	// Dev leaves errors as APIs word them, with paths and addresses.
	Dev bool `yaml:"dev"`
	// Addresses is mask, or keep to leave private addresses and inner hosts in errors, also that of an API which cannot be reached,
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
	CAFile string `yaml:"ca_file" file:"reload"`
}

func defaultAdapters() Adapters {
	return Adapters{
		Mode:          present.Semantic.String(),
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
func (a *Adapters) List() []file.Source {
	var all []file.Source
	for _, path := range a.Sources {
		all = append(all, file.Source{Path: path, Recursive: a.Recursive})
	}
	return all
}

// namedVariable matches a member of an adapter file that names a variable, such as token_env.
var namedVariable = pattern.Later(`_env"?\s*:\s*["']?(\w+)`)

// variables returns the names of the variables that adapter files name. Files that cannot be read are reported where they are loaded.
func (a *Adapters) variables() (names []string) {
	files, _ := file.Find(a.List())
	for _, path := range files {
		text, _ := ReadSmall(path)
		for _, found := range namedVariable().FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

// validate checks the settings, those of the adapter runtime as the runtime itself does. taken has the URL paths that are in use
// already.
func (a *Adapters) validate(all *setting.Mistakes, taken []string) {
	if a.MaxResponse == 0 { // for which the runtime has a default
		all.Addf("adapters.max_response", "must be greater than 0")
	}
	for i, path := range a.Sources {
		if path == "" {
			all.Addf(fmt.Sprintf("adapters.sources[%d]", i), "is empty")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.TokenCommands)) {
		if command := a.TokenCommands[name]; len(command) == 0 || command[0] == "" {
			all.Addf("adapters.token_commands."+name, "is empty; it must name a program")
		}
	}
	o, err := a.Options()
	if all.Add(err); err == nil {
		all.Add(o.Validate())
	}
	all.Add(a.validatePrefix(taken))
}

// PassesAuthorization reports whether an API gets the clients' Authorization, and names the first
// adapter whose API does.
func (a *Adapters) PassesAuthorization() (adapter string, passes bool) {
	for _, name := range slices.Sorted(maps.Keys(a.Callers)) {
		for _, header := range a.Callers[name].Headers {
			if strings.EqualFold(header, "Authorization") {
				return name, true
			}
		}
	}
	return "", false
}

// Shown returns which operations a runtime shows to which callers, and how.
func (a *Adapters) Shown() (adapterrt.Shown, error) {
	mode, err := present.ParseMode(a.Mode)
	if err != nil {
		return adapterrt.Shown{}, fmt.Errorf("adapters.mode: %w", err)
	}
	s := adapterrt.Shown{Mode: mode, Pin: a.Pin, Words: strings.Join(strings.Fields(a.InstructionsText), " ")}
	for name, g := range a.Tokens {
		if s.Grants == nil {
			s.Grants = map[string]adapterrt.Grant{}
		}
		s.Grants[name] = adapterrt.Grant(g)
	}
	return s, nil
}

// Options returns the options of the adapter runtime that follow from the values of a alone.
func (a *Adapters) Options() (adapterrt.Options, error) {
	shown, err := a.Shown()
	if err != nil {
		return adapterrt.Options{}, err
	}
	form, err := present.ParseIntrospection(a.Introspection)
	if err != nil {
		return adapterrt.Options{}, fmt.Errorf("adapters.introspection: %w", err)
	}
	o := adapterrt.Options{
		Shown: shown, Callers: a.CallerRules(), PerAdapter: a.Tools == "per_adapter", ToolPrefix: a.Prefix,
		HTTPPrefix:    a.HTTPPrefix,
		SkipInvalid:   a.SkipInvalid,
		InsecureHosts: a.Network.InsecureHosts, PublicOnly: a.Network.PublicOnly, SameOriginRedirects: a.Network.Redirects,
		TrustOverrides: a.Trust.Overrides, MaxSelfDeclared: a.Trust.MaxSelfDeclared,
		ConfirmDestructive: a.Confirm.Destructive,
		DevErrors:          a.Errors.Dev, KeepAddresses: a.Errors.Addresses == "keep", NoErrorBody: !a.Errors.Body, Introspection: form,
		MaxResponseBytes: int(a.MaxResponse),
		TokenCommands:    a.TokenCommands,
		CheckTransform:   transform.CheckGiven,
	}
	switch a.Confirm.Via {
	case "token":
		o.ConfirmVia = guard.ConfirmToken
	case "elicitation":
		o.ConfirmVia = guard.ConfirmUser
	}
	switch a.Trust.Enforce {
	case "strict":
		o.TrustEnforcement = guard.TrustStrict
	case "off":
		o.TrustEnforcement = guard.TrustOff
	}
	return o, nil
}

// CallerRules returns which APIs get the credentials of clients.
func (a *Adapters) CallerRules() (rules map[string]adapterrt.Callers) {
	for name, c := range a.Callers {
		if rules == nil {
			rules = map[string]adapterrt.Callers{}
		}
		rules[name] = adapterrt.Callers{Headers: c.Headers, Fallback: c.Fallback}
	}
	return rules
}

// CallerHeaders returns the names of the clients' headers that are sent to APIs.
func (a *Adapters) CallerHeaders() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Callers)) {
		for _, header := range a.Callers[name].Headers {
			if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, header) }) {
				names = append(names, header)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (a *Adapters) validatePrefix(taken []string) error {
	p := a.HTTPPrefix
	switch {
	case p == "":
		return nil
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
