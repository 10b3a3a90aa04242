// Package clean removes from texts what their readers must not see.
//
// [Text] removes characters that hide or reorder text from a text of an adapter file,
// before a model reads it. [Sanitizer] removes from an API's error text what a client
// must not learn: credentials, stack traces, paths, and the structure of the network
// behind the API. [MaskKnown], [MaskSecrets] and [Redact] mask credentials for logs.
//
// The package takes and returns only texts; it does not depend on files or requests.
package clean

import (
	"errors"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// The shapes of credentials that have no telling name before them. All patterns are RE2,
// so they take linear time.
var (
	secretShapes = pattern.Later(`(?i:bearer|basic) +[A-Za-z0-9._~+/=-]{8,}` +
		`|\b(?:gh[pousr]_|github_pat_|sk-|lin_api_|ntn_|secret_|glpat-)[A-Za-z0-9_-]{8,}` +
		`|\bxox[a-z]-[A-Za-z0-9-]{8,}` +
		`|\b(?:AKIA|ASIA)[A-Z0-9]{12,}` +
		`|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?` +
		`|-----BEGIN [A-Z ]+-----(?s:.*?)(?:-----END [A-Z ]+-----|\z)`)
	connections = pattern.Later(`(?i)\b(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|rediss?|amqps?)://\S+`)
	userInfo    = pattern.Later(`(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@]+@`)
	// filePaths match paths that only a file system has. Where an API may have routes or pointers
	// of the same form, only paths that end in a file name with an extension match.
	filePaths = pattern.Later(`(^|[\s"'(=:,<\[]|file://)(?:/(?:home|Users|root|var|usr|opt|etc|proc)(?:/[\w.@+~-]+)+/?` +
		`|/(?:srv|tmp|app|private|mnt|data|code|build|workspace|lib)/(?:[\w.@+~-]+/)*[\w@+~-][\w.@+~-]*\.[A-Za-z][A-Za-z0-9]{0,4}\b` +
		`|[A-Za-z]:\\[^\s"']+)`)
	privateNets = pattern.Later(`\b(?:10(?:\.\d{1,3}){3}|127(?:\.\d{1,3}){3}|169\.254(?:\.\d{1,3}){2}|192\.168(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})\b(?::\d+)?|\[?\b(?:fe80|f[cd][0-9a-f]{2}):[0-9a-fA-F:]+\]?|(?:^|[\s\[])::1\b\]?`)
	innerHosts  = pattern.Later(`(?i)\b[a-z0-9][a-z0-9.-]*\.(?:internal|local|svc)\b(?:\.[a-z0-9.-]+)?`)
	stackLines  = pattern.Later(`(?m)^\s*(?:at\s+\S.*(?:\(|:\d+|\.(?:go|js|mjs|ts|py|java|rb|php|cs|kt)\b).*|File ".*|goroutine \d+.*|panic: .*|Traceback .*|\S+\.(?:go|js|ts|py|java|rb):\d+.*)$\n?`)
)

// programErrors are the names of errors of a programming language in the API's own program.
var programErrors = pattern.Later(`\b(?:Uncaught )?(?:TypeError|ReferenceError|SyntaxError|RangeError)(?: \[\w+\])?: `)

const masked = secret.Struck

// maxCleaned is how many bytes of a text are cleaned. It is more than the largest part of a
// text that is shown.
const maxCleaned = 16 << 10

// MayHaveSecret reports whether s may contain a credential. It is a cheap check to make before
// matching the patterns.
func MayHaveSecret(s string) bool {
	if len(s) < 12 {
		return false
	}
	for _, hint := range [...]string{"earer ", "asic ", "EARER ", "ASIC ", "gh", "sk-", "lin_api_", "ntn_", "secret_", "glpat-", "xox", "AKIA", "ASIA", "eyJ", "-----BEGIN"} {
		if strings.Contains(s, hint) {
			return true
		}
	}
	return false
}

// IsSecret reports whether s is a private key in PEM, or one of its words is a whole
// credential. A word without digits does not count, because it may be a name that only
// begins like a credential.
func IsSecret(s string) bool {
	if !MayHaveSecret(s) {
		return false
	}
	if strings.HasPrefix(s, "-----BEGIN") {
		return secretShapes().MatchString(s)
	}
	for _, w := range strings.Fields(s) {
		at := secretShapes().FindStringIndex(w)
		if at != nil && at[0] == 0 && at[1] == len(w) && strings.ContainsAny(w, "0123456789") {
			return true
		}
	}
	return false
}

// MaskSecrets masks what looks like a credential: known shapes, the values of names of secrets, see
// [secret.Guess], and user information in URLs.
func MaskSecrets(s string) string {
	s = connections().ReplaceAllString(s, masked)
	s = userInfo().ReplaceAllString(s, "${1}")
	s = secretShapes().ReplaceAllString(s, masked)
	return secret.Guess(s, nil)
}

// MaskKnown masks the credentials in known, however they are spelled. It does not mask credentials
// of less than four bytes, because they may occur in unrelated words.
func MaskKnown(s string, known []string) string {
	if s = secret.Strike(s, secret.NewSet(known...)); s == "" {
		return s
	}
	for _, k := range known {
		if len(k) >= 4 && len(k) < secret.Shortest {
			s = strings.ReplaceAll(s, k, masked)
		}
	}
	return s
}

// redacted is an error for logs in whose text credentials are masked. errors.Is and errors.As
// work as for the original error. It has no Unwrap, which would reveal the original text.
type redacted struct {
	err  error
	text string
}

func (e *redacted) Error() string        { return e.text }
func (e *redacted) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redacted) As(target any) bool   { return errors.As(e.err, target) }

// Redact masks credentials in the text of err, because errors quote peers, and a peer may
// quote what it was sent.
func Redact(err error, known []string) error {
	if err == nil {
		return nil
	}
	was := err.Error()
	if text := MaskSecrets(MaskKnown(was, known)); text != was {
		return &redacted{err, text}
	}
	return err
}

// Sanitizer removes from an API's text what a client must not learn: secrets, stack traces,
// paths, and the structure of the network behind the API.
type Sanitizer struct {
	Off           bool   // for developers: only secrets are masked
	KeepAddresses bool   // private addresses and internal host names stay
	Host          string // the API's own host, which may stay

	Known secret.Known // credentials of other calls, of clients and of dragoman itself, which an API may have got before
}

// Mask masks the credentials in known, as [MaskKnown] does, and those that the sanitizer knows.
func (z Sanitizer) Mask(s string, known []string) string { return z.Known.Strike(MaskKnown(s, known)) }

// Clean returns s sanitised, on one line and cut after limit runes. known are the
// credentials of the call.
func (z Sanitizer) Clean(s string, limit int, known []string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = z.Mask(s, known) // not shown even to developers
	s = s[:min(len(s), maxCleaned)]
	s = MaskSecrets(s)
	if !z.Off {
		s = stackLines().ReplaceAllString(s, "")
		s = programErrors().ReplaceAllString(s, "")
		s = withoutSQL(s)
		s = filePaths().ReplaceAllString(s, "${1}[path]")
		if z.KeepAddresses {
			return Text(s, limit)
		}
		keepHost := func(m string) string {
			if z.Host != "" && strings.Contains(z.Host, strings.Trim(m, "[] ")) {
				return m
			}
			return "[host]"
		}
		s = privateNets().ReplaceAllStringFunc(s, keepHost)
		s = innerHosts().ReplaceAllStringFunc(s, keepHost)
	}
	return Text(s, limit)
}

// Credential returns the credential s in a form that may be shown to people: its first four
// bytes and "...", or only "..." if s has fewer than twelve bytes.
func Credential(s string) string {
	if len(s) >= 12 {
		return s[:4] + "..."
	}
	return "..."
}
