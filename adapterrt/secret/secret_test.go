package secret

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
)

var (
	secrets = secrettest.Secrets
	spell   = secrettest.Spell
)

// TestEverySpelling: each secret is struck out in each spelling, whatever is around it, and nothing else is.
func TestEverySpelling(t *testing.T) {
	for _, s := range secrets {
		set := NewSet("another-secret-2", s, "Bearer yet-another-3")
		for name, spelled := range spell {
			for _, around := range [][2]string{{"", ""}, {"before ", " after"}, {`{"error":"`, `"}`}, {"token=", "&x=1"}, {"https://h/p?q=", "#f"}, {"«", "»"}, {"…", "…"}, {"line one\n", "\nline three"}, {`\n`, `\n`}, {"%20", "%20"}} {
				for _, set := range [][]*Set{{set}, {nil, NewSet("unrelated"), set}} {
					in := around[0] + spelled(s) + around[1]
					got := Strike(in, set...)
					if !strings.HasPrefix(got, around[0]) || !strings.HasSuffix(got, around[1]) || !strings.Contains(got, Struck) {
						t.Fatalf("%q as %s: %q became %q", s, name, in, got)
					}
					if left := strings.ReplaceAll(got[len(around[0]):len(got)-len(around[1])], Struck, ""); !strings.HasPrefix(name, "base64") && strings.Trim(left, `\"=`) != "" || len(left) > len(spelled("client:"+`","more":1}{:""`)) {
						t.Errorf("%q as %s: %q became %q", s, name, in, got)
					}
				}
			}
		}
	}
}

// TestWhatIsNoSecretStays, also if it looks like a part of one.
func TestWhatIsNoSecretStays(t *testing.T) {
	set := NewSet("Bearer planted-secret-1", "https://hooks.example/T0/planted-secret-2", "short", "redis://:planted-secret-3@store.example:6379/1", "Basic dXNlcjpwbGFudGVkLXNlY3JldC00")
	for _, text := range []string{
		"", "a", "short", "Authorization: Bearer", "a Bearer …", "planted", "planted-secret", "https://hooks.example", "https://hooks.example/", "redis://", "redis", "Basic", "%", "%2", `\`, `\u`, `\u00`, "&#", "&#x2f", "…",
		"100% \\ & %zz \\q &amp; &nope; &#0; \\ud800 +-_/", strings.Repeat("%25", 1000) + "2", strings.Repeat("\\", 1000), "\xff\xfe%ff", "pla", "planted-secret-0 is another one",
	} {
		if got := Strike(text, set); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"planted-secret-1", "https://hooks.example/T0/planted-secret-2", "planted-secret-3", "planted-secret-4", "dXNlcjpwbGFudGVkLXNlY3JldC00"} {
		if got := Strike("x "+text+" y", set); strings.Contains(got, "planted") || strings.Contains(got, "dXNl") {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := Strike("planted-secret-1", nil, NewSet(), &Set{}); got != "planted-secret-1" {
		t.Errorf("no secrets: %q", got)
	}
}

// TestCutWithin: of a secret at which a text was cut, at most three bytes remain, however it is spelled.
func TestCutWithin(t *testing.T) {
	for _, s := range secrets {
		set := NewSet(s)
		for _, name := range []string{"as it is", "a query", "every byte as %", "JSON", `every character as \u`, "base64", "base64, one byte before", "base64, two bytes before"} {
			whole := spell[name](s)
			for n := range whole {
				for _, mark := range []string{"…", `…"`, "… (cut)", `\u2026`} {
					const before = "it says: "
					got := Strike(before+whole[:n]+mark, set)
					left := strings.TrimSuffix(strings.TrimPrefix(got, before), mark)
					most := begins - 1
					if name != "as it is" || strings.Contains(s, "%") {
						most += len("&#x2f") // the beginning of an escape
					}
					if left = strings.ReplaceAll(left, Struck, ""); len(plainOf(left)) > most {
						t.Errorf("%q as %s: %q became %q", s, name, before+whole[:n]+mark, got)
					}
				}
			}
		}
	}
}

func TestOverlapping(t *testing.T) {
	set := NewSet("abcdefgh", "efghijkl", "ghijkl-mnop", "abcdef")
	for in, want := range map[string]string{
		"abcdefghijkl": Struck, "abcdefghijkl-mnop": Struck, "xabcdefx": Struck, "x.abcdef/x": "x." + Struck + "/x", `\nabcdef`: `\n` + Struck, `x\u00e4abcdef`: `x\u00e4` + Struck, "%20abcdef%20": "%20" + Struck + "%20", "&#xabcdef": "&#x" + Struck, "Zm9vabcdef==)": Struck + ")",
		"abcdefgh abcdefgh": Struck + " " + Struck, "abcdefghabcdefgh": Struck,
	} {
		if got := Strike(in, set); got != want && got != strings.Replace(want, Struck, Struck+Struck, 1) {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// TestKept: what was kept last is struck out, and no more than the bounds is kept.
func TestKept(t *testing.T) {
	var k Kept
	if k.Set() != nil || (*Kept)(nil).Set() != nil {
		t.Error("there are secrets at first")
	}
	(*Kept)(nil).Keep("planted-secret")
	k.Keep("planted-secret", "short", strings.Repeat("x", longest+1))
	if got := Strike("short planted-secret", k.Set()); got != "short "+Struck {
		t.Errorf("%q", got)
	}
	if n := testing.AllocsPerRun(100, func() { k.Keep("planted-secret") }); n > 0 {
		t.Errorf("%v allocations for a secret that is kept", n)
	}
	for n := range mostKept {
		k.Keep(fmt.Sprintf("secret-%08d", n))
	}
	if now := k.now.Load(); len(now.list) != mostKept || len(now.has) != mostKept || now.has["planted-secret"] {
		t.Errorf("%d and %d are kept", len(now.list), len(now.has))
	}
	for n := range 50 {
		k.Keep(strings.Repeat(string(rune('a'+n%26)), 40<<10) + fmt.Sprint(n))
	}
	size := 0
	for _, s := range k.now.Load().list {
		size += len(s)
	}
	if size != k.size || size > mostKeptBytes || size < mostKeptBytes-64<<10 {
		t.Errorf("%d bytes are kept, %d counted", size, k.size)
	}
	var raced Kept
	done := make(chan bool)
	for n := range 4 {
		go func() {
			for i := range 40 {
				s := fmt.Sprintf("racing-%d-%d", n, i%5)
				raced.Keep(s)
				if !Has(s, raced.Set()) {
					t.Errorf("%s is not kept", s)
				}
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
}

// FuzzStrike spells a secret at random, a second time over what it was spelled as, and plants it in any text.
func FuzzStrike(f *testing.F) {
	for i, s := range secrets {
		f.Add(s, "before", "after", uint64(i))
	}
	for i, ugly := range []string{"%", "%2", "%25", `\`, `\\u00`, `\u002`, "&#", "&#x2", "&amp;", "\xff", "…", "a%", "2F", "u002f", "+", "-_", "\n", "aaaa", "eyJh", "[reda", "\U0001f511", `\ud83d`, "=", strings.Repeat("%25", 50), strings.Repeat(`\`, 50)} {
		f.Add("planted-secret/1", ugly, ugly, uint64(i))
		f.Add(ugly+"planted"+ugly, "x", "y", uint64(i))
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range spell {
			if !yield(name) {
				return
			}
		}
	})
	f.Fuzz(func(t *testing.T, s, before, after string, seed uint64) {
		s = strings.ToValidUTF8(s, "")
		if len(s) > 200 || len(plainOf(s)) < 8 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.Contains(Struck, s) || before != strings.TrimRight(before, `%\&#0123456789abcdefABCDEFuUxnrtb;`) {
			t.Skip() // what is before must not be the beginning of an escape
		}
		set := NewSet(s)
		if got := Strike(before+s+after, set); strings.Contains(got, s) {
			t.Fatalf("%q is in %q of %q", s, got, before+s+after)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		name := names[r.IntN(len(names))]
		spelled := spell[name](s)
		escapes := strings.Count(s, "%") + strings.Count(s, "&") + strings.Count(s, `\`)
		if escapes > 1 || escapes == 1 && (strings.Contains(name, "every") || strings.Contains(name, "HTML") || strings.Contains(name, `\u`) || strings.Contains(name, "all of it")) {
			t.Skip() // a secret that is made of escapes can be read in several ways; TestEverySpelling has some
		}
		if in := before + spelled + after; len(plainOf(withoutEscape(s))) >= 8 && !strings.Contains(Strike(in, set), Struck) {
			t.Errorf("%q as %s is in %q", s, name, in)
		}
		Strike(after+before, set)
		p := plainText(before + spelled + after)
		for from := 0; from < len(p.text); from += 1 + len(p.text)/50 {
			to := min(len(p.text), from+1+r.IntN(9))
			if start, end := p.original(from, to); start < 0 || end < start || end > len(p.of) || !strings.Contains(plainOf(p.of[start:end]), string(p.text[from:to])) && name != "x" {
				if got := plainOf(p.of[start:end]); len(got) == 0 || !strings.HasPrefix(string(p.text[from:]), got[:1]) && !strings.Contains(got, string(p.text[from:from+1])) {
					t.Errorf("%d to %d of %q is %q", from, to, p.of, p.of[start:end])
				}
			}
		}
	})
}
