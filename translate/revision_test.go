package translate

import "testing"

// TestNumbersNeverChange guards the numbers that are part of session ids in use.
func TestNumbersNeverChange(t *testing.T) {
	for n, name := range map[uint8]string{1: "2024-11-05", 2: "2025-03-26", 3: "2025-06-18", 4: "2025-11-25"} {
		r := Numbered(n)
		if r == nil || r.Name != name || r.Number() != n {
			t.Errorf("%d is %v, not %s", n, r, name)
		}
	}
	for _, n := range []uint8{0, uint8(len(revisions)) + 1, 255} {
		if r := Numbered(n); r != nil {
			t.Errorf("%d is %v", n, r)
		}
	}
}

// TestAnEmptyCursor: before 2026-07-28 it is the same as none, since then it is a cursor like any other.
func TestAnEmptyCursor(t *testing.T) {
	for _, r := range revisions {
		for cursor, want := range map[string]bool{"": false, "null": false, `"a"`: true, `" "`: true, `7`: true, `""`: r.Modern} {
			if r.HasCursor(cursor) != want {
				t.Errorf("%s: the cursor %q leads to a page: %v", r, cursor, !want)
			}
		}
	}
}
