package setting

import "github.com/dragoman-proxy/dragoman/adapterrt/near"

// Nearest returns the candidate that is closest to a misspelt name. It returns "" if
// more than a third of the letters of name differ from every candidate.
func Nearest(name string, candidates []string) string {
	best, distance := "", len(name)/3+1
	for _, c := range candidates {
		if d := near.Distance(name, c, distance); d < distance || d == distance && best != "" && c < best {
			best, distance = c, d
		}
	}
	return best
}

func suggest(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}
