package fields

import "strings"

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

// Join is the path of these names: Split gives them back.
func Join(names []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `.`, `\.`)
	escaped := make([]string, len(names))
	for i, n := range names {
		escaped[i] = escape.Replace(n)
	}
	return strings.Join(escaped, ".")
}
