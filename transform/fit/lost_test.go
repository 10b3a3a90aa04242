package fit

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestMembersThatLostAllSaySo checks that a member of which only the name is kept does not look empty.
func TestMembersThatLostAllSaySo(t *testing.T) {
	var in strings.Builder
	for i := range 40 {
		fmt.Fprintf(&in, `"/path/%d":{"get":{"summary":"s","responses":{"200":{"description":"%s"}}}},`, i, strings.Repeat("word ", 30))
	}
	for name, doc := range map[string]string{
		"objects": `{` + in.String() + `"/none":{}}`,
		"lists":   strings.NewReplacer(`{"get":`, `[{"get":`, `}}}},`, `}}}}],`).Replace(`{` + in.String() + `"/none":{}}`),
		"strings": `{` + regexp.MustCompile(`\{"get".*?\}\}\}\},`).ReplaceAllString(in.String(), `"`+strings.Repeat("text ", 60)+`",`) + `"/none":{}}`,
	} {
		for _, room := range []int{300, 700, 1500, 4000} {
			out, _ := fitted([]byte(doc), room)
			if m := regexp.MustCompile(`"/path/\d+":(\{\}|\[\]|"")`).Find(out); m != nil {
				t.Errorf("%s for %d: %s", name, room, m)
			}
			if room == 700 && name != "strings" && !strings.Contains(string(out), `:"…"`) {
				t.Errorf("%s: %s", name, out)
			}
		}
	}
}

// TestNumbersAreNotCut checks that what is left of a number is all of it.
func TestNumbersAreNotCut(t *testing.T) {
	var line, text strings.Builder
	whole := make(map[string]bool)
	for i := range 400 {
		n := fmt.Sprint(1_000_000_007 * (i + 1))
		whole[n] = true
		fmt.Fprintf(&line, "%s%s", n, []string{", ", "|", ";", " and "}[i%4])
		fmt.Fprintf(&text, "%s is number %s, the next\n", n, n)
	}
	for name, in := range map[string]string{"a long line": line.String(), "lines": text.String(), "a string": `{"note":"` + line.String()[:180] + `"}`} {
		for room := 100; room < 300; room++ {
			out, _ := fitted([]byte(in), room)
			for _, n := range regexp.MustCompile(`\d{6,}`).FindAllString(string(out), -1) {
				if !whole[n] {
					t.Fatalf("%s for %d: %s in %s", name, room, n, out)
				}
			}
		}
	}
}

// TestBase64IsWholeOrNotShown checks base64 in its usual places: nothing but its beginning is shown if not all of it fits.
func TestBase64IsWholeOrNotShown(t *testing.T) {
	data := strings.Repeat("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", 60)
	var wrapped strings.Builder
	for i := 0; i < len(data); i += 64 {
		wrapped.WriteString(data[i:min(i+64, len(data))] + "\n")
	}
	for name, c := range map[string]struct{ in, beside string }{
		"a member":       {`{"name":"a.png","content":"` + data + `"}`, "a.png"},
		"a data URI":     {`{"name":"a.png","src":"data:image/png;base64,` + data + `"}`, "a.png"},
		"in a line":      {"Authorization: Bearer " + data + " for user-7\nend\n", "for user-7"},
		"in HTML":        {`<img alt="logo" src="data:image/png;base64,` + data + `"> beside it`, "beside it"},
		"a certificate":  {"-----BEGIN CERTIFICATE-----\n" + wrapped.String() + "-----END CERTIFICATE-----\nsubject: acme\n", "subject: acme"},
		"wrapped, a key": {"apiVersion: v1\ndata:\n  tls.key: |\n    " + strings.ReplaceAll(wrapped.String(), "\n", "\n    ") + "\nkind: Secret\n", "kind: Secret"},
	} {
		for _, room := range []int{300, 800, 1600} {
			out, _ := fitted([]byte(c.in), room)
			n := 0
			for _, run := range regexp.MustCompile(`[A-Za-z0-9+/=]{20,}`).FindAllString(string(out), -1) {
				n += len(run)
			}
			if n > 100 || !strings.Contains(string(out), c.beside) {
				t.Errorf("%s for %d: %d characters of base64 in %.400s", name, room, n, out)
			}
		}
		if out, _ := fitted([]byte(c.in), len(c.in)); string(out) != c.in {
			t.Errorf("%s: not all of it fits", name)
		}
	}
}

// TestPagesShowTheirText checks that what a browser does not show comes late, in lines and in one line.
func TestPagesShowTheirText(t *testing.T) {
	var head, body strings.Builder
	for i := range 60 {
		fmt.Fprintf(&head, "<meta name=\"m%d\" content=\"nothing to read\">\n<script>var a%d = function () { return 'error' };</script>\n<style>.a%d { color: red }</style>\n", i, i, i)
		fmt.Fprintf(&body, "<p>Paragraph %d tells something to its readers.</p>\n", i)
	}
	page := "<!DOCTYPE html>\n<html>\n<head>\n<title>About shops</title>\n" + head.String() + "</head>\n<body>\n<script>\n" + strings.Repeat("  window.push({ event: 'x' });\n", 40) + "</script>\n" + body.String() + "</body>\n</html>\n"
	for name, in := range map[string]string{"lines": page, "one line": strings.ReplaceAll(page, "\n", " "), "in a document": `{"status":200,"body":"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(page) + `"}`} {
		out, _ := fitted([]byte(in), 1500)
		if s := string(out); !strings.Contains(s, "Paragraph 0 ") || !strings.Contains(s, "Paragraph 1 ") || strings.Count(s, "Paragraph") < 8 || strings.Count(s, "<meta") > 2 || strings.Count(s, "window.push") > 4 {
			t.Errorf("%s: %s", name, out)
		}
		if !strings.Contains(string(out), "About shops") {
			t.Errorf("%s has no title: %s", name, out)
		}
	}
	for _, in := range []string{strings.Repeat("<script>", 50_000), strings.Repeat("<!--", 50_000), "<html><head>" + strings.Repeat("<p>Without an end.\n", 100)} {
		fitted([]byte("<html>"+in), 500)
	}
}

// TestMembersThatSayLittleComeLate checks items of a list: what each of them has, a long id beside a number and an address
// for programs beside one for people come after what tells the items apart.
func TestMembersThatSayLittleComeLate(t *testing.T) {
	var items []string
	for i := range 40 {
		items = append(items, fmt.Sprintf(`{"object":"block","archived":false,"id":"0b5e8c2a-7c1d-4f6e-9a3b-%012d","identifier":"SHOP-%d","place":"shelf %d","url":"https://api.example/v3/%d","html_url":"https://example/%d"}`, i, i, i, i, i))
	}
	out, _ := fitted([]byte(`{"items":[`+strings.Join(items, ",")+`]}`), 1000)
	for _, few := range []string{`"object"`, `"0b5e8c2a`, `"https://api`} {
		if n := strings.Count(string(out), few); n == 0 || n*2 > strings.Count(string(out), "identifier") {
			t.Errorf("%d times %s in %s", n, few, out)
		}
	}
}

// TestSectionsHaveTheirFirstLine checks that headings are kept with the line that says what a section is about.
func TestSectionsHaveTheirFirstLine(t *testing.T) {
	for name, section := range map[string]string{
		"Markdown": "## Part %d\n\nIt is about matter %d.\n\n%s", "HTML": "<h2>Part %d</h2>\n<div class=\"text\">\n<p>It is about matter %d.</p>\n%s</div>\n",
	} {
		var in strings.Builder
		for i := range 12 {
			fmt.Fprintf(&in, section, i, i, strings.Repeat("One of many words that say more of it.\n", 20))
		}
		out, _ := fitted([]byte(in.String()), 1500)
		for i := range 12 {
			if what := fmt.Sprintf("about matter %d.", i); !strings.Contains(string(out), what) {
				t.Errorf("%s: no %q in %s", name, what, out)
			}
		}
	}
}

// TestHeadingsInTheNextLine checks HTML that is written by a program: the tag of a heading and its text are two lines, and what
// is in the head is in many lines.
func TestHeadingsInTheNextLine(t *testing.T) {
	var in strings.Builder
	in.WriteString("<html>\n<head>\n<title>About it</title>\n<style>\n" + strings.Repeat("ul li {\n  margin: 0;\n}\n", 40) + "</style>\n</head>\n<body>\n")
	for i := range 12 {
		fmt.Fprintf(&in, "<div class=\"titlepage\"><div><h2 class=\"title\">\n<a name=\"part%d\"></a>About part %d</h2></div></div>\n%s", i, i, strings.Repeat("<p>One of many words that say more of it.\n", 20))
	}
	out, _ := fitted([]byte(in.String()), 3000)
	for i := range 12 {
		if what := fmt.Sprintf("About part %d<", i); !strings.Contains(string(out), what) {
			t.Errorf("no %q in %s", what, out)
		}
	}
	if strings.Count(string(out), "margin") > 0 {
		t.Errorf("styles in %s", out)
	}
}

// TestCommitsHaveTheirSubjects checks that a log of git shows what its first commits are about.
func TestCommitsHaveTheirSubjects(t *testing.T) {
	var in strings.Builder
	for i := range 60 {
		fmt.Fprintf(&in, "commit %040d\nAuthor: Ann <ann@example.org>\nDate:   Sat Nov 21 00:49:16 2026 +0000\n\n    The subject of commit %d\n\n    It has a text of some lines,\n    which say why.\n\n", i, i)
	}
	out, _ := fitted([]byte(in.String()), 1500)
	for i := range 4 {
		if what := fmt.Sprintf("subject of commit %d\n", i); !strings.Contains(string(out), what) {
			t.Errorf("no %q in %s", what, out)
		}
	}
	for _, short := range []string{"commit 1\n", "commit 1\nAuthor: x", "commit 1\nplain\n", "commit 1\ncommit 2\n"} {
		fitted([]byte(strings.Repeat(short, 50)), 200)
	}
}
