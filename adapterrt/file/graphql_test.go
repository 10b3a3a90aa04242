package file

import (
	"fmt"
	"strings"
	"testing"
)

func TestGraphQLKinds(t *testing.T) {
	for doc, want := range map[string]string{
		"{ a }": "query", "query A { a }": "query", "# mutation\n{ a }": "query", `query A($s: String = "} mutation {") { mutation }`: "query",
		"mutation { a }": "mutation", "fragment F on mutation { a } mutation X { b }": "fragment mutation", `"""mutation \""" x""" query { a }`: "query", "subscription S { a }": "subscription",
	} {
		var got []string
		kinds := graphqlKinds(doc)
		for _, k := range []string{"fragment", "query", "mutation", "subscription"} {
			if kinds[k] {
				got = append(got, k)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", doc, got, want)
		}
	}
}

func TestDeclaredVariables(t *testing.T) {
	for doc, want := range map[string]string{
		"{ a }": "map[]",
		"query A($a: Int, $b: Int!, $c : [Int!], $d: [Int!]!, $e: Int! = 5, $f: In = {x: 1}, $g: Int! @d(x: $h)) { f(a: $a, b: {c: $z}) }": "map[a:false b:true c:false d:true e:false f:false g:true]",
		"query A( # $n: Int!\n $a: Int) { f(s: \"$s: Int!\", t: \"\"\"$t: Int! \\\"\"\" $u: Int!\"\"\") }":                                 "map[a:false]",
		"mutation M($a:Int!$b:Int!){f}": "map[a:true b:true]",
		"query A($":                     "map[]", "query A($a": "map[]", "query A($a:": "map[a:false]", `"`: "map[]", `"""`: "map[]", `"\`: "map[]", "#": "map[]",
	} {
		if got := fmt.Sprint(declaredVariables(doc)); got != want {
			t.Errorf("%s\n got %s\nwant %s", doc, got, want)
		}
	}
}
