package openapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

const shop = `openapi: 3.0.0
info: {title: Shop, version: "1"}
servers: [{url: https://shop.example.com/v1}]
security: [{key: []}]
paths:
  /items:
    get:
      operationId: listItems
      summary: List items
      parameters:
        - {name: state, in: query, schema: {type: string, enum: [open, closed]}}
        - {name: size, in: query, schema: {type: integer, maximum: 100}}
        - {name: title, in: query, schema: {type: string, maxLength: 40}}
      responses: {"200": {description: x, content: {application/json: {schema: {type: array, items: {type: object}}}}}}
    post:
      operationId: createItem
      summary: Create an item
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [name]
              properties:
                name: {type: string}
                price: {type: number}
                size: {type: object, required: [w], properties: {w: {type: integer}, h: {type: integer}}}
      responses: {"201": {description: x}}
  /items/{id}:
    get:
      operationId: getItem
      summary: Get an item
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses: {"200": {description: x}}
    delete:
      operationId: deleteItem
      summary: Delete an item
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses: {"204": {description: x}}
components:
  securitySchemes: {key: {type: http, scheme: bearer}}
`

// imported returns the adapter file of a document.
func imported(t *testing.T, document string, opt openapi.Options) []byte {
	t.Helper()
	opt.Name = "shop"
	_, files := written(t, parse(t, "shop.yaml", []byte(document), ""), opt)
	return files["shop-adapter.md"]
}

// differences returns what Diff says, one change a line; breaking changes begin with an exclamation mark.
func differences(t *testing.T, data []byte, document string) string {
	t.Helper()
	a, problems := adapterrt.Parse("shop-adapter.md", data, &adapterrt.Options{})
	if a == nil {
		t.Fatal(problems)
	}
	changes, err := openapi.Diff(data, a, parse(t, "shop.yaml", []byte(document), ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range changes {
		line := c.Kind + " " + strings.TrimSpace(c.What)
		if c.Operation != "" {
			line = c.Kind + " " + c.Operation + ": " + c.What
		}
		if c.Breaking {
			line = "! " + line
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// edits are single edits of the document, with the line that each of them must give.
var edits = []struct{ name, old, new, want string }{
	{"nothing", "", "", ""},
	{"description", "summary: List items", "summary: List all items", ""},
	{"gone", "    delete:\n      operationId: deleteItem\n      summary: Delete an item\n      parameters: [{name: id, in: path, required: true, schema: {type: string}}]\n      responses: {\"204\": {description: x}}\n", "", "! gone delete_item: the document does not have it"},
	{"new", "  /items/{id}:\n", "  /owners: {get: {summary: List owners, responses: {\"200\": {description: x}}}}\n  /items/{id}:\n", "new get_owners: is new: List owners"},
	{"moved", "  /items/{id}:\n    get:\n", "  /things/{id}:\n    get:\n", "! moved get_item: is now GET /things/{id}\n! moved delete_item: is now DELETE /things/{id}"},
	{"renamed", "operationId: getItem", "operationId: showItem", "renamed get_item: the document calls it show_item, and did call it get_item"},
	{"renamed placeholder", "  /items/{id}:\n    get:\n      operationId: getItem\n      summary: Get an item\n      parameters: [{name: id,", "  /items/{itemId}:\n    parameters: [{name: itemId, in: path, required: true, schema: {type: string}}]\n    get:\n      operationId: getItem\n      summary: Get an item\n      parameters: [{name: x,", ""},
	{"deprecated", "operationId: getItem", "deprecated: true\n      operationId: getItem", "deprecated get_item: is deprecated"},
	{"new optional", "- {name: size,", "- {name: page, in: query, schema: {type: integer}}\n        - {name: size,", "optional list_items: it has pages now"},
	{"new optional, not of pages", "- {name: size,", "- {name: lang, in: query, schema: {type: string}}\n        - {name: size,", "optional list_items: new optional parameter lang"},
	{"new required", "- {name: size,", "- {name: lang, in: query, required: true, schema: {type: string}}\n        - {name: size,", "! required list_items: new required parameter lang"},
	{"now required", "- {name: title, in: query,", "- {name: title, in: query, required: true,", "! required list_items: parameter title is now required"},
	{"now optional", "required: [name]", "required: []", "optional create_item: parameter name is now optional"},
	{"parameter gone", "        - {name: title, in: query, schema: {type: string, maxLength: 40}}\n", "", "! gone list_items: parameter title is gone"},
	{"type narrowed", "price: {type: number}", "price: {type: integer}", "! narrowed create_item: parameter price is integer, and was number"},
	{"type widened", "name: {type: string}", "name: {oneOf: [{type: string}, {type: boolean}]}", "widened create_item: parameter name may also be boolean"},
	{"enum narrowed", "enum: [open, closed]", "enum: [open]", `! narrowed list_items: parameter state must not be "closed" any more`},
	{"enum widened", "enum: [open, closed]", "enum: [open, closed, all]", `widened list_items: parameter state may now be "all"`},
	{"maximum lower", "maximum: 100", "maximum: 50", "! narrowed list_items: parameter size: maximum is 50, and was 100"},
	{"maximum higher", "maximum: 100", "maximum: 200", "widened list_items: parameter size: maximum is 200, and was 100"},
	{"maximum gone", "integer, maximum: 100", "integer", "widened list_items: parameter size has no maximum any more"},
	{"length", "maxLength: 40", "maxLength: 30", "! narrowed list_items: parameter title: maxLength is 30, and was 40"},
	{"pattern", "name: {type: string}", "name: {type: string, pattern: '^a'}", `! narrowed create_item: parameter name has the pattern "^a"`},
	{"member required", "required: [w]", "required: [w, h]", "! required create_item: member h of parameter size is now required"},
	{"member new", "h: {type: integer}", "h: {type: integer}, d: {type: integer}", "optional create_item: new optional member d of parameter size"},
	{"other place", "- {name: title, in: query,", "- {name: title, in: header,", "! narrowed list_items: parameter title is now in the headers"},
	{"other body", "application/json:\n            schema:\n              type: object", "application/x-www-form-urlencoded:\n            schema:\n              type: object", "! body create_item: the body is application/x-www-form-urlencoded, and was application/json"},
	{"other answer", "\"200\": {description: x, content: {application/json: {schema: {type: array, items: {type: object}}}}}", "\"200\": {description: x, content: {text/csv: {}}}", "! answer list_items: the answer is in another format"},
	{"other server", "shop.example.com/v1", "shop.example.com/v2", `! server the server is "https://shop.example.com/v2", the file has "https://shop.example.com/v1"`},
}

func TestDiff(t *testing.T) {
	data := imported(t, shop, openapi.Options{})
	renamed := []byte(strings.NewReplacer("name: list_items\n", "name: all_items\n", "name: get_item\n", "name: one_item\n", `"operation":"list_items"`, `"operation":"all_items"`, `"operation":"get_item"`, `"operation":"one_item"`).Replace(string(data)))
	for _, e := range edits {
		edited := strings.Replace(shop, e.old, e.new, 1)
		if e.old != "" && edited == shop {
			t.Errorf("%s: nothing was edited", e.name)
		}
		if got := differences(t, data, edited); got != e.want {
			t.Errorf("%s: got\n%s\nwant\n%s", e.name, got, e.want)
		}
		// Operations that a person has renamed are compared, too.
		want := strings.NewReplacer(" list_items:", " all_items:", " get_item:", " one_item:").Replace(e.want)
		if got := differences(t, renamed, edited); got != want {
			t.Errorf("%s, renamed: got\n%s\nwant\n%s", e.name, got, want)
		}
	}
}

// TestDiffOfOwnFile compares a file that was not imported.
func TestDiffOfOwnFile(t *testing.T) {
	own := "---\nname: shop\ntype: adapter\nversion: \"1.0.0\"\ndescription: A shop, by hand\ntarget: {base_url: \"https://shop.example.com/v1\", transport: http, protocol: rest, serialization: json}\noperations:\n  read:\n" +
		"    - {name: items, maps_to: \"GET /items\", description: Items, params: {state: {type: string}, limit: {type: integer}}}\n    - {name: other, maps_to: \"GET /other\", description: Other}\n---\n"
	const want = "! gone items: parameter limit is gone\n" + `! narrowed items: parameter state must now be one of "open", "closed"` + "\noptional items: new optional parameter size\noptional items: new optional parameter title\n! gone other: the document does not have it"
	got := strings.Split(differences(t, []byte(own), shop), "\n")
	sorted := strings.Split(want, "\n")
	for _, w := range sorted {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("no %s", w)
		}
	}
	if len(got) != len(sorted) {
		t.Error(got)
	}
}

func updated(t *testing.T, data []byte, document, base string) *openapi.Updated {
	t.Helper()
	a, problems := adapterrt.Parse("shop-adapter.md", data, &adapterrt.Options{})
	if a == nil {
		t.Fatal(problems)
	}
	var old *openapi.Document
	if base != "" {
		old = parse(t, "shop.yaml", []byte(base), "")
	}
	u, err := openapi.Update(data, a, parse(t, "shop.yaml", []byte(document), ""), old, nil)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestUpdateIsImport checks that an update of a file that no person has changed has the operations of a new import.
func TestUpdateIsImport(t *testing.T) {
	data := imported(t, shop, openapi.Options{})
	for _, e := range edits {
		if e.name == "deprecated" { // a new import leaves it out
			continue
		}
		edited := strings.Replace(shop, e.old, e.new, 1)
		u := updated(t, data, edited, "")
		if len(u.Conflicts) > 0 {
			t.Errorf("%s: %v", e.name, u.Conflicts)
			continue
		}
		got, want := differences(t, u.Data, edited), ""
		if strings.HasPrefix(e.name, "renamed") {
			got = ""
		}
		if got != want {
			t.Errorf("%s: after the update:\n%s", e.name, got)
		}
		a, _ := adapterrt.Parse("shop-adapter.md", u.Data, &adapterrt.Options{})
		fresh, _ := adapterrt.Parse("shop-adapter.md", imported(t, edited, openapi.Options{}), &adapterrt.Options{})
		if a == nil || len(a.Operations) != len(fresh.Operations) {
			t.Errorf("%s: not the same operations:\n%s", e.name, u.Data)
		}
	}
}

// TestUpdateProposesFields checks that a file with proposed fields is compared and updated with them.
func TestUpdateProposesFields(t *testing.T) {
	const answer = `schema: {type: array, items: {type: object}}`
	document := strings.Replace(shop, answer, `schema: {type: array, items: {type: object, properties: {id: {type: integer}, name: {type: string}, state: {type: string}, self_url: {type: string}}}}`, 1)
	data := imported(t, document, openapi.Options{Fields: true})
	const proposed = "      supports_fields: true\n      default_fields: [id, name, state]\n"
	if !strings.Contains(string(data), proposed) {
		t.Fatalf("no fields in\n%s", data)
	}
	if bare := string(imported(t, document, openapi.Options{})); strings.Contains(bare, "fields:") {
		t.Errorf("fields without the flag in\n%s", bare)
	}
	if d := differences(t, data, document); d != "" {
		t.Errorf("differences from the same document:\n%s", d)
	}
	u := updated(t, data, strings.Replace(document, "state: {type: string}, self", "price: {type: number}, self", 1), "")
	if !strings.Contains(string(u.Data), strings.Replace(proposed, "state", "price", 1)) {
		t.Errorf("after the update (%v):\n%s", u.Conflicts, u.Data)
	}
	mine := strings.Replace(string(data), "[id, name, state]", "[id]", 1)
	u = updated(t, []byte(mine), strings.Replace(document, "Get an item", "Get one item", 1), "")
	if !strings.Contains(string(u.Data), "default_fields: [id]\n") || !strings.Contains(string(u.Data), "Get one item") {
		t.Errorf("a person's fields, after the update (%v):\n%s", u.Conflicts, u.Data)
	}
}

// TestUpdateKeepsChanges checks what becomes of a file that a person has changed, too.
func TestUpdateKeepsChanges(t *testing.T) {
	data := string(imported(t, shop, openapi.Options{}))
	change := func(pairs ...string) string {
		out := data
		for i := 0; i < len(pairs); i += 2 {
			edited := strings.Replace(out, pairs[i], pairs[i+1], 1)
			if edited == out {
				t.Fatalf("no %q in\n%s", pairs[i], out)
			}
			out = edited
		}
		return out
	}
	mine := change(`description: "List items"`, `description: "Everything in the shop" # better`, "type: bearer\n", "type: bearer\n  header: X-Token\n")
	own := change("  read:\n", "  read:\n    # by hand\n    - name: ping\n      maps_to: \"GET /ping\"\n      description: \"Ping\"\n\n")
	pruned := data[:strings.Index(data, "    - name: get_item")] + data[strings.Index(data, "  delete:"):]
	narrower := strings.Replace(shop, "maximum: 100", "maximum: 50", 1)
	other := strings.Replace(shop, "name: {type: string}", "name: {type: string, maxLength: 9}", 1)
	for name, c := range map[string]struct {
		file, document, base string
		has, hasNot          []string
		conflicts            string
	}{
		"change of an operation that the document has not changed": {mine, other, "", []string{`"Everything in the shop" # better`, "maxLength: 9", "header: X-Token"}, nil, ""},
		"changes of one operation":                                 {mine, narrower, "", nil, nil, "list_items: the operation: the file has changes of a person, the document has changes, too; with --base OLD-DOCUMENT they are merged"},
		"changes of one operation, with the base":                  {mine, narrower, shop, []string{`"Everything in the shop"`, "maximum: 50"}, []string{"maximum: 100"}, ""},
		"changes of one value":                                     {change("maximum: 100", "maximum: 80"), narrower, shop, nil, nil, "list_items: params.size.maximum: the file has 80, the document has 50"},
		"the same change":                                          {change("maximum: 100", "maximum: 50"), narrower, "", []string{"maximum: 50"}, nil, ""},
		"an operation of a person's own":                           {own, narrower, "", []string{"name: ping", "# by hand", "maximum: 50"}, nil, ""},
		"an operation that a person has removed":                   {pruned, narrower, "", []string{"maximum: 50"}, []string{"name: get_item"}, ""},
		"one that is gone, and was changed": {change(`description: "Delete an item"`, `description: "Away with it"`), strings.Replace(shop, "    delete:", "    x-delete:", 1), "", nil, nil,
			"delete_item: the operation: the file has changes of a person, the document has no such operation"},
		"one that is gone":      {data, strings.Replace(shop, "    delete:", "    x-delete:", 1), "", nil, []string{"delete_item", "  delete:"}, ""},
		"the server":            {data, strings.Replace(shop, "/v1}", "/v3}", 1), "", []string{`base_url: "https://shop.example.com/v3"`}, []string{"/v1\""}, ""},
		"the server, changed":   {change(`base_url: "https://shop.example.com/v1"`, `base_url: "https://test.example.com"`), strings.Replace(shop, "/v1}", "/v3}", 1), "", []string{`base_url: "https://test.example.com"`}, nil, ""},
		"a category of its own": {data, strings.Replace(shop, "  /items/{id}:\n", "  /items/{id}/cancel: {post: {operationId: cancelItem, parameters: [{name: id, in: path, required: true, schema: {type: string}}], responses: {\"200\": {description: x}}}}\n  /items/{id}:\n", 1), "", []string{"  execute:\n    - name: cancel_item\n"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := updated(t, []byte(c.file), c.document, c.base)
			var conflicts []string
			for _, k := range u.Conflicts {
				_, text, _ := strings.Cut(k.String(), ": ")
				conflicts = append(conflicts, text)
			}
			if d := cmp.Diff(c.conflicts, strings.Join(conflicts, "\n")); d != "" {
				t.Fatal(d)
			}
			if c.conflicts != "" {
				if u.Data != nil {
					t.Error("there is a file in spite of the conflict")
				}
				return
			}
			if a, problems := adapterrt.Parse("shop-adapter.md", u.Data, &adapterrt.Options{}); a == nil {
				t.Fatalf("%v\n%s", problems, u.Data)
			}
			text := string(u.Data)
			for _, w := range c.has {
				if !strings.Contains(text, w) {
					t.Errorf("no %s in\n%s", w, text)
				}
			}
			text, _, _ = strings.Cut(text, "\n# Shop")
			for _, w := range c.hasNot {
				if strings.Contains(text, w) {
					t.Errorf("%s in\n%s", w, text)
				}
			}
			if again := updated(t, u.Data, c.document, ""); string(again.Data) != string(u.Data) {
				t.Errorf("the second update changes something:\n%s", cmp.Diff(string(u.Data), string(again.Data)))
			}
		})
	}
}

// TestDeprecatedOperationsDecideNothing: what was left out of a file, because it is deprecated, has no say in what an update and a
// comparison make of the rest.
func TestDeprecatedOperationsDecideNothing(t *testing.T) {
	const old = `openapi: 3.0.0
info: {title: Shop, version: "1"}
servers: [{url: https://shop.example.com/v1}]
paths:
  /items:
    get: {operationId: listItems, summary: List, security: [{key: []}], parameters: [{name: token, in: query, description: The access token, schema: {type: string}}], responses: {"200": {description: x}}}
  /old/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: getOld, deprecated: true, summary: Old, security: [{other: []}], responses: {"200": {description: x}}}
    put: {operationId: putOld, deprecated: true, summary: Old, security: [{other: []}], responses: {"200": {description: x}}}
    delete: {operationId: deleteOld, deprecated: true, summary: Old, security: [{other: []}], responses: {"204": {description: x}}}
components:
  securitySchemes: {key: {type: http, scheme: bearer}, other: {type: apiKey, in: header, name: X-Key}}
`
	data := imported(t, old, openapi.Options{})
	if diff := cmp.Diff(string(data), string(updated(t, data, old, "").Data)); diff != "" {
		t.Error(diff)
	}
	if got := differences(t, data, old); got != "" {
		t.Error(got)
	}
	// What the file has stays when it is deprecated, even if all of it is.
	now := strings.Replace(old, "operationId: listItems,", "operationId: listItems, deprecated: true,", 1)
	if got := differences(t, data, now); !strings.Contains(got, "is deprecated") || strings.Contains(got, "gone") {
		t.Error(got)
	}
	if got := string(updated(t, data, now, "").Data); !strings.Contains(got, "deprecated: {}") || strings.Contains(got, "get_old") {
		t.Error(got)
	}
}

// TestAnotherHostIsSaid: a document that sends an operation, and so the credential, to another host does it in no silence.
func TestAnotherHostIsSaid(t *testing.T) {
	data := imported(t, shop, openapi.Options{})
	moved := strings.Replace(shop, "  /items/{id}:\n", "  /items/{id}:\n    servers: [{url: https://other.example.net}]\n", 1)
	u := updated(t, data, moved, "")
	for _, said := range []string{
		"changed get_item (GET https://other.example.net/items/{id})", "note: get_item is now sent to https://other.example.net, and so is the credential: check it",
	} {
		if !strings.Contains(strings.Join(u.Lines, "\n"), said) {
			t.Errorf("%q is not in %q", said, u.Lines)
		}
	}
	if got, want := differences(t, data, moved), "is now GET https://other.example.net/items/{id}"; !strings.Contains(got, want) {
		t.Errorf("%q is not in %s", want, got)
	}
	if got, want := differences(t, u.Data, shop), "is now GET /items/{id} at target.base_url"; !strings.Contains(got, want) {
		t.Errorf("%q is not in %s", want, got)
	}
	again := updated(t, u.Data, strings.Replace(moved, "summary: Get an item", "summary: Get it", 1), "")
	if got := strings.Join(again.Lines, "\n"); !strings.Contains(got, "changed get_item") || strings.Contains(got, "note") {
		t.Error(got)
	}
}
