package translate_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// thereAndBack translates a message of r, a revision with a handshake, to modern, the one without, and back. wrong
// says how the result differs from text, except by the reported losses; it is empty if it does not. ok is false if
// the message cannot be translated on its own.
func thereAndBack(table *translate.Table, r, modern *translate.Revision, text string, method wire.Method) (wrong string, ok bool) {
	there, err := tryRewrite(table.Between(r, modern), []byte(text), &wire.Message{Method: method, Facts: allFacts})
	if err != nil {
		return "", false
	}
	may := []place{{"params"}} // every request of the modern revision has params, even if they are empty
	if p := gjson.Get(text, "params"); p.Exists() {
		may = nil
	}
	switch {
	case there.verdict == "local" && gjson.Get(text, "id").Exists() && gjson.Get(there.text, "method").Exists() && !gjson.Get(there.text, "id").Exists():
		there.text = `{"jsonrpc":"2.0","id":` + gjson.Get(text, "id").Raw + `,` + strings.TrimPrefix(there.text, "{") // because a question has no id
	case there.verdict != "want":
		return "", false
	}
	back, err := tryRewrite(table.Between(modern, r), []byte(there.text), &wire.Message{Method: method, Facts: allFacts})
	switch {
	case err != nil:
		return fmt.Sprintf("became an invalid message: %v: %s", err, there.text), true
	case back.verdict != "want":
		return "", false
	}
	known := append(reported(there.losses), reported(back.losses)...)
	known = append(known, parsePlace("params.protocolVersion"), parsePlace("result.protocolVersion")) // each translation writes the receiver's
	known = append(known, parsePlace("params._meta.progressToken"))                                   // a question has no progress token
	switch code := gjson.Get(text, "error.code").Int(); {
	case code == -32002 && (method != wire.ResourcesRead || gjson.Get(text, "error.data.uri").Type != gjson.String):
		known = append(known, parsePlace("error.code")) // the error names no resource
	case code == -32602 && method == wire.ResourcesRead && gjson.Get(text, "error.data.uri").Type == gjson.String:
		known = append(known, parsePlace("error.code")) // becomes -32002, because it names a resource
	case -32022 <= code && code <= -32020:
		known = append(known, parsePlace("error.code")) // these codes mean something else in the modern revision
	}
	if gone := missing(text, back.text, known); len(gone) > 0 {
		return fmt.Sprintf("%v is gone (reported: %v)\n there %s\n back  %s", gone, known, there.text, back.text), true
	}
	if added := missing(back.text, text, append(may, known...)); len(added) > 0 {
		return fmt.Sprintf("%v came from nowhere\n there %s\n back  %s", added, there.text, back.text), true
	}
	return "", true
}

// handshakes returns the revisions with a handshake, and the one without.
func handshakes(t rapid.TB) (list []*translate.Revision, modern *translate.Revision) {
	return translate.Handshake(), revision(t, translate.Modern())
}

// TestRoundTripOfDrawnMessages checks that any message keeps its meaning when it is translated to the modern revision
// and back.
func TestRoundTripOfDrawnMessages(t *testing.T) {
	table := newTable(t, translate.Options{})
	list, modern := handshakes(t)
	went := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		r := rapid.SampledFrom(list).Draw(t, "revision")
		wrong, ok := thereAndBack(table, r, modern, d.text, d.site.method)
		if !ok {
			t.Skip("cannot be translated on its own")
		}
		went++
		if wrong != "" {
			t.Fatalf("%v: %s\n in    %s", r, wrong, d.text)
		}
	})
	if went == 0 {
		t.Error("no message was translated")
	}
}

// eraSeeds returns the messages of the golden files and the recorded ones.
func eraSeeds(t testing.TB) (all []recorded) {
	for _, g := range goldens(t) {
		if r := translate.Lookup(g.from); r != nil && !r.Modern {
			all = append(all, recorded{file: g.name, revision: g.from, text: g.in, method: g.method})
		}
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "traffic", "everything-*.jsonl"))
	for _, file := range files {
		all = append(all, readRecording(t, file)...)
	}
	return all
}

// TestRoundTripOfKnownMessages is TestRoundTripOfDrawnMessages for golden and recorded messages of every revision
// with a handshake.
func TestRoundTripOfKnownMessages(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	table := newTable(t, translate.Options{})
	_, modern := handshakes(t)
	went := 0
	for _, s := range eraSeeds(t) {
		if hasTwice(gjson.Parse(s.text)) {
			continue // which of the two members counts is undefined
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
		t.Errorf("only %d messages were translated", went)
	}
}

func FuzzThereAndBack(f *testing.F) {
	testset.WithoutRace(f, "nothing runs beside it")
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
