package slowtest

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

func (j *job) tools(path string) {
	if (j.down(r11) || j.up(r26)) && j.at(path).IsArray() {
		kept := "[]"
		for _, tool := range j.at(path).Array() {
			support := tool.Get("execution.taskSupport")
			if tool.IsObject() && support.Type == gjson.String && support.String() == "required" {
				if !j.carriesTasks() {
					continue // it can only be called with a task
				}
			}
			kept, _ = sjson.SetRaw(kept, "-1", tool.Raw)
		}
		j.set(path, kept)
	}
	for p := range j.each(path) {
		j.tool(p)
	}
}

func (j *job) tool(p string) {
	if !j.at(p).IsObject() {
		return
	}
	if j.down(r06) {
		if j.to >= r03 {
			j.titleIntoAnnotations(p)
		}
		j.strip(p, "title", "outputSchema")
		j.stripMeta(p)
	}
	if j.down(r03) {
		j.strip(p, "annotations")
	}
	if j.down(r11) {
		j.strip(p, "icons", "execution")
	}
	j.eraTool(p)
}

func (j *job) titleIntoAnnotations(p string) {
	title, annotations := j.at(p+".title"), j.at(p+".annotations")
	if title.Type != gjson.String || title.Str == "" {
		return
	}
	if annotations.Exists() && !annotations.IsObject() || annotations.Get("title").Exists() {
		return
	}
	j.set(p+".annotations.title", title.Raw)
}

// resource translates a Resource or a ResourceTemplate.
func (j *job) resource(p string) {
	if !j.at(p).IsObject() {
		return
	}
	if j.down(r06) {
		j.strip(p, "title")
		j.stripMeta(p)
		j.lastModified(p)
	}
	if j.down(r11) {
		j.strip(p, "icons")
	}
}

func (j *job) prompt(p string) {
	if j.down(r06) {
		j.strip(p, "title")
		j.stripMeta(p)
		if j.at(p).IsObject() {
			for a := range j.each(p + ".arguments") {
				j.strip(a, "title")
			}
		}
	}
	if j.down(r11) {
		j.strip(p, "icons")
	}
}

// lastModified removes what 2025-06-18 added to the annotations of p.
func (j *job) lastModified(p string) {
	if !j.at(p).IsObject() || !j.at(p+".annotations").IsObject() || !j.at(p+".annotations.lastModified").Exists() {
		return
	}
	j.strip(p+".annotations", "lastModified")
	if empty(j.at(p + ".annotations")) {
		j.strip(p, "annotations")
	}
}

// contents translates the contents of resources/read.
func (j *job) contents(path string) error {
	for p := range j.each(path) {
		if !j.at(p).IsObject() {
			continue
		}
		if j.down(r06) {
			j.stripMeta(p)
			if j.ResourceContentsName != "off" {
				j.strip(p, "name")
			}
		}
		if j.up(r06) && j.ResourceContentsName != "off" && !j.at(p+".name").Exists() {
			switch name := nameOf(wellFormed(unquote(j.at(p + ".uri")))); {
			case name != "":
				j.set(p+".name", quote(name))
			case j.ResourceContentsName == "strict":
				return errors.New("MissingRequiredField: name of ResourceContents")
			}
		}
	}
	return nil
}

// nameOf derives a name from a URI: the last segment of its path, its host, or
// what follows the scheme.
func nameOf(uri string) string {
	rest := uri
	if scheme, after, ok := strings.Cut(uri, ":"); ok && isScheme(scheme) {
		rest = after
	}
	path, host := cutAny(rest, "?#"), ""
	if after, ok := strings.CutPrefix(path, "//"); ok {
		host = cutAny(after, "/")
		path = after[len(host):]
	}
	segments := strings.Split(path, "/")
	for i := len(segments) - 1; i >= 0; i-- {
		if segments[i] != "" {
			return percentDecoded(segments[i])
		}
	}
	if _, after, ok := strings.Cut(host, "@"); ok {
		host = after
	}
	if i := strings.LastIndexByte(host, ':'); i > strings.IndexByte(host, ']') {
		host = host[:i]
	}
	return host
}

// isScheme follows https://www.rfc-editor.org/rfc/rfc3986#section-3.1.
func isScheme(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"0123456789+-.") == ""
}

// wellFormed replaces lone surrogates with U+FFFD.
func wellFormed(s string) string {
	var out []byte
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			size = 3
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
	return string(out)
}

func cutAny(s, chars string) string {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i]
	}
	return s
}

// percentDecoded decodes s. It returns s itself if the result would not be valid text.
func percentDecoded(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			if i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0 {
				return s
			}
			out = append(out, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	if !utf8.Valid(out) {
		return s
	}
	return string(out)
}

func unhex(c byte) int {
	return strings.IndexByte("0123456789abcdef", c|0x20)
}
