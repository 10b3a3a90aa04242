package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// site is a place where rules act on the members of an object.
type site struct {
	method  wire.Method
	message string   // the message around the object, which is %s
	known   []string // members that some rule names there
}

var sites = []site{
	{wire.ToolsList, `"result":{"tools":[%s]}`, []string{"title", "outputSchema", "annotations", "execution", "icons", "_meta", "inputSchema"}},
	{wire.ToolsList, `"result":%s`, []string{"_meta", "nextCursor"}},
	{wire.PromptsList, `"result":{"prompts":[{"name":"p"},%s]}`, []string{"title", "icons", "_meta", "arguments"}},
	{wire.PromptsList, `"result":{"prompts":[{"arguments":[%s],"title":"T"}]}`, []string{"title", "required", "name"}},
	{wire.ResourcesList, `"result":{"resources":[%s,{"title":"T"}]}`, []string{"title", "icons", "_meta", "annotations", "size"}},
	{wire.ResourcesList, `"result":{"resources":[{"annotations":%s}]}`, []string{"lastModified", "priority", "audience"}},
	{wire.ResourcesTemplatesList, `"result":{"resourceTemplates":[%s]}`, []string{"title", "icons", "_meta", "annotations"}},
	{wire.ResourcesRead, `"result":{"contents":[%s]}`, []string{"name", "uri", "_meta", "text", "blob"}},
	{wire.RootsList, `"result":{"roots":[%s]}`, []string{"name", "_meta", "title"}},
	{wire.ToolsCall, `"result":{"content":[%s]}`, []string{"text", "_meta", "annotations", "icons", "title"}},
	{wire.ToolsCall, `"result":{"content":[{"type":"resource","resource":%s}]}`, []string{"_meta", "annotations", "uri", "name"}},
	{wire.PromptsGet, `"result":{"messages":[{"role":"user","content":%s}]}`, []string{"text", "_meta", "annotations"}},
	{wire.SamplingCreateMessage, `"result":{"model":"m","role":"assistant","content":%s}`, []string{"text", "_meta", "annotations"}},
	{wire.SamplingCreateMessage, `"method":"sampling/createMessage","params":{"messages":[%s]}`, []string{"role", "_meta"}},
	{wire.SamplingCreateMessage, `"method":"sampling/createMessage","params":%s`, []string{"includeContext", "task", "toolChoice", "maxTokens", "_meta"}},
	{wire.Initialize, `"method":"initialize","params":{"clientInfo":%s}`, []string{"title", "icons", "description", "websiteUrl"}},
	{wire.Initialize, `"method":"initialize","params":{"capabilities":%s}`, []string{"tasks", "roots", "experimental"}},
	{wire.Initialize, `"result":{"serverInfo":%s}`, []string{"title", "icons", "description", "websiteUrl"}},
	{wire.Initialize, `"result":{"capabilities":%s}`, []string{"tasks", "completions", "prompts", "resources"}},
	{wire.ToolsCall, `"method":"tools/call","params":%s`, []string{"task", "arguments", "_meta"}},
	{wire.CompletionComplete, `"method":"completion/complete","params":{"ref":%s}`, []string{"title", "name"}},
	{wire.CompletionComplete, `"method":"completion/complete","params":%s`, []string{"context", "argument"}},
	{wire.ElicitationCreate, `"method":"elicitation/create","params":%s`, []string{"task", "message", "_meta"}},
	{wire.ElicitationCreate, `"method":"elicitation/create","params":{"requestedSchema":%s}`, []string{"$schema", "type"}},
	{wire.ElicitationCreate, `"method":"elicitation/create","params":{"requestedSchema":{"properties":{"p":%s}}}`, []string{"default", "title", "enum", "enumNames"}},
	{wire.ResourcesRead, `"error":{"code":-32042,"message":"m","data":%s}`, []string{"elicitations", "uri"}},
	{wire.ToolsCall, `"error":%s`, []string{"code", "message", "data"}},
}

// space generates white space, which JSON allows between all tokens.
var space = rapid.StringOfN(rapid.SampledFrom([]rune(" \t\n\r")), 0, 2, -1)

// names are member names that no rule knows. Some differ only a little from one that a
// rule knows.
var names = rapid.SampledFrom([]string{
	"x", "titles", "Title", "", " title", "_metadata", "x.y", `a\"b`, `\u00e9`, "é", `\ud800`, "iconS", "0", "x-vendor/key", "lastmodified",
	"structured_content", "#", "*", "$", "resultTypes",
})

// raw generates any JSON value, in different notations.
func raw(depth int) *rapid.Generator[string] {
	scalar := rapid.SampledFrom([]string{
		`null`, `true`, `false`, `0`, `-0`, `1.50`, `1E400`, `9007199254740993`, `-1e-7`, `""`, `"x"`, `"\u0000\ud83d\ude00\udc00"`, `"é\/\\\""`,
		`[]`, `{}`, `[ ]`, `{ }`, `"title"`, `"required"`, `"2025-06-18"`,
	})
	if depth == 0 {
		return scalar
	}
	return rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return "[" + strings.Join(rapid.SliceOfN(raw(depth-1), 0, 3).Draw(t, "elements"), ",") + "]"
		case 1:
			keys := rapid.SliceOfNDistinct(rapid.OneOf(names, rapid.SampledFrom([]string{"title", "_meta", "icons", "default", "annotations", "type"})), 0, 3, rapid.ID).Draw(t, "keys")
			members := make([]string, len(keys))
			for i, k := range keys {
				members[i] = `"` + k + `"` + space.Draw(t, "space") + ":" + raw(depth-1).Draw(t, "value")
			}
			return "{" + strings.Join(members, ",") + "}"
		}
		return scalar.Draw(t, "scalar")
	})
}

// ids generates request ids in different notations.
var ids = rapid.OneOf(
	rapid.SampledFrom([]string{`0`, `-1`, `9007199254740993`, `123456789012345678901234567890`, `""`, `"\u0061\/\ud800"`, `"é"`, `"1"`}),
	rapid.Map(rapid.StringMatching(`[ -!#-\[\]-~]{0,12}`), func(s string) string { return `"` + s + `"` }),
	rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
)

// drawn is a message that has members that rules name, and others, in one place.
type drawn struct {
	site   site
	id     string
	text   string
	vendor []string // members that no rule names, as they are in text
}

func drawMessage(t *rapid.T) drawn {
	d := drawn{site: rapid.SampledFrom(sites).Draw(t, "site"), id: ids.Draw(t, "id")}
	var members []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(d.site.known), 0, 4, rapid.ID).Draw(t, "known") {
		members = append(members, `"`+name+`"`+space.Draw(t, "space")+":"+space.Draw(t, "space")+raw(2).Draw(t, "value"))
	}
	for i, name := range rapid.SliceOfNDistinct(names, 0, 4, rapid.ID).Draw(t, "vendor names") {
		member := fmt.Sprintf(`"%s"%s:%s%s`, name, space.Draw(t, "space"), space.Draw(t, "space"),
			fmt.Sprintf(`[%d,%s]`, i, raw(2).Draw(t, "value"))) // all values differ
		members = append(members, member)
		d.vendor = append(d.vendor, member)
	}
	members = rapid.Permutation(members).Draw(t, "order")
	object := "{" + strings.Join(members, space.Draw(t, "space")+","+space.Draw(t, "space")) + space.Draw(t, "space") + "}"
	d.text = `{"jsonrpc":"2.0","id":` + d.id + `,` + fmt.Sprintf(d.site.message, object) + `}`
	return d
}

func drawPair(t *rapid.T) (from, to *translate.Revision) {
	all := rapid.Permutation(translate.All()).Draw(t, "revisions")
	return all[0], all[1]
}

// allFacts says that the client and the server declared everything.
const allFacts = ^wire.Facts(0)

// TestMembersThatNoRuleNamesAreUnchanged checks that members that no rule names are kept byte for byte, whatever
// is removed around them.
func TestMembersThatNoRuleNamesAreUnchanged(t *testing.T) {
	table := newTable(t, translate.Options{})
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		from, to := drawPair(t)
		got, err := tryRewrite(table.Between(from, to), []byte(d.text), &wire.Message{Method: d.site.method, Facts: allFacts})
		if err != nil {
			t.Fatalf("scan: %v: %s", err, d.text)
		}
		if got.verdict != "want" {
			t.Skip(got.verdict)
		}
		for _, member := range d.vendor {
			if !strings.Contains(got.text, member) {
				t.Fatalf("%v to %v: %s is gone\n in  %s\n out %s", from, to, member, d.text, got.text)
			}
		}
	})
}

// TestIDsSurvive checks that the id is kept byte for byte, also in an answer by the translator.
func TestIDsSurvive(t *testing.T) {
	table := newTable(t, translate.Options{})
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		from, to := drawPair(t)
		got, err := tryRewrite(table.Between(from, to), []byte(d.text), &wire.Message{Method: d.site.method, Facts: rapid.SampledFrom([]wire.Facts{0, allFacts}).Draw(t, "facts")})
		if err != nil {
			t.Fatalf("scan: %v: %s", err, d.text)
		}
		if got.verdict == "error" || got.verdict == "local" {
			t.Skip(got.text)
		}
		var m wire.Message
		if err := m.Scan([]byte(got.text), nil); err != nil || string(m.ID()) != d.id {
			t.Fatalf("%v to %v: id %s became %s (%v): %s", from, to, d.id, m.ID(), err, got.text)
		}
	})
}

// TestTranslatingTwiceChangesNothing checks that a second translation does not change the result of
// the first.
func TestTranslatingTwiceChangesNothing(t *testing.T) {
	table := newTable(t, translate.Options{})
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		from, to := drawPair(t)
		tr := table.Between(from, to)
		once, err := tryRewrite(tr, []byte(d.text), &wire.Message{Method: d.site.method, Facts: allFacts})
		if err != nil {
			t.Fatalf("scan: %v: %s", err, d.text)
		}
		if once.verdict != "want" {
			t.Skip(once.verdict)
		}
		twice, err := tryRewrite(tr, []byte(once.text), &wire.Message{Method: d.site.method, Facts: allFacts})
		if err != nil || twice.verdict != "want" || twice.text != once.text {
			t.Fatalf("%v to %v: %v\n in    %s\n once  %s\n twice %s %s", from, to, err, d.text, once.text, twice.verdict, twice.text)
		}
	})
}

// TestGoingUpAddsNothing checks that a translation to a newer revision adds only the revision of the
// handshake, the name of contents (C41), completions (C15), and what every message of 2026-07-28 has.
func TestGoingUpAddsNothing(t *testing.T) {
	table := newTable(t, translate.Options{Tasks: "strip"}) // with bridge, a server's tasks become the extension
	may := []place{
		parsePlace("params.protocolVersion"), parsePlace("result.protocolVersion"),
		parsePlace("result.contents[0].name"), parsePlace("result.capabilities.completions"),
	}
	stamps := []place{parsePlace("params._meta"), parsePlace("result._meta"), parsePlace("result.resultType"), parsePlace("result.ttlMs"), parsePlace("result.cacheScope")}
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		from, to := drawPair(t)
		if from.Name > to.Name {
			from, to = to, from
		}
		got, err := tryRewrite(table.Between(from, to), []byte(d.text), &wire.Message{Method: d.site.method, Facts: allFacts})
		if err != nil {
			t.Fatalf("scan: %v: %s", err, d.text)
		}
		if got.verdict == "answer" && d.site.method == wire.ElicitationCreate {
			t.Skip("clients before 2025-06-18 do not support elicitation")
		}
		if to.Modern && got.verdict != "want" {
			t.Skip(got.verdict)
		}
		if got.verdict != "want" {
			t.Fatalf("%v to %v: %s %s", from, to, got.verdict, got.text)
		}
		may, known := may, may[:2]
		if to.Modern {
			may = append(slices.Clone(may), stamps...)
			known = append(slices.Clone(known), reported(got.losses)...)
		}
		if added := missing(got.text, d.text, may); len(added) > 0 {
			t.Fatalf("%v to %v: %v was added\n in  %s\n out %s", from, to, added, d.text, got.text)
		}
		if gone := missing(d.text, got.text, known); len(gone) > 0 && d.site.method != wire.SamplingCreateMessage {
			t.Fatalf("%v to %v: %v is gone\n in  %s\n out %s", from, to, gone, d.text, got.text)
		}
	})
}

// TestGoingDownOnlyRemovesWhatItReports checks that a translation to an older revision reports
// everything that it removes.
func TestGoingDownOnlyRemovesWhatItReports(t *testing.T) {
	table := newTable(t, translate.Options{})
	rapid.Check(t, func(t *rapid.T) {
		d := drawMessage(t)
		from, to := drawPair(t)
		if from.Name < to.Name {
			from, to = to, from
		}
		got, err := tryRewrite(table.Between(from, to), []byte(d.text), &wire.Message{Method: d.site.method, Facts: allFacts})
		if err != nil {
			t.Fatalf("scan: %v: %s", err, d.text)
		}
		if got.verdict != "want" {
			t.Skip(got.verdict)
		}
		known := append(reported(got.losses), parsePlace("params.protocolVersion"), parsePlace("result.protocolVersion"))
		if slices.ContainsFunc(got.losses, func(l wire.Loss) bool { return l.Rule == "C22" }) {
			known = append(known, place{"error"}) // rewritten as text, or as a result
		}
		if gone := missing(d.text, got.text, known); len(gone) > 0 {
			t.Fatalf("%v to %v: %v is gone unreported (reported: %v)\n in  %s\n out %s", from, to, gone, known, d.text, got.text)
		}
	})
}
