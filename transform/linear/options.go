package linear

// Options say what a summary holds.
type Options struct {
	// Detail is "minimal" for id, title, status, assignee and priority, or
	// "standard" for labels, project, dates and the like beside them.
	Detail   string
	Comments bool // add the comments, oldest first
}

// Defaults returns the options that apply if a configuration sets none.
func Defaults() Options { return Options{Detail: "minimal"} }
