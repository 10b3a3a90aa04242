package corpus

import (
	"encoding/base64"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// source generates text and other content. Its output depends only on its name,
// so that a message stays the same when other messages are added or removed.
type source struct{ *rand.Rand }

const seed = 0x6d6370 // "mcp"

func newSource(name string) source {
	h := fnv.New64a()
	h.Write([]byte(name))
	return source{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// one returns one of the values at random.
func one[T any](s source, from ...T) T { return from[s.IntN(len(from))] }

// chance returns true in this percentage of calls.
func (s source) chance(percent int) bool { return s.IntN(100) < percent }

// sentences returns prose of about n bytes: mostly ASCII, sometimes with quotes, line ends and
// other scripts.
func (s source) sentences(n int) string {
	var b strings.Builder
	b.Grow(n + 32)
	for b.Len() < n {
		for word, last := 0, 4+s.IntN(12); word <= last; word++ {
			w := one(s, words...)
			switch {
			case word == 0:
				b.WriteString(strings.ToUpper(w[:1]) + w[1:])
			case s.chance(2):
				b.WriteString(" `" + w + "`")
			case s.chance(1):
				b.WriteString(` "` + w + `"`)
			case s.chance(1):
				b.WriteString(" – " + w)
			default:
				b.WriteString(" " + w)
			}
		}
		b.WriteString(one(s, ". ", ". ", ". ", ". ", ".\n", ".\n\n- ", ": "))
	}
	text := b.String()[:n]
	return strings.ToValidUTF8(text, "")
}

// line returns prose of about n bytes on one line.
func (s source) line(n int) string {
	return strings.TrimSpace(strings.NewReplacer("\n\n- ", " ", "\n", " ").Replace(s.sentences(n)))
}

// base64 returns n random bytes as base64.
func (s source) base64(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

// icons returns a list of icons as tools and implementations have it.
func (s source) icons() list {
	icons := list{object{"src", "https://cdn.example.com/icons/" + one(s, nouns...) + ".png", "mimeType", "image/png", "sizes", list{"48x48", "96x96"}}}
	if s.chance(30) {
		icons = append(icons, object{"src", "data:image/svg+xml;base64," + s.base64(90), "mimeType", "image/svg+xml", "sizes", list{"any"}, "theme", one(s, "light", "dark")})
	}
	return icons
}

// annotations returns annotations as resources and content blocks have them.
func (s source) annotations() object {
	return object{"audience", one(s, list{"user"}, list{"assistant"}, list{"user", "assistant"}), "priority", one(s, 0.2, 0.5, 0.7, 1.0), "lastModified", "2025-11-02T09:14:31Z"}
}

var (
	verbs = []string{"search", "get", "list", "create", "update", "delete", "export", "summarize", "merge", "archive", "assign", "validate"}
	nouns = []string{"issues", "documents", "pages", "projects", "comments", "invoices", "customers", "branches", "reports", "messages", "calendars", "pipelines", "attachments", "releases"}
	words = strings.Fields(`the of and to in a is that for it as with on by this be are or from at which an have not they can
		returns results issue repository document page workspace query filter state open closed assigned label user team
		project milestone created updated last only matching optional required default maximum number per request cursor
		format markdown text file path folder branch commit review approve status error message server client resource
		template prompt tool argument value list entry name description title identifier unique when given without
		before after between first next other each all any more most some such used using uses see also note example
		architecture deployment configuration environment authentication permission schedule notification attachment`)
)
