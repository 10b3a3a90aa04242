package adapterrt

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// Options are the operator's choices. The zero value is good to use.
type Options struct {
	Mode       present.Mode
	PerAdapter bool   // a set of tools for each adapter instead of a shared one
	ToolPrefix string // of the tool names; with PerAdapter only for a single adapter
	HTTPPrefix string // path of the plain endpoints, default /adapters

	StrictFiles         bool                                  // what is doubtful in a file refuses it
	SkipInvalid         bool                                  // load the other files when one is wrong
	InsecureHosts       []string                              // host names that may be called over http
	PublicOnly          bool                                  // no calls to private and loopback addresses
	SameOriginRedirects bool                                  // follow a GET's redirects within its origin
	Proxy               func(*http.Request) (*url.URL, error) // nil for none; what is behind one is not checked
	RootCAs             *x509.CertPool                        // nil for the system's

	TrustEnforcement   guard.TrustEnforcement
	TrustOverrides     map[string]string // level by adapter name; it wins over the file's own word
	MaxSelfDeclared    string            // the most a file may say of itself, default community_reviewed
	ConfirmDestructive bool              // confirm what is destructive by its category or name, too
	ConfirmVia         guard.ConfirmVia  // how

	DevErrors        bool // errors as APIs word them, with paths and addresses
	NoErrorBody      bool // errors without what else the API's body says
	KeepAddresses    bool // private addresses and inner hosts stay in errors
	Introspection    present.Introspection
	MaxRequestBytes  int // default 1 MiB, 64 KiB–10 MiB
	MaxResponseBytes int // default 10 MiB, 1–100 MiB

	CursorKey []byte                      // seals cursors, so that replicas take each other's; nil for one of our own
	Getenv    func(string) (string, bool) // where credentials are looked up; nil for nowhere
	Tokens    credential.Store            // keeps OAuth tokens; nil for this process alone
	// Listen is where browsers come back to from logins that a caller is sent to; nil for
	// nowhere.
	Listen credential.Listen
	// TokenCommands are programs and their arguments, by the name of the adapter whose
	// token they print, in the place of what its file says.
	TokenCommands map[string][]string
	Now           func() time.Time // nil for time.Now
	UserAgent     string
}

func (o *Options) setDefaults() error {
	if o.HTTPPrefix == "" {
		o.HTTPPrefix = "/adapters"
	}
	if o.MaxRequestBytes == 0 {
		o.MaxRequestBytes = 1 << 20
	}
	if o.MaxResponseBytes == 0 {
		o.MaxResponseBytes = 10 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.CursorKey) == 0 {
		o.CursorKey = make([]byte, 32)
		rand.Read(o.CursorKey)
	}
	if o.UserAgent == "" {
		o.UserAgent = "dragoman"
	}
	var errs []error
	bad := func(format string, v ...any) { errs = append(errs, fmt.Errorf("adapters: "+format, v...)) }
	if o.MaxRequestBytes < 64<<10 || o.MaxRequestBytes > 10<<20 {
		bad("request limit %d is not within 64 KiB–10 MiB", o.MaxRequestBytes)
	}
	if o.MaxResponseBytes < 1<<20 || o.MaxResponseBytes > 100<<20 {
		bad("response limit %d is not within 1–100 MiB", o.MaxResponseBytes)
	}
	if err := o.policy().Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(o.CursorKey) < 16 {
		bad("cursor key needs 16 bytes, not %d", len(o.CursorKey))
	}
	if !strings.HasPrefix(o.HTTPPrefix, "/") || strings.HasSuffix(o.HTTPPrefix, "/") {
		bad("HTTP prefix %q must start with a slash and not end with one", o.HTTPPrefix)
	}
	if o.ToolPrefix != "" && !present.IsToolPrefix(o.ToolPrefix) {
		bad("tool prefix %q must be of a-z, 0-9 and _ and end with _", o.ToolPrefix)
	}
	return errors.Join(errs...)
}

// LoadEnv lays over o what the variables of the protocol's own say, wherever o is
// from: MCP_AQL_ENDPOINT_MODE is a mode, MCP_AQL_TOOL_PREFIX begins the tools' names.
// One that is empty counts as not set.
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

// files are the options that count when a file is read.
func (o *Options) files() *file.Options {
	return &file.Options{Strict: o.StrictFiles, InsecureHosts: o.InsecureHosts, Getenv: o.Getenv}
}

func (o *Options) policy() *guard.Policy {
	return &guard.Policy{
		Enforcement: o.TrustEnforcement, Overrides: o.TrustOverrides, MaxSelfDeclared: o.MaxSelfDeclared,
		ConfirmDestructive: o.ConfirmDestructive,
	}
}

func (o *Options) presentation() *present.Presenter {
	return present.New(present.Options{
		Mode: o.Mode, PerAdapter: o.PerAdapter, ToolPrefix: o.ToolPrefix,
		Introspection: o.Introspection,
		Limits: present.Limits{
			Request: o.MaxRequestBytes, Response: o.MaxResponseBytes, Text: maxText, Elements: maxElements, Depth: maxNesting,
		},
	})
}

// limits are those of a request.
func (o *Options) limits() limits {
	return limits{o.MaxRequestBytes, maxText, maxElements, maxNesting}
}
