package fields

// Split cuts the path of a rule into its steps, unescaped. It returns nil if
// the path is not valid.
func Split(path string) []string {
	steps, err := parse(path)
	if err != nil {
		return nil
	}
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return names
}
