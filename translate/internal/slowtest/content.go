package slowtest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// block is one content block of a tool's result, a prompt or a sampling message.
func (j *job) block(p string) {
	b := j.at(p)
	if !b.IsObject() {
		return
	}
	switch kind := textAt(b, "type"); {
	case kind == "audio" && j.down(r03):
		j.set(p, textBlock(audioText(b), b))
	case kind == "resource_link" && j.down(r06):
		j.set(p, textBlock(linkText(b), b))
	case kind == "resource_link" && j.down(r11):
		j.strip(p, "icons")
	}
	if j.down(r06) {
		j.stripMeta(p + ".resource")
		j.stripMeta(p)
		j.lastModified(p)
	}
}

// textBlock returns a text block to replace the block old. It keeps old's annotations.
func textBlock(text string, old gjson.Result) string {
	block := `{"type":"text","text":` + quote(text)
	if a := old.Get("annotations"); a.Exists() {
		block += `,"annotations":` + a.Raw
	}
	return block + `}`
}

func audioText(b gjson.Result) string { return omitted("audio", b) }

func omitted(what string, b gjson.Result) string {
	mime := textAt(b, "mimeType")
	if mime == "" {
		mime = "unknown type"
	}
	return fmt.Sprintf("[%s omitted: %s, %s]", what, mime, base64Size(textAt(b, "data")))
}

func base64Size(data string) string {
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil || strings.ContainsAny(data, "\r\n") {
		return fmt.Sprintf("%d base64 characters", utf8.RuneCountInString(data))
	}
	return fmt.Sprintf("%d bytes", len(decoded))
}

func linkText(b gjson.Result) string {
	label := textAt(b, "title")
	if label == "" {
		label = textAt(b, "name")
	}
	text := fmt.Sprintf("[resource link: %s] %s", label, textAt(b, "uri"))
	var about []string
	if mime := textAt(b, "mimeType"); mime != "" {
		about = append(about, mime)
	}
	if size := b.Get("size"); size.Type == gjson.Number {
		about = append(about, size.Raw+" bytes")
	}
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	if description := textAt(b, "description"); description != "" {
		text += " - " + description
	}
	return text
}

// structuredContent moves the value into a text block if the receiver's revision does not have
// the field, unless there is such a block already.
func (j *job) structuredContent() error {
	value := j.at("result.structuredContent")
	unknown := j.down(r06) || j.down(r26) && !value.IsObject()
	if !unknown || !value.Exists() {
		return nil
	}
	return j.intoText("result")
}

// toolResult does the same for a tool_result block of a sampling message if the value is not
// an object.
func (j *job) toolResult(p string) error {
	block := j.at(p)
	if !j.down(r26) || !block.IsObject() || textAt(block, "type") != "tool_result" {
		return nil
	}
	if value := block.Get("structuredContent"); !value.Exists() || value.IsObject() {
		return nil
	}
	return j.intoText(p)
}

func (j *job) intoText(result string) error {
	value, content := j.at(result+".structuredContent"), j.at(result+".content")
	if value.Type == gjson.Null {
		j.remove(result + ".structuredContent")
		return nil
	}
	if content.Exists() && !content.IsArray() {
		return errors.New(result + ".content is no array")
	}
	if text, isNew := newText(value, arrayOf(content)); isNew {
		block := `{"type":"text","text":` + quote(text) + `}`
		if content.Exists() {
			j.set(result+".content.-1", block)
		} else {
			j.set(result+".content", "["+block+"]")
		}
	}
	j.remove(result + ".structuredContent")
	return nil
}

// newText returns the compact JSON of a value without what the blocks say already.
func newText(value gjson.Result, blocks []gjson.Result) (string, bool) {
	if saidBy(value, blocks) {
		return "", false
	}
	if !value.IsObject() || len(blocks) == 0 {
		return withoutData(value.Raw, blocks), true
	}
	var left []string
	members := 0
	value.ForEach(func(name, v gjson.Result) bool {
		members++
		if !saidBy(v, blocks) && !(v.Type == gjson.String && isData(v.Raw, blocks)) {
			left = append(left, withoutData(name.Raw, blocks)+":"+withoutData(v.Raw, blocks))
		}
		return true
	})
	return "{" + strings.Join(left, ",") + "}", len(left) > 0 || members == 0
}

// saidBy reports whether a block says the value, or blocks say its elements in this order.
func saidBy(value gjson.Result, blocks []gjson.Result) bool {
	for _, b := range blocks {
		if says(b, value) {
			return true
		}
	}
	if !value.IsArray() || len(arrayOf(value)) == 0 {
		return false
	}
	for _, e := range arrayOf(value) {
		for len(blocks) > 0 && !says(blocks[0], e) {
			blocks = blocks[1:]
		}
		if len(blocks) == 0 {
			return false
		}
		blocks = blocks[1:]
	}
	return true
}

// says reports whether a block is the value, has its JSON as its text, or is that text.
func says(block, value gjson.Result) bool {
	if !block.IsObject() {
		return false
	}
	if value.IsObject() && hasType(value) && Equal(block.Raw, value.Raw) {
		return true
	}
	var text gjson.Result
	isText := textAt(block, "type") == "text"
	block.ForEach(func(name, v gjson.Result) bool {
		switch {
		case unquote(name) == "text" && isText && v.Type == gjson.String:
			text = v
		case unquote(name) == "resource" && v.IsObject():
			v.ForEach(func(name, v gjson.Result) bool {
				if unquote(name) == "text" {
					if text = v; v.Type != gjson.String {
						text = gjson.Result{}
					}
				}
				return true
			})
		}
		return true
	})
	if text.Type != gjson.String {
		return false
	}
	said := unquote(text)
	return value.Type == gjson.String && unquote(value) == said || isText && gjson.Valid(said) && Equal(said, value.Raw)
}

// hasType reports whether an object has a type, as each block has.
func hasType(object gjson.Result) (has bool) {
	object.ForEach(func(name, _ gjson.Result) bool {
		has = has || unquote(name) == "type"
		return true
	})
	return has
}

// isData reports whether a string, raw JSON, is the base64 of a block.
func isData(raw string, blocks []gjson.Result) bool {
	found := false
	look := func(of gjson.Result, member string) {
		of.ForEach(func(name, v gjson.Result) bool {
			found = found || unquote(name) == member && v.Type == gjson.String && len(v.Raw) > 2 && v.Raw == raw
			return true
		})
	}
	for _, b := range blocks {
		if !b.IsObject() {
			continue
		}
		look(b, "data")
		b.ForEach(func(name, v gjson.Result) bool {
			if unquote(name) == "resource" && v.IsObject() {
				look(v, "blob")
			}
			return true
		})
	}
	return found
}

// withoutData returns compact JSON without the base64 of blocks.
func withoutData(raw string, blocks []gjson.Result) string {
	var out strings.Builder
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			if raw[i] > ' ' {
				out.WriteByte(raw[i])
			}
			i++
			continue
		}
		end := i + 1
		for ; raw[end] != '"'; end++ {
			if raw[end] == '\\' {
				end++
			}
		}
		if text := raw[i : end+1]; isData(text, blocks) {
			out.WriteString(`"[base64 omitted]"`)
		} else {
			out.WriteString(text)
		}
		i = end + 1
	}
	return out.String()
}

func (j *job) samplingRequest() error {
	if j.to < r11 || !j.Facts.Has(wire.ClientSamplingTools) {
		if !empty(j.at("params.tools")) || j.usesTools() {
			j.refuse(-32602, "Client does not support tools in sampling")
			return nil
		}
		if j.at("params").IsObject() {
			j.remove("params.tools")
			j.remove("params.toolChoice")
		}
	}
	if j.down(r11) {
		j.stripTask()
		j.oneBlockEach("params.messages")
	}
	if c := j.at("params.includeContext"); j.up(r11) && !j.Facts.Has(wire.ClientSamplingContext) && c.Type == gjson.String {
		if c.String() == "thisServer" || c.String() == "allServers" {
			j.remove("params.includeContext")
		}
	}
	for p := range j.each("params.messages") {
		if !j.at(p).IsObject() {
			continue
		}
		if j.down(r11) {
			j.stripMeta(p)
		}
		if err := j.samplingContent(p + ".content"); err != nil {
			return err
		}
	}
	return nil
}

// samplingContent is one block or an array of them.
func (j *job) samplingContent(path string) error {
	if !j.at(path).IsArray() {
		j.block(path)
		return j.toolResult(path)
	}
	for p := range j.each(path) {
		j.block(p)
		if err := j.toolResult(p); err != nil {
			return err
		}
	}
	return nil
}

func isToolBlock(b gjson.Result) bool {
	kind := textAt(b, "type")
	return b.IsObject() && (kind == "tool_use" || kind == "tool_result")
}

func (j *job) usesTools() bool {
	for p := range j.each("params.messages") {
		content := j.at(p + ".content")
		if !j.at(p).IsObject() || !content.Exists() {
			continue
		}
		for _, b := range content.Array() { // Array returns a value that is not an array as one element
			if isToolBlock(b) {
				return true
			}
		}
	}
	return false
}

// oneBlockEach splits a message of n blocks into n messages.
func (j *job) oneBlockEach(path string) {
	messages := j.at(path)
	if !messages.IsArray() {
		return
	}
	var out []string
	for _, m := range messages.Array() {
		if !m.IsObject() || !m.Get("content").IsArray() {
			out = append(out, m.Raw)
			continue
		}
		blocks := m.Get("content").Array()
		for _, b := range blocks {
			out = append(out, with(m, "content", b.Raw))
		}
		if len(blocks) == 0 {
			out = append(out, with(m, "content", `{"type":"text","text":""}`))
		}
	}
	j.set(path, "["+strings.Join(out, ",")+"]")
}

func (j *job) samplingResult() error {
	const path = "result.content"
	content := j.at(path)
	if j.down(r11) {
		blocks := content.Array() // Array returns a value that is not an array as one element
		switch {
		case !content.Exists():
			return nil
		case len(blocks) == 1 && !isToolBlock(blocks[0]):
			j.set(path, blocks[0].Raw)
		case content.IsArray() || isToolBlock(content):
			texts := make([]string, len(blocks))
			for i, b := range blocks {
				texts[i] = inWords(b)
			}
			j.set(path, `{"type":"text","text":`+quote(strings.Join(texts, "\n"))+`}`)
		}
	}
	return j.samplingContent(path)
}

// inWords returns a text for a block of a sampling result.
func inWords(b gjson.Result) string {
	switch textAt(b, "type") {
	case "text":
		return textAt(b, "text")
	case "image", "audio":
		return omitted(textAt(b, "type"), b)
	case "tool_use":
		call := fmt.Sprintf("[tool call %s id=%s]", textAt(b, "name"), textAt(b, "id"))
		if input := b.Get("input"); input.Exists() {
			call += " " + compact(input.Raw)
		}
		return call
	case "tool_result":
		var texts []string
		if content := b.Get("content"); content.IsArray() {
			for _, inner := range content.Array() {
				if textAt(inner, "type") == "text" && inner.Get("text").Type == gjson.String {
					texts = append(texts, textAt(inner, "text"))
				}
			}
		}
		return fmt.Sprintf("[tool result id=%s] %s", textAt(b, "toolUseId"), strings.Join(texts, " "))
	}
	return fmt.Sprintf("[%s omitted]", textAt(b, "type"))
}
