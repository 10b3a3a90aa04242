package footprint

import "testing"

func TestCompactLength(t *testing.T) {
	if got := compactLen(` { "a b" : [ 1 , "\" \\" ] } `); got != len(`{"a b":[1,"\" \\"]}`) {
		t.Errorf("compact length %d", got)
	}
}
