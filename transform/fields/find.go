package fields

// Split cuts the path of a rule into its steps, unescaped. A path that cannot be read has no steps.
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
