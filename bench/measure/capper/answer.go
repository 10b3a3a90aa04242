package capper

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

//go:embed testdata/*.json
var corpus embed.FS

// encoding is the token encoding of the default model.
var encoding = func() *tokens.Encoding {
	e, err := tokens.Named(tokens.O200K, 1)
	if err != nil {
		panic(err)
	}
	return e
}()

// An answer is a CallToolResult of the corpus.
type answer struct {
	Name   string          `json:"name"`
	Kind   string          `json:"kind"`
	Facts  string          `json:"facts"` // the names of the rules that find its facts
	Result json.RawMessage `json:"result"`
	Schema json.RawMessage `json:"schema"` // the tool's outputSchema
}

// held reports whether an answer is held out, that is, not used for tuning.
func held(name string) bool { return sha256.Sum256([]byte(name))[0]&1 == 1 }

// load reads the answers of a set: those of the corpus, or of a folder.
func load(set, only, folder string) (all []*answer, err error) {
	from := fs.FS(corpus)
	if folder != "" {
		from, set = os.DirFS(folder), "all"
	}
	files, err := fs.Glob(from, "*.json")
	if folder == "" {
		files, err = fs.Glob(from, "testdata/*.json")
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".json")
		if set == "tune" && held(name) || set == "held" && !held(name) || !strings.Contains(name, only) {
			continue
		}
		text, err := fs.ReadFile(from, file)
		if err != nil {
			return nil, err
		}
		a := new(answer)
		if err := json.Unmarshal(text, a); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// texts returns the texts of an answer that a model reads, without repetitions.
func (a *answer) texts() (all []string) {
	structured := gjson.GetBytes(a.Result, "structuredContent")
	said := false
	gjson.GetBytes(a.Result, "content").ForEach(func(_, b gjson.Result) bool {
		text := b.Get("text").Str
		if t := b.Get("resource.text"); t.Exists() {
			text = t.Str
		}
		if text != "" {
			all = append(all, text)
			said = said || repeats(structured, text)
		}
		return true
	})
	if structured.Exists() && !said {
		all = append(all, structured.Raw)
	}
	return all
}

// repeats reports whether a text has the same content as the structured content.
func repeats(structured gjson.Result, text string) bool {
	if !structured.Exists() {
		return false
	}
	if longest(structured) == text {
		return true
	}
	return gjson.Valid(text) && equalJSON(structured.Raw, text)
}

func equalJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}
