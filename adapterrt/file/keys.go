package file

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/brief"
)

// maxKey is the largest number of characters of a property's name in the schema of a tool.
const maxKey = 64

// Key returns the name of the member in the input schemas of tools.
func (p *Property) Key() string { return cmp.Or(p.key, p.Name) }

// IsKey reports whether providers of models accept a name in a schema: ^[a-zA-Z0-9_.-]{1,64}$
func IsKey(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxKey
}

// keys returns, for each of the names of an object's members that is no valid key, the one to show in its place, and "" for
// the others. They depend on nothing but the names, and differ from each other and from all names. There are none if all names
// are valid.
func keys(names []string) []string {
	if !slices.ContainsFunc(names, func(name string) bool { return !IsKey(name) }) {
		return nil
	}
	out := make([]string, len(names))
	taken := make(map[string]bool, len(names))
	count := map[string]int{} // in how many names a word is
	long := 0
	for _, name := range names {
		taken[name] = true
		if len(name) > maxKey {
			long++
			seen := map[string]bool{}
			for _, w := range brief.Words(plainKey(name)) {
				if !seen[w] {
					seen[w] = true
					count[w]++
				}
			}
		}
	}
	for i, name := range names {
		if IsKey(name) {
			continue
		}
		key := plainKey(name)
		telling := map[string]bool{}
		for _, w := range brief.Words(key) {
			telling[w] = count[w] < long
		}
		short, _ := brief.Name(key, maxKey, telling)
		if short == "" || taken[short] {
			sum := sha256.Sum256([]byte(name))
			for n := 2; short == "" || taken[short]; n++ {
				ending := "_" + hex.EncodeToString(sum[:min(n, len(sum))])
				short, _ = brief.Name(cmp.Or(key, "member"), maxKey-len(ending), telling)
				short += ending
			}
		}
		out[i], taken[short] = short, true
	}
	return out
}

// plainKey returns a name without the characters that a key may not have. Of a long name, it separates the words by _.
func plainKey(name string) string {
	var b strings.Builder
	before := ' '
	for _, r := range name {
		valid := r < 0x80 && IsKey(string(r))
		switch {
		case !valid, len(name) > maxKey && (r == '.' || r == '-'):
			r = '_'
		case len(name) > maxKey && r >= 'A' && r <= 'Z':
			if before >= 'a' && before <= 'z' {
				b.WriteByte('_')
			}
			r |= 0x20
		}
		b.WriteRune(r)
		before = r
	}
	return strings.Trim(b.String(), "_.-")
}

// setKeys sets the keys of the members of d.
func (d *Definition) setKeys() {
	if d.Properties == nil {
		return
	}
	names := make([]string, len(*d.Properties))
	for i := range *d.Properties {
		names[i] = (*d.Properties)[i].Name
		d.renamed = d.renamed || (*d.Properties)[i].renamed
	}
	for i, key := range keys(names) {
		(*d.Properties)[i].key = key
		d.renamed = true
	}
}

// own returns the name and the definition of the member of d that a name means, or nil.
func (d *Definition) own(name string) (string, *Definition) {
	for i := range *d.Properties {
		if p := &(*d.Properties)[i]; name == p.Name || name == p.key && name != "" {
			return p.Name, &p.Definition
		}
	}
	return name, nil
}
