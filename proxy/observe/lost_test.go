package observe

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestWhatIsAddedIsChangedAndNotLost, in the row of a call and in what the ring adds up. A value that the receiver assumes
// is neither.
func TestWhatIsAddedIsChangedAndNotLost(t *testing.T) {
	r := observed(t, func(o *Observer) {
		for range 2 {
			raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			c := o.Begin(&Peers{Session: "s", ClientRevision: "2026-07-28", ServerRevision: "2024-11-05"}, o.Keep(raw), false)
			c.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep(raw)})
			c.Went(ClientEdge, ToClient, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`),
				wire.Loss{Rule: "C05", What: "icons", Level: wire.Warn, Count: 3, Lost: 2},
				wire.Loss{Rule: "C07", What: "execution", Level: wire.Assumed, Count: 7},
				wire.Loss{Rule: "C19", What: "oneOf", Level: wire.Warn, Count: 1, Standin: true},
				wire.Loss{Rule: "C29", What: "resultType", Level: wire.Debug, Count: 1})
			c.End("ok", "")
		}
	})
	d, _ := r.Detail(1)
	for what, is := range map[string]struct {
		got  any
		want string
	}{
		"losses":  {d.Row.Losses, `[{"rule":"C05","what":"icons","count":2}]`},
		"changed": {d.Row.Changed, `[{"rule":"C05","what":"icons","count":1},{"rule":"C19","what":"oneOf","count":1},{"rule":"C29","what":"resultType","count":1}]`},
	} {
		if text, err := json.Marshal(is.got); err != nil || string(text) != is.want {
			t.Errorf("%s: %s, want %s", what, text, is.want)
		}
	}
	said := ""
	for _, l := range r.Losses() {
		said += fmt.Sprintln(l.Rule, l.What, l.Count, l.Changed, l.Example, l.Does != "")
		if l.Rule == "C29" && l.Does != "adds `resultType: complete`" { // and not what the rule does the other way round
			t.Errorf("C29 %s", l.Does)
		}
	}
	if want := "C05 icons 4 2 2 true\nC19 oneOf 0 2 2 true\nC29 resultType 0 2 2 true\n"; said != want {
		t.Errorf("%s", said)
	}
}
