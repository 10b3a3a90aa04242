package adapterrt

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const graphOps = `
read:
- name: get_issue
  maps_to: POST /graphql
  description: Get an issue
  query: |
    query Issue($id: String!, $n: Int) { issue(id: $id) { id title } }
  variables: {kind: fixed}
  result_path: data.issue
  params: {id: {type: string, required: true}, n: {type: integer}}
- {name: viewer, maps_to: POST /graphql, description: V, query: "{ viewer { id } }"}
create:
- {name: create_issue, maps_to: POST /graphql, description: C, query: "mutation($t: String!) { issueCreate(title: $t) { success } }", params: {t: {type: string, required: true}}}`

func graphFront(base, ops string) string {
	return strings.Replace(front(base, ops), "protocol: rest", "protocol: graphql", 1)
}

func TestGraphQL(t *testing.T) {
	var body, answer string
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " + string(b)
		io.WriteString(w, answer)
	})
	rt := start(t, Options{}, map[string]string{"test-api-adapter.md": graphFront(s.URL, graphOps)})
	const get = `{"operation":"get_issue","params":{"id":"I-1","n":null}}`
	for _, c := range [][3]string{
		{get, `{"data":{"issue":{"id": "I-1"}}}`, `{"success":true,"data":{"id": "I-1"}}`},
		{get, `{"data":{"issue":null}}`, `{"success":true,"data":null}`},
		{get, `{"data":{"issue":{"id":1}},"errors":[{"message":"slow title"}]}`, `{"success":true,"data":{"id":1},"warnings":[{"code":"UPSTREAM_PARTIAL_ERROR","message":"The answer is not complete","details":{"upstream_error":"slow title","operation":"get_issue"},"severity":"high"}]}`},
		{get, `{"errors":[{"message":"no","extensions":{"code":"UNAUTHENTICATED"}}]}`, `{"success":false,"error":{"code":"PERMISSION_DENIED","message":"Authentication required: no","details":{"upstream_error":"no","operation":"get_issue","http_status":200}}}`},
		{get, `{"data":null,"errors":[{"message":"no","extensions":{"code":"FORBIDDEN"}}]}`, `{"success":false,"error":{"code":"PERMISSION_DENIED","message":"Permission denied: no","details":{"upstream_error":"no","operation":"get_issue","http_status":200}}}`},
		{get, `{"errors":[{"message":"no"},{"message":"slower","extensions":{"code":"RATELIMITED"}}]}`, `{"success":false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded: no; slower","details":{"upstream_error":"no; slower","operation":"get_issue","http_status":200}}}`},
		{get, `{"errors":[{"message":"Cannot query field"}]}`, `{"success":false,"error":{"code":"VALIDATION_INVALID_TYPE","message":"Invalid request: Cannot query field","details":{"upstream_error":"Cannot query field","operation":"get_issue","http_status":200}}}`},
		{get, `[]`, `{"success":true,"data":null}`},
		{`{"operation":"viewer"}`, `{"data":{"viewer":{"id":1}},"errors":[]}`, `{"success":true,"data":{"viewer":{"id":1}}}`},
	} {
		answer = c[1]
		if got := ask(rt, Endpoint{}, c[0]); got != c[2] {
			t.Errorf("%s\n got %s\nwant %s", c[1], got, c[2])
		}
	}
	ask(rt, Endpoint{}, get)
	if want := `POST /graphql application/json {"query":"query Issue($id: String!, $n: Int) { issue(id: $id) { id title } }\n","variables":{"kind":"fixed","id":"I-1","n":null}}`; body != want {
		t.Errorf("\n got %s\nwant %s", body, want)
	}
	ask(rt, Endpoint{}, `{"operation":"viewer"}`)
	if want := `POST /graphql application/json {"query":"{ viewer { id } }","variables":{}}`; body != want {
		t.Error(body)
	}
}

// TestGraphQLErrorStatus shows that the code of a GraphQL error counts before the HTTP
// status, because some APIs send rate limits with status 400.
func TestGraphQLErrorStatus(t *testing.T) {
	for code, want := range map[string]string{
		"RATELIMITED":               `"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded: no"`,
		"AUTHENTICATION_ERROR":      `"PERMISSION_DENIED","message":"Authentication required: no"`,
		"GRAPHQL_VALIDATION_FAILED": `"VALIDATION_INVALID_TYPE","message":"Invalid request: no"`,
	} {
		s := api(t, say(400, "application/json", `{"errors":[{"message":"no","extensions":{"code":"`+code+`"}}]}`))
		rt := start(t, Options{}, map[string]string{"test-api-adapter.md": graphFront(s.URL, graphOps)})
		if got := ask(rt, Endpoint{}, `{"operation":"viewer"}`); !strings.Contains(got, want) || !strings.Contains(got, `"http_status":400`) {
			t.Errorf("%s: %s", code, got)
		}
	}
}

func TestGraphQLMistakes(t *testing.T) {
	for old, repl := range map[string]string{
		`"{ viewer { id } }"`:  `"mutation { drop }"`,
		`query: "{ viewer`:     `document: "{ viewer`,
		`"{ viewer { id } }" `: `"fragment F on X { id }" `,
		`"{ viewer { id } }"}`: `"query A { a } mutation B { b }"}`,
		`"mutation($t`:         `"subscription($t`,
		`{kind: fixed}`:        `{id: fixed}`,
		"POST /graphql\n":      "GET /graphql\n",
	} {
		text := strings.Replace(graphOps, strings.TrimSpace(old), strings.TrimSpace(repl), 1)
		if strings.HasSuffix(old, "\n") {
			text = strings.Replace(graphOps, old, repl, 1)
		}
		if a, _ := Parse("test-api-adapter.md", []byte(graphFront("https://api.example.com", text)), &Options{}); a != nil || text == graphOps {
			t.Error(repl, "passed")
		}
	}
	if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", graphOps)), &Options{}); a != nil {
		t.Error("a document of an API that is not GraphQL passed")
	}
}

// TestGraphQLVariablesMatchTheDocument shows that loading a file reports a parameter that
// the document declares no variable for, and a required variable without a parameter.
func TestGraphQLVariablesMatchTheDocument(t *testing.T) {
	ops := `
read:
- {name: one, maps_to: POST /graphql, description: O, query: "query($id: ID!, $must: Int!, $may: Int) { a(id: $id) }", variables: {odd: 1}, params: {id: {type: string, required: true}, late: {type: string}}}
- {name: two, maps_to: POST /graphql, description: T, query: "query($first: Int) { a }", pagination: {style: cursor, param_name: after, per_page_param: first, items_path: nodes, next_path: pageInfo.endCursor}}`
	text := graphFront("https://api.example.com", ops)
	a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
	var got []string
	for _, p := range problems {
		got = append(got, p.Path+": "+p.Message)
	}
	want := []string{
		"operations.read[0].params.late: the document declares no variable $late",
		"operations.read[0].variables.odd: the document declares no variable $odd",
		"operations.read[0].query: variable $must is required and no parameter gives it",
		"operations.read[1].params.after: the document declares no variable $after",
	}
	slices.Sort(got)
	slices.Sort(want)
	if a == nil || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if a, _ := Parse("test-api-adapter.md", []byte(text), &Options{StrictFiles: true}); a != nil {
		t.Error("strict takes it")
	}
}

func TestGraphQLPages(t *testing.T) {
	var bodies []string
	answer := `{"data":{"issues":{"nodes":[{"id":1}],"pageInfo":{"endCursor":"c-2"}}}}`
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(b[strings.Index(string(b), `"variables"`):]))
		io.WriteString(w, answer)
	})
	rt := start(t, Options{}, map[string]string{"test-api-adapter.md": graphFront(s.URL, `
read:
- {name: list, maps_to: POST /graphql, description: L, query: "query($first: Int, $after: String) { issues }", result_path: data.issues, pagination: {style: cursor, param_name: after, per_page_param: first, items_path: nodes, next_path: pageInfo.endCursor}}`)})
	p := getPage(t, rt, "list", `{"first":2}`)
	if !p.Data.PageInfo.HasNextPage || len(p.Data.Items) != 1 {
		t.Fatalf("%+v", p)
	}
	getPage(t, rt, "list", `{"first":2,"after":"`+*p.Data.PageInfo.EndCursor+`"}`)
	answer = `{"data":{"issues":{"nodes":[{"id":1}],"pageInfo":{"hasNextPage":false,"endCursor":"c-3"}}}}`
	if p := getPage(t, rt, "list", `{"first":2}`); p.Data.PageInfo.HasNextPage || p.Data.PageInfo.EndCursor != nil {
		t.Errorf("the last page of a connection is not its last: %+v", p)
	}
	bodies = bodies[:2]
	if strings.Join(bodies, " ") != `"variables":{"first":2}} "variables":{"after":"c-2","first":2}}` {
		t.Error(bodies)
	}
}
