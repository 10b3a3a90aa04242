package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
)

// model is a value with its edits, as a plain tree.
type model struct {
	node     Node
	key      string // with quotes, "" for an element
	raw      string
	children []*model
	open     bool
	object   bool

	removed bool
	renamed bool
	text    string // replaces the value or member
	swapped bool
	before  []string
	added   []string
}

func modelOf(n Node) *model {
	m := &model{node: n, raw: string(n.Raw()), object: n.Kind() == '{'}
	if key := n.Key(); key != nil {
		m.key = `"` + string(key) + `"`
	}
	m.open = n.node().open
	for c := n.First(); c.OK(); c = c.Next() {
		m.children = append(m.children, modelOf(c))
	}
	return m
}

func (m *model) all() []*model {
	list := []*model{m}
	for _, c := range m.children {
		list = append(list, c.all()...)
	}
	return list
}

// String returns the edited value.
func (m *model) String() string {
	switch {
	case m.swapped:
		return m.text
	case m.text != "":
		return m.member(m.text)
	case !m.open:
		return m.member(m.raw)
	}
	var items []string
	for _, c := range m.children {
		if !c.removed {
			items = append(items, c.before...)
			items = append(items, c.String())
		}
	}
	items = append(items, m.added...)
	open, shut := "[", "]"
	if m.object {
		open, shut = "{", "}"
	}
	out := open
	for i, item := range items {
		if i > 0 {
			out += ","
		}
		out += item
	}
	return m.member(out + shut)
}

func (m *model) member(value string) string {
	if m.key == "" {
		return value
	}
	return m.key + ":" + value
}

// mark makes one edit of the value, in the message and in the model.
func (m *model) mark(what byte) {
	if m.removed || m.swapped || m.renamed || m.text != "" || len(m.before) > 0 {
		return // rules make no further edits of a value that they have removed, replaced or renamed
	}
	w := m.node.m.Writer()
	switch what % 8 {
	case 0:
		m.node.Remove()
		m.removed = true
	case 1:
		m.text = `"new text that is longer than most"`
		m.node.Put(append(w, m.text...))
	case 2:
		m.text = "0"
		if len(m.raw) < 1 {
			return
		}
		m.node.Put(append(w, m.text...))
	case 3:
		m.swapped = true
		if m.text = `1,[2]`; m.key != "" {
			m.text = `"x":1,"y":[2]`
		}
		m.node.Swap(append(w, m.text...))
	case 4:
		if m.open {
			text := `[3]`
			if m.object {
				text = `"z":[3]`
			}
			m.added = append(m.added, text)
			m.node.Add(append(w, text...))
		}
	case 5:
		if m.key != "" {
			m.before = append(m.before, `"w":4`)
			m.node.Before(append(w, `"w":4`...))
		}
	case 6:
		if m.key != "" && m.node.Parent() != m.node.m.Root() {
			m.key, m.renamed = `"renamed"`, true
			m.node.Rename("renamed")
		}
	case 7:
		m.node.Remove()
		m.swapped = true
		if m.text = `5`; m.key != "" {
			m.text = `"u":5`
		}
		m.node.Swap(append(w, m.text...))
	}
}

// TestBlanksBehindTheMessage stay there: what is added to the message does not come after them.
func TestBlanksBehindTheMessage(t *testing.T) {
	var m Message
	if err := m.Scan([]byte("{\"jsonrpc\":\"2.0\",\"method\":\"x\"} \r\n"), deep); err != nil {
		t.Fatal(err)
	}
	m.Root().Add(append(m.Writer(), `"params":{}`...))
	if got := string(m.AppendTo(nil)); got != "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{}} \r\n" {
		t.Errorf("%q", got)
	}
}

// TestResponseIsFollowed: after an edit of its id and members, the parts of a response are known without another scan.
func TestResponseIsFollowed(t *testing.T) {
	for _, in := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":1,"b":2}}`,
		` { "result" : { "a" : 1, "b" : 2 } , "id" : 1 , "jsonrpc" : "2.0" } `,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","a":1,"b":2}}`,
	} {
		var m, again Message
		if err := m.Scan([]byte(in), deep); err != nil {
			t.Fatal(err)
		}
		m.Root().Get(ID).Put(append(m.Writer(), `"another id"`...))
		m.Root().Add(append(m.Writer(), `"more":1`...))
		for _, part := range []Name{ResultKey, ErrorKey} {
			if n := m.Root().Get(part); n.OK() {
				n.First().Remove()
				n.Add(append(m.Writer(), `"c":3`...))
			}
		}
		m.Follow = true
		out := m.AppendTo(nil)
		if err := again.Scan(out, nil); err != nil || !m.scanned {
			t.Fatalf("%s: %v %v", out, err, m.scanned)
		}
		if string(again.ID()) != string(m.ID()) || string(again.Result()) != string(m.Result()) || string(again.Error()) != string(m.Error()) {
			t.Errorf("%s\nfollowed %q %q %q\nscanned  %q %q %q", out, m.ID(), m.Result(), m.Error(), again.ID(), again.Result(), again.Error())
		}
		var taken Message
		if err := taken.ScanLike(&m, bytes.Repeat([]byte{'x'}, len(out)), nil); err != nil {
			t.Error(err)
		}
	}
}

// FuzzEdits makes any edits of a message, in any order, and compares the result with that of
// a plain tree with the same edits. The result in the message's own memory must be the same, if there is
// room for it, and no byte behind that room may change.
func FuzzEdits(f *testing.F) {
	for _, s := range ugly {
		f.Add([]byte(s), []byte{1, 0, 2, 0, 3, 3, 4, 4, 5, 5})
	}
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","title":"b" , "x":{ }},{ "title" : "c" }, {} ,[ ],[1, 2 ,{"a":1}]],"n":{"a":1,"b":2,"c":3}}}`
	for i := range byte(24) {
		f.Add([]byte(list), []byte{i, 0, i + 1, 0, i + 2, 0, i, i})
		f.Add([]byte(list), []byte{i, 7, i + 1, 6, i + 3, 4, i + 2, i})
	}
	f.Fuzz(func(t *testing.T, in, marks []byte) {
		var m Message
		const beyond = "beyond"
		memory := append(make([]byte, 0, len(in)+1<<16), in...)
		if m.Scan(memory, deep) != nil {
			return
		}
		root := modelOf(m.Root())
		list := root.all()[1:]
		if len(list) == 0 {
			return
		}
		for ; len(marks) >= 2 && len(m.edits) < 64; marks = marks[2:] {
			list[int(marks[0])%len(list)].mark(marks[1])
		}
		want := string(AppendCompact(nil, []byte(root.String())))
		got := m.AppendTo(nil)
		if !gjson.ValidBytes(got) || string(AppendCompact(nil, got)) != want {
			t.Fatalf("%q\ngot  %q\nwant %q", in, got, want)
		}
		followed := m
		followed.Follow = true
		out := followed.AppendTo([]byte("before"))
		var again Message
		switch {
		case string(out) != "before"+string(got):
			t.Fatalf("%q\nfollowed  %q\notherwise %q", in, out, got)
		case !m.Kind.Response() || !followed.scanned || again.Scan(got, nil) != nil:
		case string(again.ID()) != string(followed.ID()) || string(again.Result()) != string(followed.Result()) || string(again.Error()) != string(followed.Error()) || again.Kind != followed.Kind:
			t.Fatalf("%q\nfollowed %q %q %q\nscanned  %q %q %q", in, followed.ID(), followed.Result(), followed.Error(), again.ID(), again.Result(), again.Error())
		}
		if len(got) > len(in)+m.Growth() {
			t.Fatalf("%q grows by %d bytes at most\ngot  %q", in, m.Growth(), got)
		}
		for m.Room = 0; m.Room < m.Growth(); m.Room++ {
			if m.InPlace() != nil {
				t.Fatalf("%q\nwritten with room for %d bytes", in, m.Room)
			}
		}
		behind := memory[:cap(memory)][len(in)+m.Room:][:len(beyond)]
		copy(behind, beyond)
		if again := m.InPlace(); !bytes.Equal(again, got) || string(behind) != beyond {
			t.Fatalf("%q\nin place %q\nelsewhere %q", in, again, got)
		}
	})
}

func TestPaths(t *testing.T) {
	var m Message
	if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[0,{"title":"x"}],"tools":[[{"annotations":{"other":1}}]]}}`), deep); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range modelOf(m.Root()).all() {
		got = append(got, v.node.Path().String())
	}
	want := []string{"", "jsonrpc", "id", "result", "result.tools", "result.tools[0]", "result.tools[1]", "result.tools[1].title",
		"result.tools", "result.tools[0]", "result.tools[0][0]", "result.tools[0][0].annotations", "result.tools[0][0].annotations.*"}
	if a, b := mustJSON(got), mustJSON(want); a != b {
		t.Errorf("\ngot  %s\nwant %s", a, b)
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[1,2]}`, ` { "b" : [ 1.0 , 2e0 ] , "a" : 10e-1 } `, true},
		{`{"\u0061":"\u00e9"}`, `{"a":"é"}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":1,"a":1}`, `{"a":1,"b":1}`, false},
		{`{"b":1,"a":{"d":1,"c":[{"x":null,"y":true}]}}`, `{"a":{"c":[{"y":true,"x":null}],"d":1},"b":1}`, true},
		{`[1,2]`, `[2,1]`, false}, {`[]`, `[ ]`, true}, {`[1]`, `[]`, false}, {`{}`, `[]`, false}, {`{}`, `{ }`, true},
		{`0`, `-0.0e7`, true}, {`100`, `1e2`, true}, {`1.5`, `15e-1`, true}, {`1`, `-1`, false}, {`1`, `"1"`, false}, {`12`, `1.2`, false}, {`101`, `11`, false}, {`1.01`, `101e-2`, true},
		{`true`, `false`, false}, {`null`, `null`, true}, {`"a"`, `"b"`, false}, {`""`, `""`, true},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if got := Equal([]byte(pair[0]), []byte(pair[1])); got != c.same {
				t.Errorf("%s and %s: %t", pair[0], pair[1], got)
			}
		}
	}
}

// FuzzEqual checks that a value equals itself, also without its blanks.
func FuzzEqual(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\u00e9"}],"c":{ }}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if !Valid(in) {
			return
		}
		if twice := twiceNamed(gjson.ParseBytes(in)); !twice && !Equal(in, AppendCompact(nil, in)) {
			t.Errorf("%q does not equal itself", in)
		}
	})
}

// twiceNamed reports whether some object has two members of one name. Tests of Equal omit such
// objects.
func twiceNamed(v gjson.Result) (twice bool) {
	if !v.IsObject() && !v.IsArray() {
		return false
	}
	seen := map[string]bool{}
	v.ForEach(func(k, c gjson.Result) bool {
		twice = twice || v.IsObject() && seen[k.Str] || twiceNamed(c)
		seen[k.Str] = true
		return !twice
	})
	return twice
}

// TestZeroNodeCanBeRead checks that the zero Node can be read, because rules look into values that a peer may have
// left out.
func TestZeroNodeCanBeRead(t *testing.T) {
	var m Message
	for _, n := range []Node{{}, m.Root(), m.Root().First(), m.Root().Get(Params).Next().Parent()} {
		if raw, text := n.Text(); n.OK() || n.First().OK() || n.Next().OK() || n.Parent().OK() || n.Get(Params).OK() || raw != nil || text ||
			n.Raw() != nil || n.Kind() != 0 || n.Name() != OtherName || n.Key() != nil || n.Element() || n.Hollow() || n.Is("") || n.Removed() || n.Changed() || n.Path().String() != "" {
			t.Errorf("%#v does not behave as the zero Node", n)
		}
	}
}

func TestRename(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":1,"result":{ "tools" : [1], "x":{"n\u0061me":2}}}`
	all := new(Shape)
	all.Any, all.Elem = all, all
	var m Message
	if err := m.Scan([]byte(text), all); err != nil {
		t.Fatal(err)
	}
	result := m.Root().Get(ResultKey)
	tools := result.Get(Tools)
	tools.Rename("instruments")
	tools.Before([]byte(`"a":0`)) // is written in front, whichever edit is made first
	for x := result.First(); x.OK(); x = x.Next() {
		if name := x.Get(NameKey); x.Kind() == '{' && name.OK() {
			name.Rename("n")
			name.Put([]byte(`"three"`))
		}
	}
	const want = `{"jsonrpc":"2.0","id":1,"result":{ "a":0,"instruments" : [1], "x":{"n":"three"}}}`
	if got := string(m.AppendTo(nil)); got != want {
		t.Errorf("\n got  %s\n want %s", got, want)
	}
}
