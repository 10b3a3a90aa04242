package wire_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/internal/explainedtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// everything records every value of a message.
var everything = func() *wire.Shape {
	s := new(wire.Shape)
	s.Any, s.Elem = s, s
	return s
}()

// edit makes one of several edits of a value.
func edit(n wire.Node, what byte) {
	member := n.Key() != nil
	switch what % 8 {
	case 0:
		n.Remove()
	case 1:
		n.Put([]byte(`"new"`))
	case 2:
		n.Put(n.Raw())
	case 3:
		if member {
			n.Swap([]byte(`"x":1 , "y":[2]`))
		} else {
			n.Swap([]byte(`1,[2]`))
		}
	case 4:
		if member {
			n.Swap([]byte(`"a name": ` + string(n.Raw())))
		}
	case 5:
		switch n.Kind() {
		case '{':
			n.Add([]byte(`"z":[3]`))
		case '[':
			n.Add([]byte(`[3]`))
		}
	case 6:
		if member {
			n.Before([]byte(`"w":4`))
		}
	case 7:
		if member {
			n.Rename("other")
		}
	}
}

func below(list []wire.Node, n wire.Node) []wire.Node {
	for c := n.First(); c.OK(); c = c.Next() {
		list = below(append(list, c), c)
	}
	return list
}

// changesOf makes edits of a message: one for each two bytes. It returns the message with the edits, and the changes.
func changesOf(m *wire.Message, edits []byte) (after string, changes []explainedtest.Change) {
	done := map[wire.Node]bool{} // rules make no further edits of a value that they have changed
	for list := below(nil, m.Root()); len(edits) >= 2 && len(list) > 0 && m.Edits() < 64; edits = edits[2:] {
		if n := list[int(edits[0])%len(list)]; !done[n] {
			done[n] = true
			edit(n, edits[1])
		}
	}
	m.EachChange(func(c wire.Change) {
		changes = append(changes, explainedtest.Change{Kind: string(c.Kind), Before: string(c.Before), After: string(c.After)})
	})
	return string(m.AppendTo(nil)), changes
}

const edited = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","title":"b" , "x":{ }},{ "title" : "c" }, {} ,[ ],[1, 2 ,{"a":1}]],"n o":{"a":1,"\u0062":2,"c":3}}}`

// FuzzChanges makes any edits of a message. The changes must explain every difference, and no other.
func FuzzChanges(f *testing.F) {
	for i := range byte(24) {
		f.Add([]byte(edited), []byte{i, 0})
		f.Add([]byte(edited), []byte{i, i, i + 1, 3, i + 7, i / 3, 5, 5})
		f.Add([]byte(edited), []byte{i, 7, i, i, i + 2, 4, i + 3, 6})
	}
	f.Fuzz(func(t *testing.T, in, edits []byte) {
		var m wire.Message
		if m.Scan(in, everything) != nil {
			return
		}
		after, changes := changesOf(&m, edits)
		if hasTwins(gjson.Parse(after)) || hasTwins(gjson.ParseBytes(in)) {
			return // of two members of one name, the judge sees one
		}
		if faults := explainedtest.Faults(string(in), after, changes); len(faults) > 0 {
			t.Errorf("before  %q\nafter   %q\nchanges %q\n%s", in, after, changes, strings.Join(faults, "\n"))
		}
	})
}

// TestFaultsAreFound removes one change at a time, and adds one that corresponds to no difference.
func TestFaultsAreFound(t *testing.T) {
	var m wire.Message
	if err := m.Scan([]byte(edited), everything); err != nil {
		t.Fatal(err)
	}
	after, changes := changesOf(&m, []byte{4, 0, 6, 1, 8, 3, 10, 4, 12, 5, 15, 6, 17, 7, 19, 0})
	if len(changes) < 6 || len(explainedtest.Faults(edited, after, changes)) > 0 {
		t.Fatalf("%q\n%q", changes, explainedtest.Faults(edited, after, changes))
	}
	for i, c := range changes {
		if inner := c.Kind == "replaced" && c.After == ""; inner {
			continue
		}
		without := append(append([]explainedtest.Change(nil), changes[:i]...), changes[i+1:]...)
		if len(explainedtest.Faults(edited, after, without)) == 0 {
			t.Errorf("%+v is not missed", c)
		}
	}
	for _, c := range []explainedtest.Change{
		{Kind: "removed", Before: "result.tools[9]"}, {Kind: "added", After: "id"}, {Kind: "replaced", Before: "jsonrpc", After: "jsonrpc"},
		{Kind: "removed", Before: "id.x"}, {Kind: "renamed", Before: "result", After: "result"},
	} {
		if len(explainedtest.Faults(edited, after, append(changes[:len(changes):len(changes)], c))) == 0 {
			t.Errorf("%+v corresponds to no difference", c)
		}
	}
}

func TestPathsOfChanges(t *testing.T) {
	var m wire.Message
	if err := m.Scan([]byte(edited), everything); err != nil {
		t.Fatal(err)
	}
	var got []string
	tools := m.Root().Get(wire.ResultKey).Get(wire.Tools)
	first := tools.First()
	first.Swap([]byte(`1,2,3`))
	first.Next().Get(wire.Title).Put([]byte(`"d"`))
	first.Next().Next().Remove()
	tools.Add([]byte(`4`))
	tools.Next().Get(wire.OtherName).Swap([]byte(`"\u0064":3`))
	m.EachChange(func(c wire.Change) {
		got = append(got, strings.TrimSpace(string(c.Kind)+" "+string(c.Before)+" -> "+string(c.After)))
	})
	want := `removed result.tools[0] ->
added  -> result.tools[0]
added  -> result.tools[1]
added  -> result.tools[2]
replaced result.tools[1].title -> result.tools[3].title
removed result.tools[2] ->
added  -> result.tools[6]
renamed result["n o"].c -> result["n o"].d`
	if list := strings.Join(got, "\n"); list != want {
		t.Errorf("got\n%s\nwant\n%s\n%s", list, want, m.AppendTo(nil))
	}
}

// hasTwins reports whether some object has two members of one name.
func hasTwins(v gjson.Result) (twins bool) {
	if !v.IsObject() && !v.IsArray() {
		return false
	}
	seen := map[string]bool{}
	v.ForEach(func(k, c gjson.Result) bool {
		twins = v.IsObject() && seen[k.Str] || hasTwins(c)
		seen[k.Str] = true
		return !twins
	})
	return twins
}
