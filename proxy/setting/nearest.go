package setting

// Nearest returns the candidate that is closest to a misspelt name. It returns "" if
// more than a third of the letters of name differ from every candidate.
func Nearest(name string, candidates []string) string {
	best, distance := "", len(name)/3+1
	for _, c := range candidates {
		if d := edits(name, c); d < distance || d == distance && best != "" && c < best {
			best, distance = c, d
		}
	}
	return best
}

// edits returns how many letters must be inserted, removed, replaced or swapped with
// their neighbor to turn a into b.
func edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			same := 0
			if a[i] != b[j] {
				same = 1
			}
			row[j+1] = min(last[j]+same, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

func suggest(near string) string {
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}
