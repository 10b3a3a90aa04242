// Package redact removes secrets from what dragoman shows of messages: on its page, in exports, recordings, spans and debug
// lines.
//
// It removes five kinds: headers that are not on a short list, values whose member or parameter has a telling name, values
// that look like credentials, the secrets of dragoman's own configuration, and values that grant access to a session or a
// call. The last kind is replaced by a fingerprint, by which two of them can be compared. All of it but the
// configuration's own secrets is guessed, so a secret without a telling name or form stays.
package redact

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// MaxPayload is the greatest size in bytes of a payload that is read. A larger one is replaced by its size.
const MaxPayload = 32 << 20

// Payloads says what is shown of payloads.
type Payloads string

// Masked shows payloads without secrets, and None only the names, types and sizes of their values.
const (
	Masked Payloads = "masked"
	None   Payloads = "none"
)

// Options are what a Redactor knows of the configuration.
type Options struct {
	// Secrets are removed wherever they occur, in any spelling.
	Secrets secret.Known
	// Paths are the paths of further members that hold secrets, by the name of the tool, or "*" for every message. A path is
	// member names with dots between; a star is any name, and \. is a dot in a name. It does not mention arrays, it may
	// begin at any depth, and names compare without case.
	Paths map[string][]string
	// Payloads is Masked if it is "".
	Payloads Payloads
}

// Redactor removes secrets. It does not change, and is safe for concurrent use.
type Redactor struct {
	secrets secret.Known
	paths   map[string][][]string
	none    bool
	asIs    bool
}

// AsIs returns a Redactor for what was redacted before, such as a recording. It shows everything.
func AsIs() *Redactor { return &Redactor{asIs: true} }

// New returns a Redactor. Its error says which path cannot be used.
func New(o Options) (*Redactor, error) {
	r := &Redactor{secrets: o.Secrets, none: o.Payloads == None, paths: make(map[string][][]string)}
	for tool, paths := range o.Paths {
		for _, p := range paths {
			names, reason := splitPath(p)
			if reason != "" {
				return nil, fmt.Errorf("path %q of tool %q: %s", p, tool, reason)
			}
			r.paths[tool] = append(r.paths[tool], names)
		}
	}
	return r, nil
}

const maxPath = 32 // names of a path

func splitPath(path string) (names []string, reason string) {
	const dot = "\x00"
	for name := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, dot), ".") {
		if name == "" {
			return nil, "a name is empty"
		}
		names = append(names, strings.ToLower(strings.ReplaceAll(name, dot, ".")))
	}
	if len(names) > maxPath {
		return nil, fmt.Sprintf("more than %d names", maxPath)
	}
	return names, ""
}

// Payload returns a message, or a part of one, without secrets: valid JSON on one line. method is the message's, or that of
// the request that it answers, and tool the tool that is called. Text that is no JSON becomes a string. raw is not changed.
func (r *Redactor) Payload(method, tool string, raw []byte) []byte {
	if len(raw) > MaxPayload {
		return wire.AppendQuoted(nil, fmt.Sprintf("[%d bytes]", len(raw)))
	}
	v, err := tree.Parse(raw)
	switch {
	case r.asIs && err == nil:
		return v.Raw()
	case r.asIs:
		return wire.AppendQuoted(nil, raw)
	case err != nil && r.none:
		return wire.AppendQuoted(nil, fmt.Sprintf("[text, %d bytes]", len(raw)))
	case err != nil:
		return wire.AppendQuoted(nil, r.Text(string(raw)))
	case r.none:
		s := sizes{r: r}
		s.message(v)
		return s.out
	}
	w := walk{r: r, method: method, paths: append(slices.Clip(r.paths["*"]), r.paths[tool]...)}
	w.out = make([]byte, 0, len(raw)+len(raw)/8)
	w.value(v, state{})
	return w.out
}

// shown are the headers that are shown, in lower case.
var shown = []string{"content-type", "accept", "last-event-id", "traceparent", "tracestate"}

// The beginnings of the names of MCP's headers, see
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
const (
	mcpHeader   = "mcp-"
	paramHeader = "mcp-param-"
)

// Header returns what is shown of a header. It returns false if the header is not shown.
func (r *Redactor) Header(name, value string) (string, bool) {
	name = strings.ToLower(name)
	switch {
	case r.asIs:
		return value, true
	case name == "mcp-session-id":
		return r.Handle(value), true
	case !strings.HasPrefix(name, mcpHeader) && !slices.Contains(shown, name):
		return "", false
	case strings.HasPrefix(name, paramHeader) && r.none:
		return fmt.Sprintf("[string, %d bytes]", len(value)), true
	case strings.HasPrefix(name, paramHeader) && secret.ClassOf(name[len(paramHeader):], value) != secret.Plain:
		return Struck, true
	}
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
		if err != nil || r.Text(string(text)) != string(text) {
			return Struck, true
		}
	}
	return r.Text(value), true
}

// Handle returns the fingerprint of a value that grants access, such as a session's id: 16 hexadecimal digits that are equal
// for equal values, or "" for "".
func (r *Redactor) Handle(value string) string {
	if r.asIs {
		return value
	}
	return fingerprint(value)
}

// Text returns text without secrets. It takes time linear in the length of text.
func (r *Redactor) Text(text string) string {
	if r.asIs {
		return text
	}
	return secret.Guess(r.secrets.Strike(text), handled)
}

// Cut is Payload for the beginning of a message that was cut. What was cut in the middle is left out, since nothing tells what it was; of a
// text that is no JSON, all is.
func (r *Redactor) Cut(method, tool string, raw []byte) string {
	if r.asIs {
		return string(raw)
	}
	whole := completed(raw)
	if r.none || !wire.Valid(whole) {
		return fmt.Sprintf("[text, %d bytes]", len(raw))
	}
	return string(r.Payload(method, tool, whole))
}
