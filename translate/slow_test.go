package translate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestGoldenCasesAgreeWithPackageSlow compares the results of package slow with the golden files, by value.
func TestGoldenCasesAgreeWithPackageSlow(t *testing.T) {
	cases := goldens(t)
	all := byName(cases)
	for _, g := range cases {
		if hasTwice(gjson.Parse(g.in)) {
			continue // the path libraries see only the first of two members
		}
		t.Run(g.name, func(t *testing.T) {
			got := g.byTwin(t, all)
			switch {
			case got.verdict != g.verdict:
				t.Errorf("%s\n in      %s\n got     %s: %s\n want    %s: %s", g.title, g.in, got.verdict, got.text, g.verdict, g.want)
			case got.verdict == "error":
				if !strings.Contains(got.text, g.want) {
					t.Errorf("%s\n in      %s\n error   %s\n wants   %s", g.title, g.in, got.text, g.want)
				}
			case got.verdict != "drop" && !slowtest.Equal(got.text, g.want):
				t.Errorf("%s\n in      %s\n got     %s\n want    %s", g.title, g.in, got.text, g.want)
			}
		})
	}
}

// sameValue compares two JSON texts by value; an empty text equals only an empty text.
func sameValue(a, b string) bool {
	return a == b || a != "" && b != "" && slowtest.Equal(a, b)
}

// hasTwice reports whether some object in the value has two members of one name.
func hasTwice(v gjson.Result) (twice bool) {
	if !v.IsObject() && !v.IsArray() {
		return false
	}
	names := map[string]bool{}
	v.ForEach(func(k, w gjson.Result) bool {
		if v.IsObject() {
			var name string
			if err := json.Unmarshal([]byte(k.Raw), &name); err != nil || names[name] {
				twice = true
			}
			names[name] = true
		}
		twice = twice || hasTwice(w)
		return !twice
	})
	return twice
}

// switches converts a number to options, so that a fuzzer can choose each switch.
func switches(n uint16) translate.Options {
	take := func(of ...string) string {
		value := of[int(n)%len(of)]
		n /= uint16(len(of))
		return value
	}
	return translate.Options{
		ResourceContentsName: take("on", "off", "strict"),
		ElicitationFallback:  take("error", "cancel", "decline"),
		Tasks:                take("strip", "bridge"),
	}
}

// numberOf returns the number that switches converts to these options.
func numberOf(o translate.Options) uint16 {
	for n := range uint16(3 * 3 * 2) {
		got := switches(n)
		if withDefaults(got) == withDefaults(o) {
			return n
		}
	}
	panic("no such options")
}

func withDefaults(o translate.Options) translate.Options {
	for value, def := range map[*string]string{
		&o.ResourceContentsName: "on", &o.ElicitationFallback: "error", &o.Tasks: "bridge",
	} {
		if *value == "" {
			*value = def
		}
	}
	return o
}

// tables keeps one table for every set of options.
type tables struct {
	mu     sync.Mutex
	byNumb map[uint16]*translate.Table
}

func (s *tables) table(t rapid.TB, n uint16) *translate.Table {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNumb == nil {
		s.byNumb = map[uint16]*translate.Table{}
	}
	if s.byNumb[n] == nil {
		s.byNumb[n] = newTable(t, switches(n))
	}
	return s.byNumb[n]
}

// ugly are messages that a random search takes long to find.
var ugly = []string{
	`{"jsonrpc":"2.0","id":1,"result":{}}`,
	`{"jsonrpc":"2.0","id":1,"result":{ }}`,
	`{"jsonrpc":"2.0","id":1,"result":null}`,
	`{"jsonrpc":"2.0","id":"\ud800","result":{"tools":[{"title":"\udfff"},{"title":{}},{"annotations":{"title":null},"title":"x"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"title":"x","annotations":null}],"content":null,"structuredContent":null}}`,
	// Entries that have other members than those before, in another order, or spelled in another way:
	`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","title":"A"},{"name":"b","title":"B"},{"name":"c","title":"C"},{"name":"d","title":"D","icons":[],"annotations":{"x":1},"execution":{"taskSupport":"required"}},` +
		`{"name":"e","title":"E","annotations":{"title":"e","x":1}},{"title":"F","name":"f"},{"name":"g","t\u0069tle":"G","outputSchema":{}},{"name" : "h", "title" : "H", "icons" : [{"title":1}]},` +
		`{"annotations":{"x":false,"title":"i"},"execution":{"taskSupport":"optional"},"name":"i"},{"name":"j","title":null,"_meta":{"title":"j"}},{},{"name":"k","title":"K","execution":{"title":1}}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":"x","structuredContent":{"a":1}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":{},"structuredContent":[]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[null,1,"x",[],{}],"structuredContent":1e400}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"1e400"}],"structuredContent":10e399}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"audio"},{"type":"audio","data":1,"mimeType":2,"annotations":null},{"type":"audio","data":"A===","annotations":{"lastModified":1}},{"type":"audio","data":"A\nAA="}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link"},{"type":"resource_link","size":-1.5e3,"uri":1,"name":null,"title":[]},{"type":"resource_link","size":"1","icons":1,"annotations":[]}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource","resource":[{"_meta":1}],"_meta":1},{"type":"resource","resource":{"_meta":{},"annotations":{"lastModified":1}}}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"role":"a","model":"m","content":[{"type":"tool_use","input":"x"},{"type":"tool_result","content":"x"},{"type":"text"},{"type":"x","y":1},5,null,{"type":"resource_link","uri":"u"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"role":"a","model":"m","content":[5]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"role":"a","model":"m","content":{"type":"tool_result","toolUseId":1,"content":[{"type":"text","text":5},{"type":"text","text":"x"},[],{"type":"text","text":"y"}]}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"//"},{"uri":":"},{"uri":"x:"},{"uri":"x://"},{"uri":"x:///"},{"uri":"x:?q"},{"uri":"x:#f"},{"uri":"x://h?q/r"},{"uri":"a/b"},{"uri":1},{"uri":"x://u:p@h:80/"},{"uri":"x:a/b/c"},{"uri":"x:/%2"},{"uri":"x:/%zz%41"},{"uri":"\ud800"},[],null,"x"]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"x"}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"x"},"content":[],"action":"accept"}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"task":1}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"task":{}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"roots":[{"_meta":1},1,{"_meta":null,"uri":"x"}],"prompts":[{"arguments":[{"title":1},1]}],"messages":[{"content":{"type":"audio","data":"AA"}},{"content":1},1]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"capabilities":{"completions":null,"prompts":null},"serverInfo":[]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"x","capabilities":null}}`,
	`{"jsonrpc":"2.0","id":1,"result":{}}`,
	`{"jsonrpc":"2.0","error":{"code":-32042,"message":1,"data":{"elicitations":[1,{},{"message":"m"},{"url":"u"}]}}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32042.0,"message":"m"}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-320.42e2}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":"-32042","message":"m","data":[]}}`,
	`{"jsonrpc":"2.0","id":1,"error":1}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32042,"message":"m"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize"}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":null,"capabilities":{"elicitation":{"form":null},"sampling":{"tools":null,"x":1},"tasks":null},"clientInfo":null}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"","capabilities":{"elicitation":{"url":null},"sampling":[]},"clientInfo":{"icons":0,"description":false}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":{"x":1}}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":{"x":1,"form":{"y":1},"url":{}}}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{"elicitation":null}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`,
	`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`,
	`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"other","requestedSchema":{"properties":{"a":{"type":"array"},"b":1,"c":{"oneOf":[]},"d":{"type":"string","oneOf":[{"title":"x"},1,{"const":1}]},"e":{"type":"array","items":{"enum":[1,"x"]},"title":""}},"required":"a"}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":1,"requestedSchema":{"$schema":null,"properties":[{"type":"array"}],"required":["a",1]}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestedSchema":{"properties":{"a":{"type":"array","items":{"anyOf":[{"const":"x"},{"const":"x","title":1},{}]},"default":["x"]}},"required":["a","b","a"]}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"tools":null,"toolChoice":null,"messages":[{"content":[]},{"content":[1,{"type":"audio"}]},{"content":null},1,{}]}}`,
	`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"tools":{},"messages":{},"includeContext":"thisServer"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"tools":"x"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[{"x":1,"content":[{"type":"text","text":"a"},{"type":"text","text":"b","_meta":1}],"_meta":{"k":1}}],"includeContext":1}}`,
	`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref\/prompt","title":1},"context":{"arguments":{}}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":[],"context":null}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":null}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":{"a":[1 , 2]}}}`,
	`{"jsonrpc":"2.0","method":"notifications/progress"}`,
	`{"jsonrpc":"2.0","id":1,"result":{"":[]}}`,
}

// stamps are the Stamps of the tests: none, an empty one, and full ones.
var stamps = []*wire.Stamp{nil, {}, {
	ClientInfo: []byte(`{"name":"c","version":"1"}`), Capabilities: []byte(`{"roots":{}}`), LogLevel: []byte(`"info"`),
	ServerInfo: []byte(`{"name":"s","version":"2"}`), Subscription: []byte(`"L"`), TTL: 60000, ElicitationID: []byte(`"e-1"`),
}, {
	ID: []byte(`7`), ProgressToken: []byte(`"p7"`), Task: []byte(`{"ttl":60000}`),
}}

// pairs is the number of ordered pairs of revisions, equal ones included.
var pairs = len(translate.All()) * len(translate.All())

func pairOf(n uint8) (from, to string) {
	all := translate.All()
	return all[int(n)%len(all)].Name, all[int(n)/len(all)%len(all)].Name
}

func numberOfPair(from, to string) uint8 {
	for n := range uint8(pairs) {
		if f, t := pairOf(n); f == from && t == to {
			return n
		}
	}
	panic("no such pair")
}

// FuzzAgainstSlow checks that the engine and its slow twin, package slow, translate every message that a scan
// accepts to the same value, between any two revisions and with any switches. The twin is not asked if a member
// occurs twice. The result must be a message with the same id, and a second translation must not change it.
// Between equal revisions the result must have the same bytes as the input.
func FuzzAgainstSlow(f *testing.F) {
	for _, g := range goldens(f) {
		o, _ := optionsOf(f, g.options)
		f.Add([]byte(g.in), numberOfPair(g.from, g.to), uint8(g.method), uint16(g.facts), numberOf(o))
	}
	for _, text := range ugly {
		f.Add([]byte(text), numberOfPair("2025-11-25", "2024-11-05"), uint8(wire.ToolsCall), uint16(wire.ClientElicitation|wire.ClientElicitationForm), uint16(0))
	}
	var cache tables
	f.Fuzz(func(t *testing.T, in []byte, pair, method uint8, facts, options uint16) {
		from, to := pairOf(pair)
		a := against{
			t: t, table: cache.table(t, options), options: slowtest.Options(switches(options)), from: from, to: to,
			method: wire.Method(method) % wire.NumMethods, facts: wire.Facts(facts), stamp: stamps[int(pair)/pairs%len(stamps)],
		}
		if got := a.compare(string(in), ""); got.note != "" {
			a.compareAnswers(string(in), got)
		}
	})
}

// TestUglyMessagesAgreeWithPackageSlow translates every ugly message between every pair of revisions. It tries a response with
// every method that the request may have had.
func TestUglyMessagesAgreeWithPackageSlow(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	table := newTable(t, translate.Options{})
	for _, text := range ugly {
		asked := gjson.Get(text, "method").Exists()
		for n := 0; n < pairs*len(stamps); n += effort {
			a := against{t: t, table: table, options: slowtest.Options(withDefaults(translate.Options{})), stamp: stamps[n/pairs]}
			a.from, a.to = pairOf(uint8(n))
			for _, facts := range []wire.Facts{0, wire.ClientElicitation | wire.ClientElicitationForm, allFacts} {
				if a.facts = facts; !asked {
					break
				}
				if got := a.compare(text, ""); got.note != "" {
					a.compareAnswers(text, got)
				}
			}
			for method := wire.OtherMethod; method < wire.NumMethods && !asked; method++ {
				a.method = method
				a.compare(text, "")
			}
		}
	}
}

// against runs the engine and its slow twin on the same messages.
type against struct {
	t        rapid.TB
	table    *translate.Table
	options  slowtest.Options
	from, to string
	method   wire.Method // of responses
	facts    wire.Facts
	stamp    *wire.Stamp
	text     string // the drawn message, if there is one
}

// compare translates one message with both and returns the engine's result.
func (a *against) compare(in, note string) outcome {
	t := a.t
	t.Helper()
	var m wire.Message
	tr := a.table.Between(revision(t, a.from), revision(t, a.to))
	if m.Scan([]byte(in), tr.Shape()) != nil {
		return outcome{} // not a message: the result is undefined
	}
	kind, method, id := m.Kind, m.Method, string(m.ID())
	if kind == wire.Result || kind == wire.Error {
		method = a.method
	}
	got := rewrite(t, a.table, a.from, a.to, []byte(in), wire.Message{Method: method, Facts: a.facts, Stamp: a.stamp, Note: []byte(note)}, kind)
	if a.from == a.to && (got.verdict != "want" || got.text != in) {
		t.Errorf("%s is not itself: %s: %s", in, got.verdict, got.text)
	}
	a.checkOutput(in, id, method, got)
	if kind == wire.Result && !gjson.Get(in, "result").IsObject() {
		if got.verdict != "error" && got.text != in {
			t.Errorf("%s became %s", in, got.text)
		}
		return got
	}
	if hasTwice(gjson.Parse(in)) {
		return got
	}
	want := twin(a.from, a.to, a.options, slowtest.Message{Text: in, Kind: kind, Method: method, Facts: a.facts, Stamp: a.stamp, Note: note})
	same := got.verdict == want.verdict && (got.verdict == "error" || sameValue(got.text, want.text) && sameValue(got.note, want.note))
	if !same {
		t.Errorf("%s -> %s, %s, facts %b, %+v\n in      %q\n note    %q\n engine  %s: %q %q\n twin    %s: %q %q", a.from, a.to, method, a.facts, a.options, in, note,
			got.verdict, got.text, got.note, want.verdict, want.text, want.note)
	}
	return got
}

func (a *against) checkOutput(in, id string, method wire.Method, got outcome) {
	t := a.t
	t.Helper()
	if got.verdict != "want" && got.verdict != "answer" {
		return
	}
	var m wire.Message
	if err := m.Scan([]byte(got.text), nil); err != nil || !json.Valid([]byte(got.text)) {
		t.Errorf("%q became invalid: %q: %v", in, got.text, err)
		return
	}
	across := revision(t, a.from).Modern != revision(t, a.to).Modern
	if across && got.verdict == "want" && a.stamp != nil && a.stamp.ID != nil && id != "" && id != "null" {
		id = string(a.stamp.ID)
	}
	if after := string(m.ID()); after != id && !(m.Kind == wire.Error && (id == "" && after == "null" || id == "null" && after == "")) {
		t.Errorf("id %q became %q: %q", id, after, got.text)
	}
	if got.verdict != "want" || hasArrayAsBlock(in) {
		return
	}
	twice := rewrite(t, a.table, a.from, a.to, []byte(got.text), wire.Message{Method: method, Facts: a.facts, Stamp: a.stamp}, 0)
	if twice.verdict != "want" || twice.text != got.text {
		t.Errorf("%q\n once    %q\n twice   %s: %q", in, got.text, twice.verdict, twice.text)
	}
}

// hasArrayAsBlock reports whether the content of a sampling message or answer has an
// array instead of a block. Each translation by C12 removes one level of arrays.
func hasArrayAsBlock(text string) bool {
	contents := append(gjson.Get(text, "params.messages.#.content").Array(), gjson.Get(text, "result.content"))
	return slices.ContainsFunc(contents, func(content gjson.Result) bool {
		return content.IsArray() && slices.ContainsFunc(content.Array(), gjson.Result.IsArray)
	})
}

// compareAnswers answers a request that produced a note: it fills in the flattened form in
// several ways, or answers that the resource does not exist. It compares the translations of
// these answers.
func (a *against) compareAnswers(in string, form outcome) {
	if hasTwice(gjson.Parse(in)) {
		return
	}
	back := *a
	back.from, back.to, back.method = a.to, a.from, wire.MethodOf([]byte(gjson.Get(in, "method").String()))
	if back.method == wire.ResourcesRead {
		for _, data := range []string{"", `,"data":{}`, `,"data":{"uri":1}`, `,"data":[]`} {
			back.compare(`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m"`+data+`}}`, form.note)
		}
		return
	}
	properties := gjson.Get(form.text, "params.requestedSchema.properties")
	for fill := range 3 {
		var content []string
		n := 0
		properties.ForEach(func(key, p gjson.Result) bool {
			value := `"text"`
			if p.Get("type").String() == "boolean" {
				value = "false"
				if n++; n%3 < fill {
					value = "true"
				}
			}
			content = append(content, key.Raw+":"+value)
			return true
		})
		back.compare(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{`+strings.Join(content, ",")+`}}}`, form.note)
	}
}
