package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// AdviceOnRefused says what to do about a 401 of the server if Headers has a credential; "" if it has none.
func (u *Upstream) AdviceOnRefused() string {
	for name := range u.Headers {
		if secret.Named(name) || strings.Contains(strings.ToLower(name), "key") {
			return "the server refused the token of " + cmp.Or(u.HeadersFrom, "--header (upstream.headers)") + ": is it complete and still valid?"
		}
	}
	return ""
}

// schemes are those of Authorization that are followed by a credential.
var schemes = []string{"bearer", "basic", "token"}

// validateHeaders checks the names and the form of the values in Headers.
func (u *Upstream) validateHeaders(all *setting.Mistakes) {
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		value := u.Headers[name]
		if name == "" || strings.ContainsAny(name, " \t\r\n:") {
			all.Addf("upstream.headers", "%q is not a header name", name)
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			all.Addf("upstream.headers."+name, "value holds a line break")
		}
		if scheme := strings.TrimSpace(value); strings.EqualFold(name, "Authorization") && slices.Contains(schemes, strings.ToLower(scheme)) {
			all.Addf("upstream.headers."+name, "%q has no token: is a variable not set?", scheme)
		}
	}
}

// A Remark is said when clients begin to be served: what is probably not meant, the setting or the file, and what to do; "" for
// nothing.
type Remark struct{ What, Setting, Do string }

// unreplaced matches a header's value that is the name of a variable, alone or behind a scheme.
var unreplaced = pattern.Later(`^(?:[A-Za-z]+ +)?\$([A-Z_][A-Z0-9_]{0,63})$`)

// plainIn returns the headers that have the name of a variable in place of its value. They are read before variables are replaced: what
// a variable holds is a secret, and may begin with $.
func plainIn(headers map[string]string) (all []Remark) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if found := unreplaced().FindStringSubmatch(headers[name]); found != nil {
			// Without the $, with which it would be struck out as the value of a header.
			all = append(all, Remark{found[1] + " has no braces: it is sent as it is", "upstream.headers." + name, "write ${" + found[1] + "}"})
		}
	}
	return all
}

// mostNamed is how many servers, or mistakes, of a file that is not dragoman's an error names.
const mostNamed = 10

// readHeaderFile adds the headers of HeaderFile to Headers. from is called with the setting and the place of each.
func (u *Upstream) readHeaderFile(from func(path, place string)) error {
	if u.HeaderFile == "" {
		return nil
	}
	text, err := ReadSmall(u.HeaderFile)
	if err != nil {
		return fmt.Errorf("upstream.header_file: %w", err)
	}
	var all setting.Mistakes
	places, n := map[string]string{}, 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if len(all) == mostNamed { // it is no such file
			break
		}
		place := fmt.Sprintf("%s:%d", u.HeaderFile, n)
		wrong := func(what string) {
			all = append(all, setting.Mistake{Where: place, Text: what + " (upstream.header_file)"})
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch first := places[strings.ToLower(name)]; {
		case !ok || !file.IsToken(name) || !file.IsHeaderValue(value): // the line may be a secret
			wrong("expected 'Name: value'")
		case value == "":
			wrong(name + " has no value")
		case first != "":
			wrong(name + " is there twice, first at " + first)
		default:
			u.SetHeader(name, value)
			from("upstream.headers."+name, place)
			places[strings.ToLower(name)], u.HeadersFrom = place, u.HeaderFile
		}
	}
	if len(places)+len(all) == 0 {
		all.Addf("upstream.header_file", "%s holds no header", u.HeaderFile)
	}
	return all.Err()
}

// SetHeader sets one of Headers, in place of any of the same name in other letters.
func (u *Upstream) SetHeader(name, value string) {
	for other := range u.Headers {
		if strings.EqualFold(other, name) {
			delete(u.Headers, other)
		}
	}
	if u.Headers == nil {
		u.Headers = make(map[string]string)
	}
	u.Headers[name] = value
}
