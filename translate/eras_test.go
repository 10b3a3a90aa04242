package translate_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// thereAndBack carries a message of a revision with a handshake to the one without
// and back, and says what is wrong with what arrives: it says the same but for what
// was reported as lost on the way. ok is false where the message does not go there by
// itself.
func thereAndBack(table *translate.Table, r, modern *translate.Revision, text string, method wire.Method) (wrong string, ok bool) {
	there, err := tryRewrite(table.Between(r, modern), []byte(text), &wire.Message{Method: method, Facts: allFacts})
	if err != nil {
		return "", false
	}
	may := []place{{"params"}} // a request always has some there, if empty
	if p := gjson.Get(text, "params"); p.Exists() {
		may = nil
	}
	switch {
	case there.verdict == "local" && gjson.Get(text, "id").Exists() && gjson.Get(there.text, "method").Exists() && !gjson.Get(there.text, "id").Exists():
		there.text = `{"jsonrpc":"2.0","id":` + gjson.Get(text, "id").Raw + `,` + strings.TrimPrefix(there.text, "{") // as a question has none
	case there.verdict != "want":
		return "", false
	}
	back, err := tryRewrite(table.Between(modern, r), []byte(there.text), &wire.Message{Method: method, Facts: allFacts})
	switch {
	case err != nil:
		return fmt.Sprintf("is no message there: %v: %s", err, there.text), true
	case back.verdict != "want":
		return "", false
	}
	known := append(reported(there.losses), reported(back.losses)...)
	known = append(known, parsePlace("params.protocolVersion"), parsePlace("result.protocolVersion")) // each leg has its own
	known = append(known, parsePlace("params._meta.progressToken"))                                   // a question has none: it has no progress
	switch code := gjson.Get(text, "error.code").Int(); {
	case code == -32002 && (method != wire.ResourcesRead || gjson.Get(text, "error.data.uri").Type != gjson.String):
		known = append(known, parsePlace("error.code")) // of nothing that has a name
	case code == -32602 && method == wire.ResourcesRead && gjson.Get(text, "error.data.uri").Type == gjson.String:
		known = append(known, parsePlace("error.code")) // what names a resource is about it
	case -32022 <= code && code <= -32020:
		known = append(known, parsePlace("error.code")) // that mean something else there
	}
	if gone := missing(text, back.text, known); len(gone) > 0 {
		return fmt.Sprintf("%v is gone (reported: %v)\n there %s\n back  %s", gone, known, there.text, back.text), true
	}
	if added := missing(back.text, text, append(may, known...)); len(added) > 0 {
		return fmt.Sprintf("%v came from nowhere\n there %s\n back  %s", added, there.text, back.text), true
	}
	return "", true
}

// handshakes are the revisions that have one, and modern is the one that has none.
func handshakes(t rapid.TB) (list []*translate.Revision, modern *translate.Revision) {
	return translate.Handshake(), revision(t, translate.Modern())
}

// TestThereAndBackSaysTheSame for whatever message.
func TestThereAndBackSaysTheSame(t *testing.T) {
	table := newTable(t, translate.Options{})
	list, modern := handshakes(t)
	went := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		r := rapid.SampledFrom(list).Draw(t, "revision")
		wrong, ok := thereAndBack(table, r, modern, d.text, d.site.method)
		if !ok {
			t.Skip("does not go there")
		}
		went++
		if wrong != "" {
			t.Fatalf("%v: %s\n in    %s", r, wrong, d.text)
		}
	})
	if went == 0 {
		t.Error("nothing went there")
	}
}

// eraSeeds are messages of each sort: those of the golden files, and recorded ones.
func eraSeeds(t testing.TB) (all []recorded) {
	for _, g := range goldens(t) {
		if r := translate.Lookup(g.from); r != nil && !r.Modern {
			all = append(all, recorded{file: g.name, revision: g.from, text: g.in, method: g.method})
		}
	}
	files, _ := filepath.Glob(filepath.Join(sharedDir, "traffic", "everything-*.jsonl"))
	for _, file := range files {
		all = append(all, readRecording(t, file)...)
	}
	return all
}

// TestKnownMessagesThereAndBack are held to it, whatever revision they are from.
func TestKnownMessagesThereAndBack(t *testing.T) {
	table := newTable(t, translate.Options{})
	_, modern := handshakes(t)
	went := 0
	for _, s := range eraSeeds(t) {
		if hasTwice(gjson.Parse(s.text)) {
			continue // who can say what it says
		}
		wrong, ok := thereAndBack(table, revision(t, s.revision), modern, s.text, s.method)
		if ok {
			went++
		}
		if wrong != "" {
			t.Errorf("%s:%d: %s\n in    %.600s", s.file, s.line, wrong, s.text)
		}
	}
	if went < 100 {
		t.Errorf("only %d messages went there", went)
	}
}

func FuzzThereAndBack(f *testing.F) {
	table := newTable(f, translate.Options{})
	list, modern := handshakes(f)
	for _, s := range eraSeeds(f) {
		at := slices.IndexFunc(list, func(r *translate.Revision) bool { return r.Name == s.revision })
		f.Add([]byte(s.text), uint8(at), uint8(s.method))
	}
	f.Fuzz(func(t *testing.T, in []byte, revision, method uint8) {
		if !gjson.ValidBytes(in) || hasTwice(gjson.ParseBytes(in)) {
			t.Skip()
		}
		r, m := list[int(revision)%len(list)], wire.Method(method)%wire.NumMethods
		if wrong, _ := thereAndBack(table, r, modern, string(in), m); wrong != "" {
			t.Fatalf("%v, %v: %s\n in    %s", r, m, wrong, in)
		}
	})
}
