package owntools

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// many are n tools.
func many(n int) (all named) {
	for i := range n {
		all = append(all, fmt.Sprintf("tool_%04d", i))
	}
	return all
}

func catalog(t *testing.T, sources ...Source) *Catalog {
	t.Helper()
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(table, sources, "append", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPagesOfOwnTools shows that the pages have every tool once, in order.
func TestPagesOfOwnTools(t *testing.T) {
	for _, n := range []int{0, 1, 199, 200, 201, 400, 401, 1223} {
		own := many(n)
		c := catalog(t, own)
		var got []string
		after, pages := "", 0
		for {
			entries, cursor, ok := c.page(translate.Latest(), after)
			if !ok {
				t.Fatalf("%d tools: page after %q is unknown", n, after)
			}
			page := gjson.Parse("[" + string(entries) + "]").Array()
			if len(page) > pageSize {
				t.Errorf("%d tools on a page", len(page))
			}
			for _, tool := range page {
				got = append(got, tool.Get("name").Str)
			}
			pages++
			if cursor == "" {
				break
			}
			after = strings.TrimPrefix(cursor, cursorPrefix)
		}
		if !slices.Equal(got, own) || pages != max((n+pageSize-1)/pageSize, 1) {
			t.Errorf("%d tools: %d on %d pages", n, len(got), pages)
		}
	}
	if _, _, ok := catalog(t, many(3)).page(translate.Latest(), "gone"); ok {
		t.Error("a page after a tool that does not exist")
	}
}

// TestLastPageOfTheServerLeadsToOwnPages shows that own tools that do not fit on the server's last
// page are on pages of their own, and which page is the last one.
func TestLastPageOfTheServerLeadsToOwnPages(t *testing.T) {
	c := catalog(t, many(450))
	handshake, modern := translate.Latest(), translate.Lookup(translate.Modern())
	const none = ""
	ours, onward := cursorPrefix+"tool_0199", cursorPrefix
	for name, in := range map[string]struct {
		cursor                     string // the member nextCursor
		same, up, down, sameModern string // the cursor for the client, between handshake revisions, to a modern client, to an older one, between modern ones; "" for the server's
	}{
		"no cursor":    {none, ours, ours, ours, ours},
		"null cursor":  {`"nextCursor":null,`, ours, ours, ours, ours},
		"empty cursor": {`"nextCursor":"",`, ours, none, onward, none}, // the translation removes it towards a modern client
		"cursor":       {`"nextCursor":"more",`, none, none, none, none},
		"number":       {`"nextCursor":7,`, none, none, none, none},
		"two cursors":  {`"nextCursor":"more","nextCursor":null,`, ours, ours, ours, ours},
	} {
		for _, pair := range []struct {
			client, server *translate.Revision
			want           string
		}{
			{handshake, handshake, in.same}, {modern, handshake, in.up}, {handshake, modern, in.down}, {modern, modern, in.sameModern},
		} {
			page := `{"jsonrpc":"2.0","id":1,"result":{` + in.cursor + `"tools":[{"name":"theirs"}]}}`
			out := string(c.Extend([]byte(page), pair.client, pair.server, func(string) {}))
			switch pair.want {
			case none:
				if out != page {
					t.Errorf("%s of %s for %s: %.300s", name, pair.server, pair.client, out)
				}
				continue
			case ours:
				if n := gjson.Get(out, "result.tools.#").Int(); n != 201 {
					t.Errorf("%s of %s for %s: %d tools", name, pair.server, pair.client, n)
				}
			case onward:
				if n := gjson.Get(out, "result.tools.#").Int(); n != 1 {
					t.Errorf("%s of %s for %s: %d tools", name, pair.server, pair.client, n)
				}
			}
			if cursor := `"nextCursor":"` + pair.want + `"`; !gjson.Valid(out) || strings.Count(out, cursor) != max(1, strings.Count(in.cursor, "nextCursor")) {
				t.Errorf("%s of %s for %s: %.300s", name, pair.server, pair.client, out)
			}
		}
	}
	if out := c.Extend([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`), handshake, handshake, func(string) {}); gjson.GetBytes(out, "result.tools.#").Int() != 200 {
		t.Errorf("%.300s", out)
	}
}

// granted are tools of which a grant has only some.
type granted struct{ named }

func (granted) Grants() []string { return []string{"some", "none"} }

func (g granted) Tools(grant string) []Tool {
	switch all := g.named.Tools(""); grant {
	case "":
		return all
	case "some":
		return all[:1]
	}
	return nil
}

func TestCatalogOfAGrant(t *testing.T) {
	full := catalog(t, granted{many(3)})
	some, none := full.For("some"), full.For("none")
	if full.For("") != full || some.Named([]byte(`{"name":"tool_0000"}`)) == "" || some.Named([]byte(`{"name":"tool_0001"}`)) != "" || len(none.List()) != 0 {
		t.Error("a grant has other tools than its own")
	}
	next, err := New(full.table, []Source{granted{many(2)}}, "append", full)
	if err != nil {
		t.Fatal(err)
	}
	full.ReplacedBy(next)
	closed := func(c *Catalog) bool {
		select {
		case <-c.told.Replaced():
			return true
		default:
			return false
		}
	}
	if !closed(full) || closed(some) || closed(none) || next.For("some").Edition() != some.Edition() {
		t.Error("clients are told of a change that they do not see, or not of one that they see")
	}
}
