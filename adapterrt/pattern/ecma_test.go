package pattern

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// patterns are expressions with what clients get in their place: "=" for the same, "" for none. Each was compared with what
// node 20 says; TestECMAInNode does it again where node is installed.
var patterns = [][2]string{
	{`^[a-z0-9]+(-[a-z0-9]+)*$`, "="},
	{`^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$`, "="},
	{`^\d{4}-\d{2}-\d{2}$`, "="},
	{`^\d{4}\-\d{2}\-\d{2}$`, `^\d{4}-\d{2}-\d{2}$`},
	{`^[\w\-\.]+$`, "="},
	{`^[\w-.]+$`, `^[\w\-.]+$`},
	{`^[\w.-]+$`, "="},
	{`^[a-zA-Z\_\ \']+$`, `^[a-zA-Z_ ']+$`},
	{`^[-+]?\d+$`, "="},
	{`^[a-z-9]$`, "="},
	{`^[+--]$`, "="},
	{`^[--/]$`, "="},
	{`^[\d--/]$`, `^[\d\--/]$`},
	{`^\/api\/v1\/`, "="},
	{`^https?:\/\/[^\s\/$.?#].[^\s]*$`, "="},
	{`^https?\:\/\/`, `^https?:\/\/`},
	{`^\#[0-9a-f]{6}$`, `^#[0-9a-f]{6}$`},
	{`^\"[^\"]*\"$`, `^"[^"]*"$`},
	{`^a\@b\!\%\&\~\,\;\<\>\=$`, `^a@b!%&~,;<>=$`},
	{`^{[0-9a-f-]{36}}$`, `^\{[0-9a-f-]{36}\}$`},
	{`^\{[0-9a-f]{8}\}$`, "="},
	{`^a{,3}$`, `^a\{,3\}$`},
	{`^a{03}$`, `^a\{03\}$`},
	{`^a{2,}?b{3}c{1,2}$`, "="},
	{`^a]$`, `^a\]$`},
	{`^[]a]+$`, `^[\]a]+$`},
	{`^[^]a]+$`, `^[^\]a]+$`},
	{`^[[a]$`, "="},
	{`^[a^]$`, "="},
	{`^\A`, `^^`},
	{`\Aabc\z`, `^abc$`},
	{`^\Qa.b*\E$`, `^a\.b\*$`},
	{`^\Qa-b`, `^a-b`},
	{`^[[:alpha:]][[:alnum:]_]*$`, `^[A-Za-z][0-9A-Za-z_]*$`},
	{`^[[:^digit:][:space:]]$`, `^[\x00-\/:-\u{10FFFF}\x09-\x0D ]$`},
	{`^[[:punct:]]$`, "^[!-\\/:-@\\[-`\\{-~]$"},
	{`^\pL+$`, `^\p{L}+$`},
	{`^[\p{L}\p{M}\-\. ']+$`, "="},
	{`^[\p{L}-\.]+$`, `^[\p{L}\-\.]+$`},
	{`^\p{Greek}+$`, `^\p{Script=Greek}+$`},
	{`^\p{^Lu}\P{^Lu}$`, `^\P{Lu}\p{Lu}$`},
	{`^[\x{1F600}-\x{1F64F}\x41\x{e9}]$`, `^[\u{1F600}-\u{1F64F}\x41\xE9]$`},
	{`^\a\f\n\r\t\v$`, `^\x07\f\n\r\t\v$`},
	{`^\07\123[\0\101]$`, `^\x07S[\x00A]$`},
	{`^(?P<year>\d{4})$`, `^(\d{4})$`},
	{`^(?<year>\d{4})$`, "="},
	{`^(?<1>a)$`, `^(a)$`},
	{`^(?:a|b)(c|)$`, "="},
	{`(?i)^(asc|desc)$`, `^([Aa][Ss\u017F][Cc]|[Dd][Ee][Ss\u017F][Cc])$`},
	{`^(?i:yes)|no$`, `^(?:[Yy][Ee][Ss\u017F])|no$`},
	{`^(a(?i)b|c)d$`, `^(a[Bb]|[Cc])d$`},
	{`(?i)^[a-f0-9]+$`, `^[a-fA-F0-9]+$`},
	{`(?i)^[a-z-9]+\w$`, `^[a-zA-Z\u017F\u212A\-9]+[\w\u017F\u212A]$`},
	{`(?i)[[:upper:]]`, `[A-Za-z\u017F\u212A]`},
	{`(?s)^.*$`, `^[\s\S]*$`},
	{`(?s-i:.)`, `(?:[\s\S])`},
	{`(?m)^a$`, `(?<![^\n])a(?![^\n])`},
	{`(?U)^a+$`, `^a+$`},
	{`^*a\b+`, `(?:^)*a(?:\b)+`},
	{`a+(?i)*b`, `(?:a+)*[Bb]`},
	{`^$`, "="}, {``, "="}, {`^.+$`, "="}, {`\bword\B`, "="}, {`^[^@]+@[^@]+$`, "="}, {`^\S+$`, "="},
	{`^ü+[ä-ö]$`, "="},
	{`(?i)\p{Lu}`, ""},
	{`(?i)[\W]`, ""},
	{`^\p{Kawi}$`, ""},
	{`^(?!a)`, ""}, {`^(a)\1$`, ""}, {`\u0041`, ""}, {`[`, ""}, {`a**`, ""},
}

func TestECMA(t *testing.T) {
	for _, p := range patterns {
		want := strings.Replace(p[1], "=", p[0], 1)
		if p[1] != "=" {
			want = p[1]
		}
		if got, ok := ECMA(p[0]); ok != (p[1] != "") || ok && got != want {
			t.Errorf("%s\n got  %s %v\n want %s", p[0], got, ok, want)
		}
	}
	if got, ok := ECMA("(?i)" + strings.Repeat("k", 200)); ok {
		t.Errorf("a far longer one: %d bytes", len(got))
	}
}

// asked is what node is asked about one expression.
type asked struct {
	Was   string   `json:"was"`
	Is    string   `json:"is"`
	Texts []string `json:"texts"`
}

// TestECMAInNode shows that what ECMA returns is valid with the flag u and accepts the same texts as in RE2, and that it
// changes nothing that is valid there and means the same. It needs node.
func TestECMAInNode(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	all := make([]string, 0, 1500)
	for _, p := range patterns {
		all = append(all, p[0])
	}
	random := rand.New(rand.NewPCG(1, 2))
	for len(all) < cap(all) {
		all = append(all, invented(random, 0))
	}
	var ask []asked
	left := 0
	for _, p := range all {
		if _, err := regexp.Compile(p); err != nil {
			continue
		}
		out, ok := ECMA(p)
		if !ok {
			left++
			continue
		}
		a := asked{Was: p, Is: out}
		for range 30 {
			a.Texts = append(a.Texts, text(random))
		}
		ask = append(ask, a)
	}
	t.Logf("%d expressions, %d left out", len(ask), left)
	in, _ := json.Marshal(ask)
	cmd := exec.Command("node", "-e", `
const found = JSON.parse(require("fs").readFileSync(0)).map(({was, is, texts}) => {
  let valid = true, fits = null;
  try { new RegExp(was, "u") } catch { valid = false }
  try { const re = new RegExp(is, "u"); fits = texts.map(s => re.test(s)) } catch {}
  return {valid, fits};
});
console.log(JSON.stringify(found))`)
	cmd.Stdin = strings.NewReader(string(in))
	answer, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []struct {
		Valid bool
		Fits  []bool
	}
	if err := json.Unmarshal(answer, &found); err != nil || len(found) != len(ask) {
		t.Fatal(err, len(found))
	}
	valid, same := 0, 0
	for i, a := range ask {
		if found[i].Fits == nil {
			t.Errorf("%q became %q, which node refuses", a.Was, a.Is)
			continue
		}
		if found[i].Valid {
			valid++
		}
		if a.Was == a.Is {
			same++
		}
		if !found[i].Valid && a.Was == a.Is {
			t.Errorf("%q stayed, and node refuses it", a.Was)
		}
		re := regexp.MustCompile(a.Was)
		for j, s := range a.Texts {
			if re.MatchString(s) != found[i].Fits[j] {
				t.Errorf("%q became %q: on %q RE2 says %v", a.Was, a.Is, s, re.MatchString(s))
				break
			}
		}
	}
	t.Logf("valid in node as they were: %d, unchanged: %d", valid, same)
}

var pieces = strings.Fields(`a b K s z é ß - _ : / { } ] 0 7 \. \- \_ \/ \{ \d \D \w \W \b ^ $ \A \z . \pL \p{Lu} \P{Greek} \x41 \x{e9} \101 \t \n \Qa-b\E
	\@ \# a{2} a{,2} [ab] [^a] [a-f] [\w-.] [-a] [a-] []a] [^]-] [[:alpha:]_] [[:^digit:]] [\-\_] [a-z-9] [+--] [\w--/] [\d\-\:] [\x{3b1}-\x{3c9}] [k\PL] {2,1x}`)

// invented returns an expression made at random.
func invented(r *rand.Rand, depth int) string {
	var b strings.Builder
	if r.IntN(6) == 0 {
		b.WriteString([]string{"(?i)", "(?s)", "(?m)", "(?U)", "(?im)", "(?s-i)"}[r.IntN(6)])
	}
	for range 1 + r.IntN(4) {
		if depth < 2 && r.IntN(4) == 0 {
			b.WriteString([]string{"(", "(?:", "(?i:", "(?-i:"}[r.IntN(4)] + invented(r, depth+1) + ")")
		} else {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if r.IntN(3) == 0 {
			b.WriteString([]string{"*", "+", "?", "{1,2}", "*?", "{2}", "{,2}", "|"}[r.IntN(8)])
		}
	}
	return b.String()
}

// text returns a text made at random, without the white space that RE2 and ECMA-262 take differently.
func text(r *rand.Rand) string {
	var b strings.Builder
	chars := []rune("abkKsSzZé\u00c9ßſK-_:/{}]0789.@#+,\n\tλΛ😀A")
	for range r.IntN(7) {
		b.WriteRune(chars[r.IntN(len(chars))])
	}
	return b.String()
}
