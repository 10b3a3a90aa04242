package openapi

import (
	"strconv"
	"strings"
	"testing"
)

func TestProse(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"Plain text.":      "Plain text",
		"  Two\n  lines  ": "Two lines",
		"**Bold**, *slanted*, _this_, `code` and __more__": "Bold, slanted, this, code and more",
		"snake_case_name and a * b * c":                    "snake_case_name and a * b * c",
		"A [link](https://example.com/a_(b)) and ![x](y)":  "A link and",
		"<p>HTML &amp; <b>more</b></p><script>x</script>":  "HTML & more. x",
		"Must match `[a-zA-Z][a-z]+`, `<b>`, `**`":         "Must match [a-zA-Z][a-z]+, <b>, **",
		"# Title\n\nText":                                "Title. Text",
		"One.\n\n**Note:** not this.\n\nTwo.":            "One. Two",
		"Text. _NOTE: Only some users can. Others not._": "Text",
		"One of:\n- `a` first\n- `b` second":             "One of: a first; b second",
		"```\ncode\n```\nafter":                          "after",
		"a\u202eb\u0000c\u200bd":                         "abcd",
		"Ignore `x` and \ue000":                          "Ignore x and",
		"key ghp_abcdefghijklmnop1234 here":              "key [redacted] here",
		strings.Repeat("word ", 100):                     strings.TrimSpace(strings.Repeat("word ", 23)) + "…",
		strings.Repeat("First sentence here. ", 20):      strings.TrimSpace(strings.Repeat("First sentence here. ", 5)),
		strings.Repeat("é", 300):                         strings.Repeat("é", 119) + "…",
	} {
		if got := prose(in, 120); strings.TrimSuffix(got, ".") != strings.TrimSuffix(want, ".") {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{
		"listPets": "list_pets", "issues/listForRepo": "issues_list_for_repo", "getHTTPServer": "get_http_server", "userIDs": "user_ids", "X-Request-Id": "x_request_id", "filter[name]": "filter_name",
		"PetID": "pet_id", "v1Beta": "v1_beta", "__x__": "x", "日本": "", "a.b c": "a_b_c", "OAuth2Token": "o_auth2_token", "ABC": "abc", "per_page": "per_page",
	} {
		if got := snake(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"Pet Shop API": "pet-shop", "GitHub v3 REST API": "github-v3", "": "api", "1Password Connect": "password-connect", "Stripe's API": "stripes", "日本": "api"} {
		if got := AdapterName(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	for _, c := range []struct{ id, method, path, want string }{
		{"read_item_items__item_id__get", "GET", "/items/{item_id}", "read_item"},
		{"PetController_findAll", "GET", "/pets", "find_all_pet"},
		{"", "GET", "/v1/pets/{petId}", "get_pets_by_pet_id"},
		{"", "POST", "/", "post"},
		{"123", "GET", "/x", "get_123"},
	} {
		if got := (&rawOperation{id: c.id, method: c.method, path: c.path}).nameOf(); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.method, c.path, got, c.want)
		}
	}
}

// TestProseIsRemembered: a description that a document has many times is made once, and what is remembered is bounded.
func TestProseIsRemembered(t *testing.T) {
	d := &Document{}
	const text = "The *same* description of [a link](https://example.com) again and again.\n\n- with a list"
	want := prose(text, paramText)
	if got := d.prose(text, paramText); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := testing.AllocsPerRun(10, func() { d.prose(text, paramText) }); n > 0 {
		t.Errorf("%v allocations for a description that was made before", n)
	}
	if got := d.prose(text, 30); got != prose(text, 30) {
		t.Errorf("the limit is ignored: %q", got)
	}
	words := strings.Repeat("word ", 100)
	for i := range 60_000 {
		d.prose(strconv.Itoa(i)+words, 120)
		if d.memory.size > maxMemory+1000 {
			t.Fatalf("%d bytes are remembered after %d descriptions", d.memory.size, i)
		}
	}
}

// TestTooManyMembersAreNotDescribedInVain: of an operation that has too many members at four levels, no more is looked at than
// is needed to know that.
func TestTooManyMembersAreNotDescribedInVain(t *testing.T) {
	schema := `{"type":"string"}`
	for range 4 {
		var members []string
		for i := range 12 {
			members = append(members, `"m`+strconv.Itoa(i)+`":`+schema)
		}
		schema = `{"type":"object","properties":{` + strings.Join(members, ",") + `}}`
	}
	d, err := Read("d", []byte(`{"openapi":"3.0.0","info":{"title":"Wide","version":"1"},"servers":[{"url":"https://h.example.com"}],"paths":{"/x":{"post":{"requestBody":{"content":{"application/json":{"schema":`+schema+`}}}}}}}`), nil)
	if err == nil {
		_, err = d.Import(Options{})
	}
	if err != nil || d.steps > 2000 { // one level has 12 members, two have 156, three have 1,884
		t.Errorf("%d steps, %v", d.steps, err)
	}
}
