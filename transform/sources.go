package transform

// Builtin returns the sources that come with dragoman. A new one is a file with
// its type and one line here.
func Builtin() []Source {
	return []Source{
		onlyFields{},
		notionSource{},
		linearSource{},
	}
}
