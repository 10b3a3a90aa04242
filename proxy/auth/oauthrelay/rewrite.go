package oauthrelay

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// aboutBytes are headers about the bytes of a document, which are no longer true of a rewritten one.
var aboutBytes = [...]string{"Etag", "Digest", "Content-Digest", "Repr-Digest", "Content-Md5"}

// rewrite makes public the resource of the metadata of a protected resource. It drops signed_metadata, whose claims would
// stand above it: https://www.rfc-editor.org/rfc/rfc9728#section-2.2. Any other document stays as it is.
func (a *answer) rewrite(public *url.URL) {
	var members map[string]json.RawMessage
	if a.status != http.StatusOK || json.Unmarshal(a.body, &members) != nil || members["resource"] == nil {
		return
	}
	resource, err := json.Marshal(public.String())
	if err != nil {
		return
	}
	members["resource"] = resource
	delete(members, "signed_metadata")
	body, err := json.Marshal(members)
	if err != nil {
		return
	}
	a.body = body
	for _, name := range aboutBytes {
		a.header.Del(name)
	}
}

// isOwn reports whether the metadata at a path, which describes what, is that of the server itself.
func (r *Relay) isOwn(path, what string) bool {
	return strings.HasPrefix(path, metadata[0]) && slices.Contains([]string{"", r.Path, pathOf(r.known()), pathOf(r.Server)}, what)
}

// known returns the URL by which clients know the proxy, as far as the configuration says it.
func (r *Relay) known() *url.URL {
	if r.Public == nil {
		return &url.URL{Path: r.Path}
	}
	return r.Public
}

// PublicMetadata returns the URL at which clients find the metadata of the protected resource public.
func PublicMetadata(public *url.URL) string {
	return public.Scheme + "://" + public.Host + metadata[0] + strings.TrimSuffix(public.EscapedPath(), "/")
}

// RewriteChallenge returns a value of WWW-Authenticate in which each resource_metadata at a well-known path is that of public.
// All else stays as it is.
func RewriteChallenge(value string, public *url.URL) string {
	var out strings.Builder
	rest, from := value, 0
	for from < len(rest) {
		switch c := rest[from]; {
		case c == '"':
			from += quotedLength(rest[from:])
		case !isParameter(rest, from):
			from++
		default:
			begin := from + len(parameter) + strings.IndexByte(rest[from+len(parameter):], '=') + 1
			begin += len(rest[begin:]) - len(strings.TrimLeft(rest[begin:], " \t"))
			end := begin + valueLength(rest[begin:])
			at, err := url.Parse(unquoted(rest[begin:end]))
			if err == nil && (at.EscapedPath() == metadata[0] || strings.HasPrefix(at.EscapedPath(), metadata[0]+"/")) {
				out.WriteString(rest[:begin])
				out.WriteString(`"` + PublicMetadata(public) + `"`)
			} else {
				out.WriteString(rest[:end])
			}
			rest, from = rest[end:], 0
		}
	}
	out.WriteString(rest)
	return out.String()
}

// parameter is the parameter of a challenge that leads to metadata:
// https://www.rfc-editor.org/rfc/rfc9728#section-5.1.
const parameter = "resource_metadata"

// isParameter reports whether parameter begins at a place of a challenge outside of quotes, with its equals sign.
func isParameter(text string, at int) bool {
	if len(text)-at < len(parameter) || !strings.EqualFold(text[at:at+len(parameter)], parameter) || at > 0 && !strings.ContainsRune(" \t,", rune(text[at-1])) {
		return false
	}
	return strings.HasPrefix(strings.TrimLeft(text[at+len(parameter):], " \t"), "=")
}

// quotedLength returns the length of a quoted string at the beginning of text.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// valueLength returns the length of a parameter's value at the beginning of text.
func valueLength(text string) int {
	if strings.HasPrefix(text, `"`) {
		return quotedLength(text)
	}
	if end := strings.IndexAny(text, ", \t"); end >= 0 {
		return end
	}
	return len(text)
}

// unquoted returns what a parameter's value stands for.
func unquoted(value string) string {
	inner, ok := strings.CutPrefix(value, `"`)
	if !ok {
		return value
	}
	var out strings.Builder
	for i := 0; i < len(inner) && inner[i] != '"'; i++ {
		if inner[i] == '\\' && i+1 < len(inner) {
			i++
		}
		out.WriteByte(inner[i])
	}
	return out.String()
}
