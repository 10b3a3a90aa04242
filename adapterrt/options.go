package adapterrt

import (
	"cmp"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// Shown says which operations are shown to which callers, and how. It can change while a runtime is in
// use, by [Runtime.Show].
type Shown struct {
	Mode present.Mode
	Pin  []string // operations that are a tool each in every mode, as operation or adapter.operation
	// Grants are what callers may use, by Request.Grant. The callers without a grant, "", may
	// use everything.
	Grants map[string]Grant
	// Words are the operator's, for the instructions: text of one line, at most 500 bytes.
	Words string
}

// maxWords is the greatest length of Shown.Words in bytes.
const maxWords = 500

// Options are the operator's choices. The zero value is ready to use.
type Options struct {
	Shown
	PerAdapter bool   // a set of tools for each adapter instead of a shared one
	ToolPrefix string // of the tool names; with PerAdapter it works only for a single adapter
	HTTPPrefix string // path of the plain endpoints, default /adapters

	StrictFiles         bool                                  // refuse a file for some warnings, such as unknown fields
	SkipInvalid         bool                                  // load the other files if one has an error
	InsecureHosts       []string                              // host names that may be called over http
	PublicOnly          bool                                  // no calls to private and loopback addresses
	Sent                secret.Known                          // keeps the credentials that requests carry
	SameOriginRedirects bool                                  // follow a GET's redirects within its origin
	Proxy               func(*http.Request) (*url.URL, error) // nil for none; addresses behind a proxy are not checked
	Dial                httpcall.Dial                         // opens connections to APIs; nil for those of the system
	RootCAs             *x509.CertPool                        // nil for the system's

	TrustEnforcement   guard.TrustEnforcement
	TrustOverrides     map[string]string // level by adapter name; it replaces the level that the file declares
	MaxSelfDeclared    string            // the highest level that a file may declare, default community_reviewed
	ConfirmDestructive bool              // also confirm operations that are destructive by their category or name
	ConfirmVia         guard.ConfirmVia  // how operations are confirmed

	DevErrors        bool // errors keep the API's own words, with paths and addresses
	NoErrorBody      bool // errors omit the rest of the API's error body
	KeepAddresses    bool // private addresses and internal host names stay in errors, and an API that cannot be reached is named
	Introspection    present.Introspection
	MaxRequestBytes  int             // default 1 MiB, 64 KiB–10 MiB
	MaxResponseBytes int             // default 10 MiB, 1–100 MiB
	Memory           httpcall.Memory // of answers; nil for memory without bounds

	CursorKey []byte // seals cursors; replicas share it to use each other's; nil for a random key
	// Replicas decides together with other replicas about confirmations, limits, quotas and cooldowns.
	// It is nil if this process decides alone. The other replicas must have the same CursorKey.
	Replicas guard.Replicas
	Getenv   func(string) (string, bool) // looks up credentials; nil if there are none
	// CheckTransform checks a transform block of a file, which is JSON. nil lets any pass.
	CheckTransform func(block []byte) error
	Tokens         credential.Store // keeps OAuth tokens; nil to keep them in this process only
	// Listen opens the address to which a browser returns from a login. It is nil if there
	// is no such address.
	Listen credential.Listen
	// TokenCommands are programs with their arguments, by the name of an adapter. The program
	// prints the adapter's token, which replaces the credential that the file names.
	TokenCommands map[string][]string
	Run           credential.Run // runs them; nil for programs of the operating system
	// Callers are the adapters, by name, whose APIs get the credentials of the callers.
	Callers   map[string]Callers
	Now       func() time.Time // nil for time.Now
	UserAgent string
}

// Validate returns what [New] finds wrong with o.
func (o Options) Validate() error { return o.setDefaults() }

func (o *Options) setDefaults() error {
	o.HTTPPrefix, o.UserAgent = cmp.Or(o.HTTPPrefix, "/adapters"), cmp.Or(o.UserAgent, "dragoman")
	o.MaxRequestBytes, o.MaxResponseBytes = cmp.Or(o.MaxRequestBytes, 1<<20), cmp.Or(o.MaxResponseBytes, 10<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Memory == nil {
		o.Memory = httpcall.Uncounted{}
	}
	if len(o.CursorKey) == 0 {
		o.CursorKey = make([]byte, 32)
		rand.Read(o.CursorKey)
	}
	var errs []error
	bad := func(setting, format string, v ...any) {
		errs = append(errs, fmt.Errorf("adapters."+setting+": "+format, v...))
	}
	if o.MaxRequestBytes < 64<<10 || o.MaxRequestBytes > 10<<20 {
		bad("max_request", "%d is not within 64KiB and 10MiB", o.MaxRequestBytes)
	}
	if o.MaxResponseBytes < 1<<20 || o.MaxResponseBytes > 100<<20 {
		bad("max_response", "%d is not within 1MiB and 100MiB", o.MaxResponseBytes)
	}
	if err := o.policy().Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(o.CursorKey) < 16 {
		bad("cursor_key", "needs 16 bytes, not %d", len(o.CursorKey))
	}
	if !strings.HasPrefix(o.HTTPPrefix, "/") || strings.HasSuffix(o.HTTPPrefix, "/") {
		bad("http_prefix", "%q must begin with / and not end with it", o.HTTPPrefix)
	}
	for _, name := range sortedKeys(o.Callers) {
		if err := o.Callers[name].Validate(); err != nil {
			bad("callers."+name, "%w", err)
		}
	}
	for _, name := range sortedKeys(o.Grants) {
		g := o.Grants[name]
		if err := g.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("adapters.tokens.%s.%w", name, err))
		}
	}
	switch {
	case len(o.Words) > maxWords:
		bad("instructions_text", "has %d bytes, and may have %d", len(o.Words), maxWords)
	case clean.Text(o.Words, maxWords) != o.Words:
		bad("instructions_text", "has hidden characters")
	}
	if o.ToolPrefix != "" && !present.IsToolPrefix(o.ToolPrefix) {
		bad("prefix", "%q must be of a-z, 0-9 and _ and end with _", o.ToolPrefix)
	}
	return errors.Join(errs...)
}

// LoadEnv overrides o with the environment variables that the specification of adapters
// names: MCP_AQL_ENDPOINT_MODE sets Mode, MCP_AQL_TOOL_PREFIX sets ToolPrefix. An empty
// variable counts as not set.
func (o *Options) LoadEnv(getenv func(string) (string, bool)) error {
	if word, _ := getenv("MCP_AQL_ENDPOINT_MODE"); word != "" {
		mode, err := present.ParseMode(word)
		if err != nil {
			return fmt.Errorf("MCP_AQL_ENDPOINT_MODE: %w", err)
		}
		o.Mode = mode
	}
	if prefix, _ := getenv("MCP_AQL_TOOL_PREFIX"); prefix != "" {
		if !present.IsToolPrefix(prefix) {
			return fmt.Errorf("MCP_AQL_TOOL_PREFIX: %q must be of a-z, 0-9 and _ and end with _", prefix)
		}
		o.ToolPrefix = prefix
	}
	return nil
}

// files returns the options for reading files.
func (o *Options) files() *file.Options {
	return &file.Options{Strict: o.StrictFiles, InsecureHosts: o.InsecureHosts, Getenv: o.Getenv, Transform: o.CheckTransform}
}

func (o *Options) policy() *guard.Policy {
	return &guard.Policy{
		Enforcement: o.TrustEnforcement, Overrides: o.TrustOverrides, MaxSelfDeclared: o.MaxSelfDeclared,
		ConfirmDestructive: o.ConfirmDestructive,
	}
}

// sortedKeys returns the keys of m in their order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (o *Options) presentation(mode present.Mode) *present.Presenter {
	return present.New(present.Options{
		Mode: mode, PerAdapter: o.PerAdapter, ToolPrefix: o.ToolPrefix,
		Introspection: o.Introspection,
		Limits: present.Limits{
			Request: o.MaxRequestBytes, Response: o.MaxResponseBytes, Text: maxText, Elements: maxElements, Depth: maxNesting,
		},
	})
}

// limits returns the limits of a request.
func (o *Options) limits() limits {
	return limits{o.MaxRequestBytes, maxText, maxElements, maxNesting}
}

// Callers says that an API gets the credential of the caller, which comes in headers of the
// caller's request, in place of the adapter's own.
type Callers struct {
	Headers  map[string]string // the caller's header, by the header to the API
	Fallback bool              // a caller without these headers uses the adapter's own credential
}

// Validate returns an error if a header cannot be used.
func (c Callers) Validate() error {
	if len(c.Headers) == 0 {
		return errors.New("names no header; it must have the header to the API and the header of the client, as in Authorization: X-GitHub-Token")
	}
	seen := map[string]bool{}
	for _, to := range sortedKeys(c.Headers) {
		from := c.Headers[to]
		switch {
		case !file.IsCredentialHeader(to):
			return fmt.Errorf("%q cannot be sent to an API: it is not a header, or one of the connection's", to)
		case seen[strings.ToLower(to)]:
			return fmt.Errorf("%s is there twice", to)
		case !file.IsCredentialHeader(from) || strings.EqualFold(from, "X-Dragoman-Token"):
			return fmt.Errorf("%s: %q cannot be the header of a client's credential", to, from)
		}
		seen[strings.ToLower(to)] = true
	}
	return nil
}
