package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

const pets = `openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: https://pets.example.com/v1}]
security: [{token: []}]
paths:
  /accounts/{accountId}/pets:
    parameters: [{name: accountId, in: path, required: true, schema: {type: string}}]
    get:
      operationId: listPets
      summary: List pets
      parameters:
        - {name: page, in: query, schema: {type: integer}}
        - {name: limit, in: query, schema: {type: integer, maximum: 100}}
        - {name: states, in: query, explode: false, schema: {type: array, items: {type: string, enum: [new, sold]}}}
        - {name: X-Version, in: header, required: true, schema: {type: string}}
        - {name: debug, in: query, schema: {type: boolean}}
        - {name: key, in: query, schema: {type: string}}
        - {name: passphrase, in: query, schema: {type: string}}
      responses: {"200": {description: x, content: {application/json: {schema: {type: array, items: {type: object}}}}}}
    post:
      operationId: create-Pet
      summary: Create a pet
      requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name, owner], properties: {name: {type: string}, accountId: {type: integer}, owner: {type: object, properties: {id: {type: integer}}}, debug: {type: boolean}}}}}}
      responses: {"201": {description: x}}
  /notes: {post: {operationId: addNote, summary: Add a note, requestBody: {content: {text/plain: {schema: {type: string}}}}, responses: {"201": {description: x}}}}
components:
  securitySchemes:
    token: {type: http, scheme: bearer}
    password: {type: http, scheme: basic}
    key: {type: apiKey, in: query, name: key}
    tenant: {type: apiKey, in: header, name: X-Tenant}
    login: {type: oauth2, flows: {clientCredentials: {tokenUrl: "https://login.example.com/token", scopes: {a: A, b: B}}}}
`

// operationOf returns the text of an operation in a file, or "" if there is none of the name.
func operationOf(text, name string) string {
	_, rest, found := strings.Cut(text, "    - name: "+name+"\n")
	if !found {
		return ""
	}
	for _, end := range []string{"\n    - name: ", "\n\n"} {
		rest, _, _ = strings.Cut(rest, end)
	}
	return rest
}

// TestChoices: parameters are left out or fixed, and operations and credentials called, as a person has decided. The file is
// valid, its examples pass, and an update with the same document changes nothing.
func TestChoices(t *testing.T) {
	for name, c := range map[string]struct {
		opt       openapi.Options
		operation string
		want, not []string
	}{
		"omit":                      {openapi.Options{Omit: []string{"debug"}}, "list_pets", []string{"limit"}, []string{"debug"}},
		"omit in a body":            {openapi.Options{Omit: []string{"debug"}}, "create_pet", []string{"owner"}, []string{"debug"}},
		"omit in one operation":     {openapi.Options{Omit: []string{"listPets.debug"}}, "create_pet", []string{"debug: {type: boolean}"}, nil},
		"omit by the file's names":  {openapi.Options{Omit: []string{"list_pets.debug"}}, "list_pets", nil, []string{"debug"}},
		"omit a position":           {openapi.Options{Omit: []string{"page"}}, "list_pets", []string{"limit: {"}, []string{"page", "pagination"}},
		"omit a whole body":         {openapi.Options{Omit: []string{"body"}}, "add_note", nil, []string{"request", "params"}},
		"fix in the path":           {openapi.Options{Set: map[string]string{"accountId": "a 1"}}, "list_pets", []string{`account_id: {type: string, hidden: true, default: "a 1"}`}, nil},
		"a name of the file first":  {openapi.Options{Set: map[string]string{"account_id": "7"}}, "create_pet", []string{`account_id: {type: string, hidden: true, default: "7"}`, `body_account_id: {type: integer, wire_name: accountId}`}, nil},
		"the member of the body":    {openapi.Options{Set: map[string]string{"body_account_id": "7"}}, "create_pet", []string{`account_id: {type: string, required: true}`, `body_account_id: {type: integer, wire_name: accountId, hidden: true, default: 7}`}, nil},
		"fix a required header":     {openapi.Options{Set: map[string]string{"X-Version": "2"}}, "list_pets", []string{`x_version: {type: string, wire_name: X-Version, in: header, hidden: true, default: "2"}`}, nil},
		"fix the size of pages":     {openapi.Options{Set: map[string]string{"limit": "50"}}, "list_pets", []string{`limit: {type: integer, maximum: 100, hidden: true, default: 50}`, "page: {type: integer}"}, []string{"pagination"}},
		"fix a list by commas":      {openapi.Options{Set: map[string]string{"states": "new, sold"}}, "list_pets", []string{`hidden: true, default: [new, sold]`}, nil},
		"fix a list by JSON":        {openapi.Options{Set: map[string]string{"states": `["sold"]`}}, "list_pets", []string{`hidden: true, default: [sold]`}, nil},
		"fix a truth value":         {openapi.Options{Set: map[string]string{"debug": "false"}}, "list_pets", []string{`debug: {type: boolean, hidden: true, default: false}`}, nil},
		"fix an object":             {openapi.Options{Set: map[string]string{"owner": `{"id":7}`}}, "create_pet", []string{"hidden: true", `default: {id: 7}`}, []string{"owner: {type: object, required"}},
		"fix a text like a number":  {openapi.Options{Set: map[string]string{"name": "007"}}, "create_pet", []string{`hidden: true, default: "007"`}, nil},
		"fix a text like JSON":      {openapi.Options{Set: map[string]string{"name": `"Rex"`}}, "create_pet", []string{`default: "\"Rex\""`}, nil},
		"fix an empty text":         {openapi.Options{Set: map[string]string{"name": ""}}, "create_pet", []string{`hidden: true, default: ""`}, nil},
		"fix in one, omit in all":   {openapi.Options{Set: map[string]string{"listPets.debug": "true"}, Omit: []string{"debug"}}, "list_pets", []string{`debug: {type: boolean, hidden: true, default: true}`}, nil},
		"fix one of all":            {openapi.Options{Set: map[string]string{"debug": "true", "create-Pet.debug": "false"}}, "create_pet", []string{`debug: {type: boolean, hidden: true, default: false}`}, nil},
		"operationId":               {openapi.Options{Names: openapi.NamesID}, "list_pets", []string{"tool_name: listPets\n"}, nil},
		"operationId with a hyphen": {openapi.Options{Names: openapi.NamesID}, "create_pet", []string{"tool_name: create-Pet\n"}, nil},
		"snake_case":                {openapi.Options{Names: openapi.NamesSnake}, "list_pets", nil, []string{"tool_name"}},
		"a scheme":                  {openapi.Options{Auth: "password"}, "", []string{"auth:\n  type: basic\n  username_env: SHOP_USERNAME"}, []string{"another way"}},
		"a key in the query":        {openapi.Options{Auth: "key"}, "", []string{"auth:\n  type: api_key\n  in: query\n  query_name: key\n"}, []string{"        key: {type: string}"}},
		"two schemes":               {openapi.Options{Auth: "token,tenant"}, "", []string{"auth:\n  type: bearer\n  token_env: SHOP_TOKEN\n  also:\n    - {type: api_key, header_name: X-Tenant"}, nil},
		"none":                      {openapi.Options{Auth: "none"}, "", []string{"auth:\n  type: none\n"}, nil},
		"a header":                  {openapi.Options{Auth: "header:X-Version"}, "list_pets", []string{"limit"}, []string{"x_version"}},
		"bearer":                    {openapi.Options{Auth: "bearer"}, "", []string{"auth:\n  type: bearer\n  token_env: SHOP_TOKEN"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			data := imported(t, pets, c.opt)
			if played(t, "shop-adapter.md", data) == 0 {
				t.Error("no examples")
			}
			text := string(data)
			if c.operation != "" {
				text = operationOf(text, c.operation)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, not := range c.not {
				if strings.Contains(text, not) {
					t.Errorf("%q in\n%s", not, text)
				}
			}
			if u := updated(t, data, pets, ""); string(u.Data) != string(data) {
				t.Errorf("an update with the same document changes %v:\n%s", u.Lines, u.Data)
			}
			if d := differences(t, data, pets); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestChosenLogin: a login by OAuth that a person has chosen asks for the scopes of the operations that need it.
func TestChosenLogin(t *testing.T) {
	document := strings.Replace(pets, "summary: Add a note,", "summary: Add a note, security: [{login: [a]}, {token: []}],", 1)
	in, err := parse(t, "d", []byte(document), "").Import(openapi.Options{Auth: "login"})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(in.Files[0].Front()); !strings.Contains(text, "auth:\n  type: oauth\n  grant: client_credentials") || !strings.Contains(text, "  scopes: [a]\n") {
		t.Error(text)
	}
}

// TestChoicesThatCannotBe: a choice about nothing, or that cannot be carried out, is an error that says what there is.
func TestChoicesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		opt  openapi.Options
		want string
	}{
		"an unknown parameter": {openapi.Options{Omit: []string{"limti"}}, "--omit-param limti: no operation has this parameter; did you mean limit?"},
		"another spelling":     {openapi.Options{Set: map[string]string{"account-id": "1"}}, "--set-param account-id: no operation has this parameter; did you mean accountId or account_id?"},
		"nothing near":         {openapi.Options{Omit: []string{"zzzzzzzzzzzz"}}, "--omit-param zzzzzzzzzzzz: no operation has this parameter"},
		"of another operation": {openapi.Options{Omit: []string{"create-Pet.limit"}}, "--omit-param create-Pet.limit: no operation has this parameter"},
		"a required one":       {openapi.Options{Omit: []string{"X-Version"}}, "--omit-param X-Version: list_pets requires it: give it a value with --set-param X-Version=VALUE"},
		"one in the path":      {openapi.Options{Omit: []string{"listPets.accountId"}}, "--omit-param listPets.accountId: list_pets requires it: give it a value with --set-param listPets.accountId=VALUE"},
		"a text for a number":  {openapi.Options{Set: map[string]string{"limit": "many"}}, "--set-param limit=many: limit of list_pets: the value must be of type integer"},
		"too large":            {openapi.Options{Set: map[string]string{"limit": "200"}}, "--set-param limit=200: limit of list_pets: "},
		"no value of the list": {openapi.Options{Set: map[string]string{"states": "new,old"}}, "--set-param states=new,old: states of list_pets: "},
		"a broken object":      {openapi.Options{Set: map[string]string{"owner": "{"}}, "--set-param owner={: owner of create_pet: the value must be of type object"},
		"dots in the path":     {openapi.Options{Set: map[string]string{"accountId": "../x"}}, "--set-param accountId=../x: account_id of create_pet: the value cannot be sent in the path"},
		"a credential":         {openapi.Options{Set: map[string]string{"X-Version": "ghp_" + strings.Repeat("a1B2", 9)}}, "--set-param X-Version: this looks like a credential, whose value a file must not hold: name it with --auth"},
		"a name for secrets":   {openapi.Options{Set: map[string]string{"passphrase": "abc"}}, "--set-param passphrase: this looks like a credential"},
		"a scheme":             {openapi.Options{Auth: "tokn"}, "--auth tokn: the document has no security scheme of this name; did you mean token? (it has token, password, key, tenant, login; without one: none, bearer, basic, header:NAME or query:NAME)"},
		"two in one place":     {openapi.Options{Auth: "token,password"}, "--auth token,password: two credentials in one place, or two of OAuth"},
		"a bad header":         {openapi.Options{Auth: "header:Host"}, "--auth header:Host: the document has no security scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, "d", []byte(pets), "").Import(c.opt)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestUpdateMakesTheChoicesAgain: choices that the file has recorded are made again, also by hand, and for what is new.
func TestUpdateMakesTheChoicesAgain(t *testing.T) {
	opt := openapi.Options{Omit: []string{"debug"}, Set: map[string]string{"accountId": "7", "limit": "50", "x.y": `a "b": c`}, Auth: "token", Names: openapi.NamesID}
	opt.Set = map[string]string{"accountId": `a "b": c`, "limit": "50"}
	data := imported(t, pets, opt)
	if !strings.Contains(string(data), `selection: {omit_params: ["debug"], set_params: {accountId: "a \"b\": c", limit: "50"}, auth: "token", names: operationId, output_schema: true}`) {
		t.Errorf("the file does not record the choices:\n%s", data)
	}
	const more = `  /accounts/{accountId}/cats:
    get:
      operationId: listCats
      summary: List cats
      parameters: [{name: accountId, in: path, required: true, schema: {type: string}}, {name: debug, in: query, schema: {type: boolean}}, {name: limit, in: query, schema: {type: integer}}]
      responses: {"200": {description: x}}
components:
`
	next := strings.Replace(strings.Replace(pets, "components:\n", more, 1), "summary: List pets", "summary: List all pets", 1)
	u := updated(t, data, next, "")
	for operation, want := range map[string][]string{
		"list_pets": {"tool_name: listPets\n", "List all pets", `account_id: {type: string, hidden: true, default: "a \"b\": c"}`, "hidden: true, default: 50"},
		"list_cats": {"tool_name: listCats\n", `account_id: {type: string, hidden: true, default: "a \"b\": c"}`, "limit: {type: integer, hidden: true, default: 50}"},
	} {
		text := operationOf(string(u.Data), operation)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in %s:\n%s", w, operation, text)
			}
		}
		if strings.Contains(text, "debug") {
			t.Errorf("%s:\n%s", operation, text)
		}
	}
	// A choice that a person adds to the file.
	edited := strings.Replace(string(data), `omit_params: ["debug"]`, `omit_params: [debug, states]`, 1)
	if u = updated(t, []byte(edited), pets, ""); strings.Contains(operationOf(string(u.Data), "list_pets"), "states") || !slices.Contains(u.Changed, "list_pets") {
		t.Errorf("%v\n%s", u.Lines, u.Data)
	}
	// The document has lost a parameter, and a scheme.
	lost := strings.Replace(strings.ReplaceAll(pets, "debug", "verbose"), "token:", "jwt:", 1)
	lost = strings.Replace(lost, "token: []", "jwt: []", 1)
	if u = updated(t, data, lost, ""); !strings.Contains(operationOf(string(u.Data), "list_pets"), "verbose") {
		t.Errorf("%s", u.Data)
	}
	// Keys that a person has written into operations stay.
	mine := strings.Replace(string(data), "states: {type: array,", "states: {hidden: true, default: [new], type: array,", 1)
	mine = strings.Replace(mine, "tool_name: listPets", "tool_name: allPets", 1)
	if u = updated(t, []byte(mine), strings.Replace(next, "summary: List all pets", "summary: List pets", 1), ""); !strings.Contains(string(u.Data), "states: {hidden: true, default: [new]") || !strings.Contains(string(u.Data), "tool_name: allPets") || !strings.Contains(string(u.Data), "listCats") {
		t.Errorf("%s", u.Data)
	}
	if u = updated(t, []byte(mine), next, pets); !strings.Contains(operationOf(string(u.Data), "list_pets"), "hidden: true, default: [new]") || !strings.Contains(string(u.Data), "tool_name: allPets") || !strings.Contains(string(u.Data), "List all pets") {
		t.Errorf("%s", u.Data)
	}
	// A new operation whose tool has the name of one in the file.
	taken := strings.Replace(string(data), "name: list_pets", "name: listcats", 1)
	taken = strings.Replace(taken, "tool_name: listPets", "tool_name: listCats", 1)
	u = updated(t, []byte(taken), strings.Replace(next, "List all pets", "List pets", 1), "")
	if a, problems := adapterrt.Parse("shop-adapter.md", u.Data, &adapterrt.Options{}); a == nil {
		t.Error(problems)
	}
}

// TestAdviceForTools reads x-mcp as others do: the operation's own comes before that of its path, and that before the document's.
func TestAdviceForTools(t *testing.T) {
	op := func(id, more string) string {
		return `{operationId: ` + id + `, summary: Summary, ` + more + ` responses: {"200": {description: x}}}`
	}
	doc := func(root, paths string) string {
		return "openapi: 3.1.0\ninfo: {title: T, version: '1'}\nservers: [{url: 'https://x.example.com'}]\n" + root + "\npaths: {" + paths + "}\n"
	}
	for name, c := range map[string]struct {
		document string
		opt      openapi.Options
		want     string // the names and tools
		left     int
	}{
		"nothing said":                {doc("", "/a: {get: "+op("a", "")+"}"), openapi.Options{}, "a", 0},
		"one is disabled":             {doc("", "/a: {get: "+op("a", "x-mcp: {disabled: true},")+", put: "+op("b", "")+"}"), openapi.Options{}, "b", 1},
		"false":                       {doc("", "/a: {get: "+op("a", "x-mcp: false,")+", put: "+op("b", "x-mcp: true,")+"}"), openapi.Options{}, "b", 1},
		"a text":                      {doc("", "/a: {get: "+op("a", "x-mcp: 'False',")+", put: "+op("b", "x-mcp: yes please,")+"}"), openapi.Options{}, "b", 1},
		"enabled: false, skip: true":  {doc("", "/a: {get: "+op("a", "x-mcp: {enabled: false},")+", put: "+op("b", "x-mcp: {skip: true},")+", post: "+op("c", "x-mcp: {enabled: true},")+"}"), openapi.Options{}, "c", 2},
		"the path, and one of it":     {doc("", "/a: {x-mcp: false, get: "+op("a", "")+", put: "+op("b", "x-mcp: true,")+"}, /c: {get: "+op("c", "")+"}"), openapi.Options{}, "b c", 1},
		"the document, and a path":    {doc("x-mcp: {disabled: true}", "/a: {get: "+op("a", "")+"}, /b: {x-mcp: {disabled: false}, get: "+op("b", "")+"}"), openapi.Options{}, "b", 1},
		"a description of a server":   {doc("x-mcp: {protocolVersion: '2025-06-18', tools: [{name: x}]}", "/a: {get: "+op("a", "")+"}"), openapi.Options{}, "a", 0},
		"a name":                      {doc("", "/a: {get: "+op("a", "x-mcp: {name: find_things, description: Find all things},")+"}"), openapi.Options{}, "find_things", 0},
		"a name, selected":            {doc("", "/a: {get: "+op("a", "x-mcp: {name: find_things},")+", put: "+op("b", "")+"}"), openapi.Options{Include: []string{"op:find_*"}}, "find_things", 0},
		"a name for tools":            {doc("", "/a: {get: "+op("a", "x-speakeasy-mcp: {name: create-product, description: Find all things},")+"}"), openapi.Options{}, "create_product=create-product", 0},
		"a name, and operationId":     {doc("", "/a: {get: "+op("getA", "x-mcp: {name: find_things},")+"}"), openapi.Options{Names: openapi.NamesID}, "find_things=getA", 0},
		"a name twice":                {doc("", "/a: {get: "+op("a", "x-mcp: {name: findThing},")+", put: "+op("b", "x-mcp: {name: findThing},")+"}"), openapi.Options{}, "find_thing=findThing put_find_thing", 0},
		"no name":                     {doc("", "/a: {get: "+op("a", "x-mcp: {name: '日本', scopes: 3, disabled: {}},")+"}"), openapi.Options{}, "a", 0},
		"a long name":                 {doc("", "/a: {get: "+op("a", "x-mcp: {name: A"+strings.Repeat("b", 80)+"},")+"}"), openapi.Options{}, "a" + strings.Repeat("b", 63), 0},
		"a scope":                     {doc("", "/a: {get: "+op("a", "x-mcp: {scopes: [read, all]},")+", put: "+op("b", "x-mcp: {scopes: [write]},")+"}"), openapi.Options{Include: []string{"scope:re*"}}, "a", 0},
		"a scope of a path":           {doc("x-mcp: {scopes: [c]}", "/a: {x-mcp: {scopes: [b]}, get: "+op("a", "x-mcp: {scopes: [a]},")+", put: "+op("b", "")+"}, /c: {get: "+op("c", "")+"}"), openapi.Options{Exclude: []string{"scope:b"}}, "a c", 0},
		"a name that a tag begins":    {doc("", "/a: {get: "+op("a", "tags: [pets], x-mcp: {name: pets_of_all},")+"}"), openapi.Options{}, "pets_of_all", 0},
		"operationIds of other kinds": {doc("", "/a: {get: "+op("pulls/list-files", "")+", put: "+op("1st", "")+", post: "+op("introspect", "")+"}"), openapi.Options{Names: openapi.NamesID}, "pulls_list_files=pulls_list-files put_1st=1st introspect_operation", 0},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := parse(t, "d", []byte(c.document), "").Import(c.opt)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			text := string(in.Files[0].Front())
			for line := range strings.Lines(text) {
				if name, ok := strings.CutPrefix(line, "    - name: "); ok {
					got = append(got, strings.TrimSpace(name))
				} else if tool, ok := strings.CutPrefix(line, "      tool_name: "); ok {
					got[len(got)-1] += "=" + strings.Trim(strings.TrimSpace(tool), `"`)
				}
			}
			want := strings.Fields(c.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) || in.Left["operation, which x-mcp leaves out"] != c.left {
				t.Errorf("got %q and %v, want %q\n%s", got, in.Left, want, text)
			}
			if strings.Contains(c.document, "Find all things") && !strings.Contains(text, `description: "Find all things"`) {
				t.Errorf("it has another description:\n%s", text)
			}
			if a, problems := adapterrt.Parse("", in.Files[0].Front(), &adapterrt.Options{}); a == nil {
				t.Error(problems)
			}
		})
	}
	if _, err := parse(t, "d", []byte(doc("x-mcp: false", "/a: {get: "+op("a", "")+"}")), "").Import(openapi.Options{}); err == nil || !strings.Contains(err.Error(), "x-mcp") {
		t.Error(err)
	}
}

// TestDiffOfFixedParameters: a change of the document for a parameter that the file fixes is reported if its value may not fit any
// more, and not because it is hidden.
func TestDiffOfFixedParameters(t *testing.T) {
	byFlag := imported(t, pets, openapi.Options{Set: map[string]string{"limit": "50", "X-Version": "2"}})
	byHand := strings.Replace(string(imported(t, pets, openapi.Options{})), "x_version: {type: string, required: true,", "x_version: {type: string, required: true, hidden: true, default: \"2\",", 1)
	for name, c := range map[string]struct{ data, old, new, want string }{
		"nothing":                 {string(byFlag), "", "", ""},
		"nothing, by hand":        {byHand, "", "", ""},
		"another sentence":        {byHand, "summary: List pets", "summary: List all pets", ""},
		"it is gone":              {string(byFlag), "        - {name: X-Version, in: header, required: true, schema: {type: string}}\n", "", "! gone list_pets: parameter x_version is gone"},
		"it is gone, by hand":     {byHand, "        - {name: X-Version, in: header, required: true, schema: {type: string}}\n", "", "! gone list_pets: parameter x_version is gone"},
		"it is required no more":  {byHand, "in: header, required: true,", "in: header,", ""},
		"it must be one of a few": {byHand, "in: header, required: true, schema: {type: string}", "in: header, required: true, schema: {type: string, enum: ['3']}", "! narrowed list_pets: parameter x_version must now be one of \"3\""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimSpace(differences(t, []byte(c.data), strings.Replace(pets, c.old, c.new, 1))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	// A recorded value that the document does not allow any more cannot be imported: a person must choose again what is sent.
	a, _ := adapterrt.Parse("shop-adapter.md", byFlag, &adapterrt.Options{})
	next := parse(t, "shop.yaml", []byte(strings.Replace(pets, "maximum: 100", "maximum: 40", 1)), "")
	const want = "set_params in x-source: limit=50: limit of list_pets: must be <= 40"
	if _, err := openapi.Update(byFlag, a, next, nil, nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
