package wire

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// listed names values of entries, like the rules for lists: of some objects a few members, of others all.
var listed = func() *Shape {
	s := new(Shape)
	for _, path := range []string{"title", "description", "outputSchema", "annotations.title", "annotations.lastModified", "execution.taskSupport",
		"icons[].title", "icons[].resource.title", "arguments[].title", "_meta.*.title"} {
		s.At(ParsePath("result.tools[]." + path)...)
	}
	return s
}()

// listBegin is a list up to its entries. Before these are as many as no habits are expected of.
const listBegin, listEnd = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{},{},{},`, `]}}`

// firstEntry returns the first one behind those of listBegin.
func firstEntry(m *Message) Node {
	entry := m.Root().Get(ResultKey).Get(Tools).First()
	for range shortList {
		entry = entry.Next()
	}
	return entry
}

// checkList checks that a scan records of each entry of a list what it records of the entry alone. valid reports whether they
// are entries.
func checkList(t *testing.T, entries string) (valid bool) {
	t.Helper()
	var list Message
	if sameFault(t, &list, listBegin+entries+listEnd) != nil {
		return false
	}
	for entry := firstEntry(&list); entry.OK(); entry = entry.Next() {
		var alone Message
		if err := alone.Scan([]byte(listBegin+string(entry.Raw())+listEnd), listed); err != nil {
			t.Fatalf("%s: %v", entry.Raw(), err)
		}
		if got, want := below(entry), below(firstEntry(&alone)); !slices.Equal(got, want) {
			t.Fatalf("%s\nin      %s\nrecords %+v\nalone   %+v", entry.Raw(), entries, got, want)
		}
	}
	return true
}

// sameFault scans raw, and checks that it has the same fault without a shape.
func sameFault(t *testing.T, m *Message, raw string) error {
	t.Helper()
	err, again := new(Message).Scan([]byte(raw), nil), m.Scan([]byte(raw), listed)
	if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
		t.Fatalf("%s: without a shape %v, with one %v", raw, err, again)
	}
	return err
}

// below returns the nodes of an entry, counted from it.
func below(entry Node) []node {
	at := entry.node()
	nodes := slices.Clone(entry.m.nodes[entry.i:at.next])
	from := at.pos
	for i := range nodes {
		n := &nodes[i]
		n.key, n.pos, n.end, n.next, n.parent = n.key-from, n.pos-from, n.end-from, n.next-entry.i, n.parent-entry.i
	}
	nodes[0].parent = 0 // the list, which is the same for all
	return nodes
}

// uglyLists are entries of which one has other members than the one before, or the same with another look.
var uglyLists = []string{
	`{"name":"a","title":"A"},{"name":"b","title":"B"},{"name":"c","title":"C"}`,
	`{"name":"a","title":"A"},{"name":"b","title":"B"},{"title":"C","name":"c"},{"name":"d"},{"title":"E"},{}`,
	`{"name":"a","title":"A"},{"title":"B","title":"BB","name":"b","name":""},{"title":"C","title":"CC"}`,
	`{"title":"A"},{"t\u0069tle":"B"},{"t\u0069tle":"C"},{"title":"D"},{"t\u0069tle":"E","title":"F"}`,
	`{"title" : "A" , "name" : 1},{"title" : "B" , "name" : 2},{"title":  "C"},{"title"  :"D"}, { "title" : "E"}`,
	"{\"title\":\n\"A\"},{\"title\":\n\t\"B\"},{\"title\":\n",
	`{"annotations":{"title":"A","title":"B"},"title":"C"},{"annotations":{"name":1,"title":"A"},"title":"C"},{"annotations":"title","title":{"title":"D"}}`,
	`{"name":"a","icons":[{"title":1},{"title":2},{"name":3,"title":4}],"title":"A"},{"name":"b","icons":[],"title":"B"},{"name":"c","icons":[{"title":1,"resource":{"title":2}}],"title":"C"}`,
	`{"arguments":[{"title":1},[],"title",{"title":2}]},{"arguments":{"title":1}},{"arguments":[{"title":{}},{"title":[{"title":3}]}]}`,
	`{"_meta":{"title":{"title":1},"a":{"title":2}},"title":"A"},{"_meta":{"title":{"title":1},"b":{"title":2}},"title":"B"}`,
	`{"title":true,"name":false,"description":null},{"title":false,"name":true,"description":null},{"title":tru,"name":false}`,
	`{"title":true},{"title":falsE}`, `{"title":1},{"title":}`, `{"title":1},{"title":1,}`, `{"title":1},{"title"1}`, `{"title":1},{"title":"\q"}`, `{"title":1},{"title`,
	`{"a name of more than 24 bytes":1,"title":1},{"a name of more than 24 bytes":2,"title":2},{"a name of 24 bytes!!!":3,"title":3},{"a name of 24 bytes!!!":4,"title":4},{"a name of 23 bytes!!":5},{"a name of 23 bytes!!":6}`,
	`{"a name of 25 bytes!!!!":1},{"a name of 25 bytes!!!!" :2},{"a name of 25 bytes!!!!":3}`, `{"a name of 25 bytes!!!!":1},{"a name of 25 bytes!!!!"=2}`,
	`{"":1,"title":1},{"":2,"title":2},{"tit":1},{"tit":2},{"title":3},{"titles":3},{"titles":4}`,
	manyMembers(30), manyMembers(17), manyMembers(16),
}

// manyMembers returns three entries with n members before the last one.
func manyMembers(n int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	b.WriteString(`"title":"A"}`)
	return b.String() + "," + b.String() + "," + b.String()
}

func TestEntriesAreReadAsIfAlone(t *testing.T) {
	for _, entries := range uglyLists {
		checkList(t, entries)
		for end := range entries {
			_ = sameFault(t, new(Message), listBegin+entries[:end])
		}
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	names := []string{`"title"`, `"name"`, `"description"`, `"outputSchema"`, `"annotations"`, `"execution"`, `"taskSupport"`, `"icons"`, `"resource"`,
		`"t\u0069tle"`, `"lastModified"`, `"structuredContent"`, `"io.modelcontextprotocol/tasks"`, `""`, `"x"`, `"titlE"`}
	for range 20_000 / effort {
		usual := drawnObject(rnd, names, 3)
		var list []string
		for range 2 + rnd.IntN(6) {
			if rnd.IntN(3) == 0 {
				usual = drawnObject(rnd, names, 3)
			}
			list = append(list, usual)
		}
		if !checkList(t, strings.Join(list, ",")) {
			t.Fatalf("%q is not valid", list)
		}
	}
}

// drawnObject returns an object of some of the names. It contains others up to a depth.
func drawnObject(rnd *rand.Rand, names []string, depth int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range rnd.IntN(8) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(names[rnd.IntN(len(names))] + [...]string{":", ":", ":", ": ", " :\n"}[rnd.IntN(5)])
		switch kind := rnd.IntN(6); {
		case kind == 0 && depth > 0:
			b.WriteString(drawnObject(rnd, names, depth-1))
		case kind == 1 && depth > 0:
			b.WriteString("[" + drawnObject(rnd, names, depth-1) + strings.Repeat(","+drawnObject(rnd, names, depth-1), rnd.IntN(6)) + "]")
		default:
			b.WriteString([...]string{"true", "false", "null", "-1.5e3", `"a text"`, `"é\n, quite a bit longer than a word or two"`}[rnd.IntN(6)])
		}
	}
	b.WriteByte('}')
	return b.String()
}

// FuzzList is TestEntriesAreReadAsIfAlone for any text.
func FuzzList(f *testing.F) {
	for _, entries := range uglyLists {
		f.Add(entries)
	}
	f.Fuzz(func(t *testing.T, entries string) { checkList(t, entries) })
}

func TestLiteral(t *testing.T) {
	for text, want := range map[string]int{"true": 4, "false": 5, "null": 4} {
		for _, behind := range []string{"    ", ",\"ab", "\x00\x00\x00\x00", "\xff\xff\xff\xff", "eeee"} {
			if got := literal(word([]byte(text+behind), 0)); got != want {
				t.Errorf("%s%q: %d", text, behind, got)
			}
			for at := range text {
				for bit := range 8 {
					other := []byte(text + behind)
					if other[at] ^= 1 << bit; literal(word(other, 0)) != 0 {
						t.Errorf("%q is a literal", other)
					}
				}
			}
		}
	}
}
