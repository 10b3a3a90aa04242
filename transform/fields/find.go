package fields

// Split cuts a path into its steps, unescaped. A path that is none has no steps.
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
