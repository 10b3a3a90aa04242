package config

import (
	"fmt"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

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
