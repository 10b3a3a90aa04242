package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// everywhere returns a shape that records all members and elements down to a depth.
func everywhere(depth int) *Shape {
	s := new(Shape)
	if depth > 0 {
		s.Any = everywhere(depth - 1)
		s.Elem = s.Any
	}
	for n := range s.members {
		s.members[n] = s.Any
	}
	return s
}

var deep = everywhere(6)

// ugly are texts that a random search takes long to find.
var ugly = []string{
	`{}`, `{ }`, `[]`, `null`, `1`, `"x"`, ``, ` `, "\ufeff{}", `{`, `{"`, `{"jsonrpc"`, `{"jsonrpc":`, `{"jsonrpc":"2.0"`, `{"jsonrpc":"2.0",`, `{"jsonrpc":"2.0"}}`, `{"jsonrpc":"2.0"} x`,
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	" {\t\"jsonrpc\" : \"2.0\" ,\r\n\"id\" : 1 , \"method\" : \"ping\" } \n",
	`{"jsonrpc":"2.0","method":"ping"}`,
	`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":true,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":[],"method":"ping"}`, `{"jsonrpc":"2.0","id":1e2,"method":"ping"}`, `{"jsonrpc":"2.0","id":15e-1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 400) + `,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"x"}`,
	`{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"params":{},"params":{},"method":"ping"}`,
	`{"jsonrpc":"2.0","\u0069\u0064":7,"method":"pin\u0067"}`, `{"jsonrpc":"2\u002e0","id":1,"method":"ping"}`, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":1,"method":1}`, `{"jsonrpc":"2.0","id":1,"method":null}`, `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"2.0","id":1}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":null}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":1}`,
	`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","result":{}}`,
	`{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"x"}`, `{"jsonrpc":"2.0","id":"\ud800","method":"x"}`, `{"jsonrpc":"2.0","id":"é日本🙂","method":"x"}`, "{\"jsonrpc\":\"2.0\",\"id\":\"\xed\xa0\x80\",\"method\":\"x\"}",
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":01}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":-}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1.}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1e}}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\q"}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\u12g4"}}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\x01\"}}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":\"\x7f\"}}",
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1,]}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[,1]}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a" 1}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{a:1}}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":tru}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":truE}}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[{"b":[]},{}]}}`,
	strings.Repeat(`[`, 100000), strings.Repeat(`{"a":`, 100000),
}

// FuzzScan checks that Scan accepts no text that encoding/json or UTF-8 would refuse, returns
// no ParseError for a text that they accept (within MaxDepth), and returns the
// same error whether or not it records anything.
func FuzzScan(f *testing.F) {
	for _, s := range ugly {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var plain, recorded Message
		err := plain.Scan(in, nil)
		if again := recorded.Scan(in, deep); (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Fatalf("%q: without a shape %v, with one %v", in, err, again)
		}
		valid := json.Valid(in) && utf8.Valid(in)
		var fault *EnvelopeError
		switch {
		case err == nil && !valid:
			t.Fatalf("%q accepted", in)
		case errors.As(err, &fault) && fault.Code == ParseError && valid && !strings.Contains(fault.Why, "nested"):
			t.Fatalf("%q: %v, but it is valid", in, err)
		}
		if err != nil {
			return
		}
		for _, seen := range []*Message{&plain, &recorded} {
			used := usedMessage()
			if err := used.ScanLike(seen, bytes.Clone(in), seen.shape); err != nil || !sameFound(seen, used) {
				t.Fatalf("%q: %v\nfound %+v\ntaken %+v", in, err, seen, used)
			}
		}
		if got := recorded.AppendTo(nil); !bytes.Equal(got, in) {
			t.Fatalf("%q without marks became %q", in, got)
		}
		for _, part := range [][]byte{plain.ID(), plain.Params(), plain.Result(), plain.Error()} {
			if part != nil && !json.Valid(part) {
				t.Fatalf("%q: part %q", in, part)
			}
		}
	})
}

// usedMessage returns a message that was scanned and edited.
func usedMessage() *Message {
	m := &Message{Facts: ServerTools, Stamp: new(Stamp)}
	_ = m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"isError":true,"n":[1,2]}}`), deep)
	m.Root().Add(append(m.Writer(), `"more":1`...))
	m.Note, m.Room, m.Unfit, m.Losses, m.Places = []byte("n"), -1, true, append(m.Losses, Loss{}), make([]Place, 1)
	return m
}

// sameFound reports whether two messages are the same but for what the caller says of them.
func sameFound(a, b *Message) bool {
	m, o := *a, *b
	same := string(m.Raw) == string(o.Raw) && slices.Equal(m.nodes, o.nodes) && len(o.edits) == 0 && len(o.text) == 0 && len(o.Losses) == 0
	m.Raw, m.nodes, m.edits, m.text, m.Losses, m.Facts, m.Stamp = nil, nil, nil, nil, nil, 0, nil
	o.Raw, o.nodes, o.edits, o.text, o.Losses, o.Facts, o.Stamp = nil, nil, nil, nil, nil, 0, nil
	return same && reflect.DeepEqual(m, o) && b.Facts == ServerTools && b.Stamp != nil
}

// TestScanLikeReadsNothingTwice: only if the shape is another one, or the first scan has found nothing.
func TestScanLikeReadsNothingTwice(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	broken := []byte(strings.ReplaceAll(text, "{", "}"))
	for _, c := range []struct {
		name  string
		first func(m *Message)
		shape *Shape
		reads bool
	}{
		{"the same shape", func(m *Message) { _ = m.Scan([]byte(text), deep) }, deep, false},
		{"no shape", func(m *Message) { _ = m.Scan([]byte(text), nil) }, nil, false},
		{"another shape", func(m *Message) { _ = m.Scan([]byte(text), nil) }, deep, true},
		{"never scanned", func(*Message) {}, nil, true},
		{"not a message", func(m *Message) { _ = m.Scan([]byte(strings.ReplaceAll(text, "2.0", "1.0")), nil) }, nil, true},
		{"another text", func(m *Message) { _ = m.Scan([]byte(text+" "), nil) }, nil, true},
		{"forgotten", func(m *Message) { _ = m.Scan([]byte(text), nil); m.Trim() }, nil, true},
		{"edited", func(m *Message) { _ = m.Scan([]byte(text), deep); m.Root().Get(ID).Put(append(m.Writer(), '2')) }, deep, true},
	} {
		var seen, m Message
		c.first(&seen)
		if err := m.ScanLike(&seen, broken, c.shape); (err != nil) != c.reads {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var m Message
	if m.ScanLike(nil, broken, nil) == nil {
		t.Error("nothing was scanned, but it is not read")
	}
}

func TestScanAgreesWithEncodingJSONOnMutations(t *testing.T) {
	seed := []byte(`{"jsonrpc":"2.0","id":17,"result":{"tools":[{"name":"t","title":"é日🙂\u00e9\n","inputSchema":{"type":"object","properties":{"a":{"type":"number","minimum":-1.5e+3},"b":[true,false,null,{}]}}}, {"x":[]}],"n":[0,-0,1e9]}}`)
	pool := []byte("{}[]\",:\\ \n019.eE+-utfn\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xf4\x90abcdef")
	rnd := rand.New(rand.NewPCG(1, 2))
	var plain, recorded Message
	accepted := 0
	const mutations = 200_000 / effort
	for range mutations {
		in := bytes.Clone(seed)
		for range 1 + rnd.IntN(3) {
			switch at := rnd.IntN(len(in)); rnd.IntN(3) {
			case 0:
				in[at] = pool[rnd.IntN(len(pool))]
			case 1:
				in = append(in[:at], in[at+1:]...)
			default:
				in = append(in[:at], append([]byte{pool[rnd.IntN(len(pool))]}, in[at:]...)...)
			}
		}
		err := plain.Scan(in, nil)
		var fault *EnvelopeError
		valid := !errors.As(err, &fault) || fault.Code != ParseError
		if want := json.Valid(in) && utf8.Valid(in); valid != want {
			t.Fatalf("%q: valid %t, want %t (%v)", in, valid, want, err)
		}
		if again := recorded.Scan(in, deep); (err == nil) != (again == nil) {
			t.Fatalf("%q: without a shape %v, with one %v", in, err, again)
		}
		if err == nil {
			accepted++
		}
	}
	if accepted == 0 || accepted == mutations {
		t.Errorf("%d of the mutations were accepted: the test proves nothing", accepted)
	}
}

func TestEnvelope(t *testing.T) {
	for in, want := range map[string]struct {
		kind Kind
		code int
		id   string // the id for the response
	}{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                            {kind: Request},
		`{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}`:              {kind: Request},
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:              {kind: Notification},
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                {kind: Result},
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`:            {kind: Error},
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`:         {kind: Error},
		`{"jsonrpc":"2.0","error":{"code":1,"message":""}}`:                   {kind: Error},
		`{"jsonrpc":"2.0","id":1e2,"method":"ping"}`:                          {kind: Request},
		`{"jsonrpc":"2.0","id":10e-1,"method":"ping"}`:                        {kind: Request},
		`{"jsonrpc":"2.0","id":1.0,"method":"ping"}`:                          {kind: Request},
		`{"jsonrpc":"2.0","id":0.0e5,"method":"ping"}`:                        {kind: Request},
		`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`:                     {kind: Request},
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                          {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":1e-1,"method":"ping"}`:                         {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`:                         {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":true,"method":"ping"}`:                         {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":[1],"method":"ping"}`:                          {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`:                           {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"ping"}`:                {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`:            {code: InvalidRequest, id: "1"},
		`{"jsonrpc":"2.0","id":"é","method":"x","params":{},"par\u0061ms":1}`: {code: InvalidRequest, id: `"é"`},
		`{"jsonrpc":"2.0","id":3,"method":"x","params":[]}`:                   {code: InvalidRequest, id: "3"},
		`{"jsonrpc":"2.0","id":3,"method":"x","params":null}`:                 {code: InvalidRequest, id: "3"},
		`{"jsonrpc":"2.0","id":3}`:                                            {code: InvalidRequest, id: "3"},
		`{"id":3,"method":"x"}`:                                               {code: InvalidRequest, id: "3"},
		`{ }`:                                                                 {code: InvalidRequest},
		`null`:                                                                {code: InvalidRequest},
		`[]`:                                                                  {code: InvalidRequest},
		`1`:                                                                   {code: InvalidRequest},
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`:                          {code: ParseError},
		`{"jsonrpc":"2.0","id":1,"method":"ping"`:                             {code: ParseError},
		``: {code: ParseError},
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"x\"}":                                                           {code: ParseError},
		strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000):                                                        {code: ParseError},
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` + strings.Repeat("[", 510) + strings.Repeat("]", 510) + `}}`: {kind: Request},
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `}}`: {code: ParseError},
	} {
		for _, shape := range []*Shape{nil, deep} {
			var m Message
			err := m.Scan([]byte(in), shape)
			if want.code == 0 {
				if err != nil || m.Kind != want.kind {
					t.Errorf("%.80s: %v, %v", in, m.Kind, err)
				}
				continue
			}
			var fault *EnvelopeError
			if !errors.As(err, &fault) || fault.Code != want.code || string(fault.ID) != want.id {
				t.Errorf("%.80s: %+v, want code %d under id %q", in, err, want.code, want.id)
			}
		}
	}
}

func TestIDKeys(t *testing.T) {
	for _, same := range [][]string{
		{`1`, `1.0`, `10e-1`, `0.1e1`, `1e0`, `100E-2`},
		{`0`, `-0`, `0.0`, `0e99`, `-0.000`},
		{`-5`, `-5.0`, `-50e-1`},
		{`1e400`, `10e399`, `1` + strings.Repeat("0", 400)},
		{`9007199254740993`}, {`9007199254740992`},
		{`"1"`, `"\u0031"`},
		{`"n1e0"`}, {`""`}, {`"a/b"`, `"a\/b"`}, {`"é"`, `"\u00e9"`, `"\u00E9"`}, {`"🙂"`, `"\ud83d\ude42"`},
	} {
		for _, a := range same {
			for _, b := range same {
				if x, y := AppendIDKey(nil, []byte(a)), AppendIDKey(nil, []byte(b)); !bytes.Equal(x, y) {
					t.Errorf("%s and %s differ: %q %q", a, b, x, y)
				}
			}
		}
	}
	seen := map[string]string{}
	for _, id := range []string{`1`, `"1"`, `-1`, `10`, `0`, `"0"`, `""`, `100`, `11`, `"n1e0"`, `9007199254740993`, `9007199254740992`, `1e400`, `1e401`} {
		key := string(AppendIDKey(nil, []byte(id)))
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s share %q", id, other, key)
		}
		seen[key] = id
	}
}

func TestNamesAndMethodsAreFound(t *testing.T) {
	for n := JSONRPC; n < NumNames; n++ {
		if nameTexts[n] == "" || NameOf([]byte(nameTexts[n])) != n {
			t.Errorf("name %d %q", n, nameTexts[n])
		}
		escaped := ""
		for _, c := range nameTexts[n] {
			escaped += `\u00` + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15])
		}
		if nameOf([]byte(escaped)) != n {
			t.Errorf("%q is not found escaped", nameTexts[n])
		}
	}
	for m := Initialize; m < NumMethods; m++ {
		if m.String() == "" || MethodOf([]byte(m.String())) != m {
			t.Errorf("method %d %q", m, m)
		}
	}
	for _, other := range []string{"", "x", "titles", "Title", "tool", "_metA", "id\x00", "structured_Content", "structuredXontent", "protocolVversion"} {
		if n := NameOf([]byte(other)); n != OtherName {
			t.Errorf("%q is %v", other, n)
		}
	}
}

// TestReadNameFindsTheSameName: where a name ends in the text, and what follows it, makes no difference.
func TestReadNameFindsTheSameName(t *testing.T) {
	for n := JSONRPC; n < NumNames; n++ {
		name := []byte(nameTexts[n])
		for at := -1; at < len(name); at++ {
			want := n
			if at >= 0 {
				name[at] ^= 1
				want = NameOf(name)
				if other := slices.Index(nameTexts[:], string(name)); want != OtherName && int(want) != other {
					t.Errorf("%q is %v", name, want)
				}
			}
			for _, behind := range []string{"", ":1", `:"and longer than any two words"`} {
				text := `"` + string(name) + `"` + behind
				if end, got := readName([]byte(text), 0, 0); got != want || end != len(name)+2 {
					t.Errorf("%s is %v and ends at %d", text, got, end)
				}
			}
			if at >= 0 {
				name[at] ^= 1
			}
		}
	}
}

func TestElements(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                     "",
		` [ 1 , {"a":[2,3]} ] `:  `1|{"a":[2,3]}`,
		`[{"a":1},{"b":2},null]`: `{"a":1}|{"b":2}|null`,
		`[1,2,3,4]`:              "!too many messages in one batch",
		`[1,]`:                   "!Parse error: invalid JSON at byte 3",
		`[1`:                     "!Parse error: unexpected end of JSON at byte 2",
		`[1] x`:                  "!Parse error: data after the message at byte 4",
		`{}`:                     "!Parse error: invalid JSON at byte 0",
	} {
		got, err := AppendElements(nil, []byte(in), 3)
		text := string(bytes.Join(got, []byte("|")))
		if err != nil {
			text = "!" + err.Error()
		}
		if text != want {
			t.Errorf("%s: %s, want %s", in, text, want)
		}
	}
}

// TestLikelyNames: a scan knows the names that its shape has, also next to names that look like them.
func TestLikelyNames(t *testing.T) {
	for n := JSONRPC; n < NumNames; n++ {
		shape := new(Shape)
		shape.At(Step{Name: Params}, Step{Name: n})
		text := n.String()
		twin := text[:1] + strings.Repeat("~", len(text)-1) // the same first byte and length
		raw := `{"jsonrpc":"2.0","method":"x","params":{"":0,"` + twin + `":1,"` + text + `":2,"` + twin + `":3}}`
		var m Message
		if err := m.Scan([]byte(raw), shape); err != nil {
			t.Fatal(err)
		}
		params := m.Root().Get(Params)
		if got := params.Get(n); string(got.Raw()) != "2" || params.First() != got || got.Next().OK() {
			t.Errorf("%s: %q is recorded", text, got.Raw())
		}
	}
}
