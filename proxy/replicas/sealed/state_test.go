package sealed

import (
	"strings"
	"testing"
	"time"
)

func FuzzRequestState(f *testing.F) {
	s := testSealer(f, "http://a/mcp", 1)
	good := s.SealState(ID{1}, State{ID: ID{2}, Round: 3, Expires: time.UnixMilli(1_700_000_000_123)})
	for _, seed := range []string{"", good, good[1:], good + "A", good + "\n", strings.Repeat("A", len(good)), s.SealSession(testTicket("x")), "=", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		st, instance, ok := s.OpenState(text)
		if !ok {
			return
		}
		if instance != (ID{1}) || st.ID != (ID{2}) || st.Round != 3 || st.Expires.UnixMilli() != 1_700_000_000_123 {
			t.Errorf("%q opens to %+v, which was never sealed", text, st)
		}
	})
}
