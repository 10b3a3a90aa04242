// Package slowtest is a slow and simple twin of package translate, for its tests and
// benchmarks. It translates messages path by path: each look-up or edit by gjson or sjson goes
// through the whole text. Its results must equal those of package translate.
//
// If an object has two members of one name, the path libraries see only the first. The
// result for such a message is undefined.
package slowtest

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// revisions are the names that Translate knows, oldest first.
var revisions = [...]string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// The revisions as numbers; each is also the step that leads to it.
const (
	r24 = iota
	r03
	r06
	r11
	r26
)

// Options are the switches; fields and values are those of the options of
// package translate, so that one converts into the other.
type Options struct {
	ResourceContentsName string
	ElicitationFallback  string
	Tasks                string
	SchemaDialect        string // unused: not applied by the translation of a message
}

// Message is one message to translate, and what is known of its session.
type Message struct {
	Text   string
	Kind   wire.Kind
	Method wire.Method // of a response: the method that it answers
	Facts  wire.Facts
	Stamp  *wire.Stamp
	Note   string // of a response: what Translate gave for its request
}

// Translation is the result of translating a message.
type Translation struct {
	Text    string
	Verdict wire.Verdict
	Note    string
}

// job is the state of one translation. Each rule changes Text.
type job struct {
	Options
	Message
	from, to int
	verdict  wire.Verdict
	made     string // the note of this request
}

// down reports whether the translation is from revision r or a later one to one before r.
func (j *job) down(r int) bool { return j.from >= r && j.to < r }

// up reports whether the translation is from a revision before r to r or a later one.
func (j *job) up(r int) bool { return j.from < r && j.to >= r }

func (j *job) at(path string) gjson.Result { return gjson.Get(j.Text, path) }

// isText reports whether the value at path is this string.
func (j *job) isText(path, want string) bool {
	v := j.at(path)
	return v.Type == gjson.String && v.String() == want
}

func (j *job) remove(path string) {
	if text, err := sjson.Delete(j.Text, path); err == nil {
		j.Text = text
	}
}

func (j *job) set(path, raw string) {
	if text, err := sjson.SetRaw(j.Text, path, raw); err == nil {
		j.Text = text
	}
}

// strip removes optional fields that the target does not know.
func (j *job) strip(parent string, names ...string) {
	for _, name := range names {
		if j.at(parent).IsObject() {
			j.remove(parent + "." + name)
		}
	}
}

// stripMeta removes the _meta of a nested object.
func (j *job) stripMeta(parent string) {
	j.strip(parent, "_meta")
}

// each yields the path of every item of the array at path.
func (j *job) each(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !j.at(path).IsArray() {
			return
		}
		for i := range j.at(path).Array() {
			if !yield(path + "." + strconv.Itoa(i)) {
				return
			}
		}
	}
}

// answer replaces the message with a reply to its sender. member is an error or a result, as
// JSON text with its name.
func (j *job) answer(member string) {
	j.Text = `{"jsonrpc":"2.0","id":` + j.at("id").Raw + `,` + member + `}`
	j.verdict = wire.Answer
}

func (j *job) refuse(code int, message string) {
	j.answer(fmt.Sprintf(`"error":{"code":%d,"message":%q}`, code, message))
}

func (j *job) drop() {
	j.Text, j.verdict = "", wire.Drop
}

// empty reports whether a value is null, "", [] or {}.
func empty(v gjson.Result) bool {
	switch {
	case v.IsObject():
		return len(v.Map()) == 0
	case v.IsArray():
		return len(v.Array()) == 0
	}
	return v.Type == gjson.Null || v.Type == gjson.String && v.Str == ""
}
