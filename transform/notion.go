package transform

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/transform/notion"
	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// notionSource writes Notion's blocks and pages as Markdown.
type notionSource struct{}

func (notionSource) Name() string { return "notion" }

func (notionSource) Match(_, _ string, value []byte) int {
	// Every object of Notion's API names its kind.
	if !bytes.Contains(head(value), []byte(`"object"`)) {
		return 0
	}
	v, err := tree.Parse(value)
	if err != nil || !notion.Recognize(v) {
		return 0
	}
	return 90
}

func (notionSource) Options() []Option {
	d := notion.Defaults()
	return []Option{
		{Name: "output_format", Default: string(d.Output), Allowed: []string{string(notion.Markdown), string(notion.JSON)}, About: "What blocks and pages become."},
		{Name: "max_nesting", Default: d.MaxNesting, Min: 1, Max: 50, About: "Levels of indent; what is nested deeper has the last one."},
		{Name: "strip_signed_urls", Default: !d.KeepSigned, About: "Leaves the signature out of the addresses of Notion's own files."},
		{Name: "unknown", Default: d.Unknown, Allowed: []string{"note", "skip"}, About: "Note writes [unsupported: type] for a block of an unknown type, skip nothing."},
		{Name: "escape", Default: d.Escape, Allowed: []string{"minimal", "full"}, About: "Minimal escapes what would be Markdown, full what might be."},
		{Name: "html", Default: d.HTML, About: "Writes `<u>` for underlined text, for which Markdown has no mark."},
	}
}

func (notionSource) Apply(dst, value []byte, opt Values) ([]byte, Kind, error) {
	o := notion.Options{
		Output:     notion.Output(opt.String("output_format")),
		MaxNesting: opt.Int("max_nesting"),
		KeepSigned: !opt.Bool("strip_signed_urls"),
		Unknown:    opt.String("unknown"),
		Escape:     opt.String("escape"),
		HTML:       opt.Bool("html"),
	}
	kind := Text
	if o.Output == notion.JSON {
		kind = JSON
	}
	out, ok, err := notion.Convert(dst, value, o)
	if err == nil && !ok {
		err = ErrUnchanged
	}
	return out, kind, err
}

// head returns the beginning of a value, which has to be enough to guess what
// the value is.
func head(value []byte) []byte { return value[:min(len(value), 4<<10)] }
