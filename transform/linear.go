package transform

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/transform/linear"
	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// linearSource makes summaries of Linear's issues.
type linearSource struct{}

func (linearSource) Name() string { return "linear" }

func (linearSource) Match(_, _ string, value []byte) int {
	if !bytes.Contains(head(value), []byte(`"title"`)) {
		return 0
	}
	v, err := tree.Parse(value)
	if err != nil || !linear.Recognize(v) {
		return 0
	}
	return 80
}

// Wraps returns the member in which a summary has issues that did not come in
// an array.
func (linearSource) Wraps() string { return "issues" }

func (linearSource) Options() []Option {
	return []Option{
		{Name: "detail", Default: linear.Defaults().Detail, Allowed: []string{"minimal", "standard"},
			About: "Minimal keeps id, title, status, assignee and priority; standard labels, project, dates and the like, too."},
		{Name: "include_comments", Default: linear.Defaults().Comments, About: "Adds the comments, the oldest first."},
	}
}

func (linearSource) Apply(dst, value []byte, opt Values) ([]byte, Kind, error) {
	out, ok, err := linear.Convert(dst, value, linear.Options{
		Detail:   opt.String("detail"),
		Comments: opt.Bool("include_comments"),
	})
	if err == nil && !ok {
		err = ErrUnchanged
	}
	return out, JSON, err
}
