package corpus

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// large is a list or a result of a tool that is made to a size.
type large struct {
	name   string
	id     int // of the request in testdata
	method wire.Method
	result object
}

// sized returns the large messages of at most about maxSize bytes.
func sized(maxSize int) (all []large) {
	for _, n := range Tools() {
		if name := fmt.Sprintf("tools_list_%d", n); n*1000 <= maxSize {
			all = append(all, large{name, 5, wire.ToolsList, toolsList(name, n)})
		}
	}
	for _, size := range Sizes() {
		if size > maxSize {
			continue
		}
		for _, of := range []struct {
			what string
			make func(name string, size int) object
		}{
			{"text", textResult},
			{"structured", func(name string, size int) object { return structuredResult(name, size, false) }},
			{"twin", func(name string, size int) object { return structuredResult(name, size, true) }},
			{"blob", blobResult},
			{"mixed", mixedResult},
		} {
			name := "call_" + of.what + "_" + sizeName(size)
			all = append(all, large{name, 18, wire.ToolsCall, of.make(name, size)})
		}
	}
	return all
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%dMiB", n>>20)
	}
	return fmt.Sprintf("%dKiB", n>>10)
}

// Results of tools by size. size is that of the whole message in bytes, with a tolerance of a few
// hundred. The smallest messages are as large as their members require.

// textResult returns a result with one block of prose.
func textResult(name string, size int) object {
	s := newSource(name)
	return object{"content", list{object{"type", "text", "text", s.quotedTo(size - 90)}}}
}

// quotedTo returns prose that has about n bytes as a JSON string.
func (s source) quotedTo(n int) raw {
	text := appendQuoted(nil, s.sentences(n))
	return raw(appendQuoted(nil, s.sentences(max(2*n-len(text), 1))))
}

// structuredResult returns a result with a list of records as structured content. With twin, it also has
// them as a text block, for clients whose revision has no structured content.
func structuredResult(name string, size int, twin bool) object {
	s := newSource(name)
	room := size - 150
	if twin {
		room = room * 9 / 19 // quotes are escaped in the twin
	}
	var records list
	for used := 0; used < room; {
		record := raw(appendJSON(nil, s.record(len(records))))
		records = append(records, record)
		used += len(record) + 1
	}
	structured := raw(appendJSON(nil, object{"items", records, "total", len(records), "hasMore", false}))
	text := fmt.Sprintf("%d records found.", len(records))
	if twin {
		text = string(structured)
	}
	return object{"content", list{object{"type", "text", "text", text}}, "structuredContent", structured}
}

func (s source) record(number int) object {
	return object{
		"id", number + 1, "title", s.line(20 + s.IntN(60)), "state", one(s, "open", "closed"),
		"labels", list{one(s, nouns...), one(s, verbs...)}, "score", float64(s.IntN(10000)) / 100,
		"author", object{"name", one(s, words...), "title", nil}, "url", fmt.Sprintf("https://tracker.example.com/items/%d?view=full", number+1),
	}
}

// blobResult returns a result with one embedded file.
func blobResult(name string, size int) object {
	s := newSource(name)
	return object{"content", list{object{"type", "resource", "resource", object{
		"uri", "demo://resource/dynamic/blob/" + fmt.Sprint(size), "mimeType", "application/octet-stream", "blob", s.base64((size - 220) * 3 / 4),
		"_meta", object{"example.com/etag", "a91f"},
	}}}}
}

// mixedResult returns a result with prose, audio and resource links.
func mixedResult(name string, size int) object {
	s := newSource(name)
	links := 2 + size>>13
	blocks := list{
		object{"type", "text", "text", s.quotedTo(size / 8), "annotations", s.annotations()},
		object{"type", "audio", "data", s.base64(size * 3 / 16), "mimeType", "audio/wav", "annotations", s.annotations()},
		object{"type", "image", "data", s.base64(size * 3 / 16), "mimeType", "image/png", "_meta", object{"example.com/width", 640}},
	}
	for i := range min(links, 200) {
		blocks = append(blocks, s.resourceLink(i))
	}
	last := object{"type", "text", "text", ""}
	return object{"content", append(blocks, last), "isError", false}.fill(last, size)
}

// fill puts prose into the text of a block so that o has about this size.
func (o object) fill(block object, size int) object {
	if room := size - 50 - len(appendJSON(nil, o)); room > 0 {
		block[3] = newSource("fill").quotedTo(room)
	}
	return o
}

func (s source) resourceLink(number int) object {
	file := fmt.Sprintf("%s-%d.md", one(s, nouns...), number)
	link := object{
		"type", "resource_link", "uri", "demo://resource/static/document/" + file, "name", file,
		"mimeType", "text/markdown", "description", s.line(30 + s.IntN(60)),
	}
	if s.chance(50) {
		link = append(link, "title", s.line(20))
	}
	if s.chance(50) {
		link = append(link, "size", 1000+s.IntN(100000))
	}
	if s.chance(30) {
		link = append(link, "icons", s.icons())
	}
	return append(link, "annotations", s.annotations())
}
