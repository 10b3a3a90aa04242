package adapterrt

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// listAPI serves 7 items with the four styles of paging, and records each query.
func listAPI(t *testing.T) (*httptest.Server, *[]string) {
	const all = 7
	var queries []string
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		queries = append(queries, r.URL.RawQuery)
		size, _ := strconv.Atoi(q.Get("size"))
		if size == 0 {
			size = 3
		}
		from := 0
		switch r.URL.Path {
		case "/page", "/link":
			n, _ := strconv.Atoi(q.Get("page"))
			from = max(n-1, 0) * size
		case "/offset":
			from, _ = strconv.Atoi(q.Get("offset"))
		case "/cursor":
			from, _ = strconv.Atoi(strings.TrimPrefix(q.Get("cursor"), "c"))
		}
		items := []string{}
		for i := from; i < min(from+size, all); i++ {
			items = append(items, fmt.Sprintf(`{"id": %d,"name":"n%d","user":{"login":"u","id":1}}`, i, i))
		}
		list := "[" + strings.Join(items, ",") + "]"
		switch r.URL.Path {
		case "/cursor":
			next := "null"
			if from+size < all {
				next = fmt.Sprintf(`"c%d"`, from+size)
			}
			fmt.Fprintf(w, `{"data":{"rows":%s},"next":%s}`, list, next)
		case "/offset":
			fmt.Fprintf(w, `{"rows":%s,"total":%d}`, list, all)
		case "/link":
			if from+size < all {
				page := max(from/size, 0) + 2
				w.Header().Add("Link", fmt.Sprintf(`<http://%s/elsewhere?page=1>; rel="first", <http://%s/elsewhere?page=%d&size=%d&key=tok-en>; title="a, b"; rel="x next"`, r.Host, r.Host, page, size))
			}
			fmt.Fprint(w, list)
		default:
			fmt.Fprint(w, list)
		}
	})
	return s, &queries
}

const listOps = `
read:
- {name: by_page, maps_to: GET /page, description: P, params: {q: {type: string}, page: {type: integer, default: 1}}, pagination: {style: page, param_name: page, per_page_param: size, default_limit: 2, max_limit: 4}}
- {name: by_offset, maps_to: GET /offset, description: O, pagination: {style: offset, param_name: offset, per_page_param: size, items_path: rows, total_path: total}}
- {name: by_cursor, maps_to: GET /cursor, description: C, pagination: {style: cursor, param_name: cursor, per_page_param: size, items_path: data.rows, next_path: next}}
- {name: by_link, maps_to: "GET /link?x=1", description: L, params: {q: {type: string}}, pagination: {style: link_header, per_page_param: size}}
- {name: many, maps_to: GET /cursor, description: M, pagination: {style: cursor, param_name: cursor, per_page_param: size, items_path: data.rows, next_path: next, max_pages: 3}}`

type paged struct {
	Success bool
	Data    struct {
		Items    []struct{ ID int }
		PageInfo struct {
			HasNextPage, HasPreviousPage bool
			StartCursor, EndCursor       *string
			TotalCount                   *int
		}
	}
	Error struct{ Code, Message string }
}

func getPage(t *testing.T, rt *Runtime, op, params string) (p paged) {
	t.Helper()
	got := ask(rt, Endpoint{}, `{"operation":"`+op+`","params":`+params+`}`)
	if err := json.Unmarshal([]byte(got), &p); err != nil {
		t.Fatal(err, got)
	}
	return p
}

func TestEachStyleWalksTheWholeList(t *testing.T) {
	s, _ := listAPI(t)
	rt := one(t, fromEnv("K", "tok-en"), s.URL, listOps, "auth: {type: api_key, in: query, query_name: key, key_env: K}")
	for _, op := range []string{"by_page", "by_offset", "by_cursor", "by_link"} {
		var ids []int
		params, pages := `{"first":3}`, 0
		for {
			p := getPage(t, rt, op, params)
			if !p.Success || pages > 5 {
				t.Fatal(op, p)
			}
			for _, i := range p.Data.Items {
				ids = append(ids, i.ID)
			}
			info := p.Data.PageInfo
			if info.HasPreviousPage != (pages > 0) || (info.StartCursor != nil) != (pages > 0) || info.HasNextPage != (info.EndCursor != nil) {
				t.Errorf("%s page %d: %+v", op, pages, info)
			}
			if op == "by_offset" && (info.TotalCount == nil || *info.TotalCount != 7) {
				t.Error("no total")
			}
			pages++
			if !info.HasNextPage {
				break
			}
			params = `{"first":3,"after":"` + *info.EndCursor + `"}`
		}
		if fmt.Sprint(ids) != "[0 1 2 3 4 5 6]" || pages != 3 {
			t.Error(op, ids, pages)
		}
	}
	if p := getPage(t, rt, "many", `{"first":2}`); len(p.Data.Items) != 6 || !p.Data.PageInfo.HasNextPage {
		t.Errorf("%+v", p)
	}
}

func TestWithoutFirstTheResponseIsNotPaged(t *testing.T) {
	s, queries := listAPI(t)
	rt := one(t, Options{}, s.URL, listOps)
	if got := ask(rt, Endpoint{}, `{"operation":"by_cursor"}`); !strings.HasPrefix(got, `{"success":true,"data":{"data":{"rows":[{"id": 0,`) || (*queries)[0] != "" {
		t.Error(got, *queries)
	}
	ask(rt, Endpoint{}, `{"operation":"by_page","params":{"page":2}}`)
	ask(rt, Endpoint{}, `{"operation":"by_page","params":{"first":1000}}`)
	ask(rt, Endpoint{}, `{"operation":"by_page","params":{"first":null}}`)
	ask(rt, Endpoint{}, `{"operation":"by_link","params":{"first":5,"q":"x y"}}`)
	if got := strings.Join((*queries)[1:], " "); got != "page=2 page=1&size=4 page=1&size=2 x=1&q=x+y&size=5" {
		t.Error(got)
	}
}

func TestCursorsAreValidForOneListOnly(t *testing.T) {
	s, queries := listAPI(t)
	key := []byte("0123456789abcdef")
	rt := one(t, Options{CursorKey: key}, s.URL, listOps)
	cursor := *getPage(t, rt, "by_page", `{"first":3,"q":"a"}`).Data.PageInfo.EndCursor
	n := len(*queries)
	other := one(t, Options{}, s.URL, listOps)
	flipped := []byte(cursor)
	flipped[5] ^= 1
	for _, c := range []struct {
		rt         *Runtime
		op, params string
	}{
		{rt, "by_page", `{"first":3,"q":"b","after":"` + cursor + `"}`},
		{rt, "by_offset", `{"first":3,"after":"` + cursor + `"}`},
		{other, "by_page", `{"first":3,"q":"a","after":"` + cursor + `"}`},
		{rt, "by_page", `{"first":3,"q":"a","after":"` + string(flipped) + `"}`},
		{rt, "by_page", `{"first":3,"q":"a","after":""}`},
		{rt, "by_page", `{"first":3,"q":"a","after":"????"}`},
	} {
		p := getPage(t, c.rt, c.op, c.params)
		if p.Error.Code != "VALIDATION_INVALID_VALUE" || p.Error.Message != "Parameter 'after' is not a cursor of this operation and these parameters" {
			t.Error(c.params, p)
		}
	}
	for _, params := range []string{`{"after":"` + cursor + `"}`, `{"first":3,"page":2}`} {
		if p := getPage(t, rt, "by_page", params); p.Error.Code != "VALIDATION_INVALID_TYPE" {
			t.Error(params, p)
		}
	}
	if len(*queries) != n {
		t.Error("sent", (*queries)[n:])
	}
	twin := one(t, Options{CursorKey: key}, s.URL, listOps)
	if p := getPage(t, twin, "by_page", `{"first":3,"q":"a","after":"`+cursor+`"}`); len(p.Data.Items) != 3 || p.Data.Items[0].ID != 3 {
		t.Error("a replica with the same key refused", p)
	}
}

func TestNextLinksStayOnTheOriginWithoutKeys(t *testing.T) {
	var queries []string
	link := ""
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RequestURI())
		w.Header().Set("Link", link)
		fmt.Fprint(w, `[1]`)
	})
	rt := one(t, fromEnv("K", "tok-en"), s.URL+"/v1", `read: [{name: by_link, maps_to: GET /link, description: L, pagination: {style: link_header}}]`, "auth: {type: api_key, in: query, query_name: key, key_env: K}")
	for _, c := range []struct {
		link string
		next bool
	}{
		{`<https://evil.example/v1/link?page=2>; rel="next"`, false},
		{`<//evil.example/link?page=2>; rel=next`, false},
		{`<?page=2>; rel="prev"`, false},
		{`<?page=2`, false},
		{`</admin?page=2&key=tok-en>; rel=next`, true},
	} {
		link = c.link
		var p struct {
			Data struct {
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
			}
		}
		got := ask(rt, Endpoint{}, `{"operation":"by_link","params":{"first":1}}`)
		if err := json.Unmarshal([]byte(got), &p); err != nil || p.Data.PageInfo.HasNextPage != c.next {
			t.Error(c.link, got)
		}
		if c.next {
			ask(rt, Endpoint{}, `{"operation":"by_link","params":{"first":1,"after":"`+p.Data.PageInfo.EndCursor+`"}}`)
			if last := queries[len(queries)-1]; last != "/v1/link?page=2&key=tok-en" {
				t.Error(last)
			}
		}
	}
}

func TestPaginationMistakes(t *testing.T) {
	for block, path := range map[string]string{
		"{param_name: p}":                               "operations.read[0].pagination.style",
		"{style: odd, param_name: p}":                   "operations.read[0].pagination.style",
		"{style: page}":                                 "operations.read[0].pagination.param_name",
		"{style: cursor, param_name: p}":                "operations.read[0].pagination.next_path",
		"{style: page, param_name: id}":                 "operations.read[0].pagination",
		"{style: page, param_name: p, max_limit: 5000}": "operations.read[0].pagination.max_limit",
	} {
		_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", `read: [{name: op, maps_to: "GET /{id}", description: D, params: {id: {type: integer, required: true}}, pagination: `+block+`}]`)), &Options{})
		if !file.HasError(problems) || problems[0].Path != path {
			t.Error(block, problems)
		}
	}
}

const fieldOps = `
read:
- {name: get_user, maps_to: GET /user, description: U, supports_fields: true, default_fields: [id, name]}
- {name: get_all, maps_to: GET /user, description: U, supports_fields: true}
- {name: list, maps_to: GET /list, description: L, supports_fields: true, pagination: {style: cursor, param_name: cursor, items_path: data.rows, next_path: next}}`

func TestFieldSelection(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			t.Error("fields were sent", r.URL)
		}
		if r.URL.Path == "/list" {
			fmt.Fprint(w, `{"data":{"rows":[{"id":1,"x":2},{"x":3}]},"next":"c1","pagination":{"a":1}}`)
			return
		}
		fmt.Fprint(w, `{"id":1,"name":"n","a.b":0,"owner":{"login":"l","id":2,"tags":[{"k":1,"v":2},{"k":3}]},"pagination":{"p":1}}`)
	})
	rt := one(t, Options{}, s.URL, fieldOps, "presets: {minimal: [id], standard: [id, owner.login]}")
	if got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations","name":"get_user"}}`); !strings.Contains(got, `"description":"Preset of fields: minimal, standard"`) {
		t.Error("the presets are not shown:", got)
	}
	for params, want := range map[string]string{
		`get_user {}`: `{"id":1,"name":"n","pagination":{"p":1}}`,
		`get_user {"fields":["owner.login","none"]}`:      `{"owner":{"login":"l"},"pagination":{"p":1}},"warnings":[{"code":"FIELD_UNKNOWN","message":"No item has the field 'none'","details":{"field":"none","did_you_mean":["name"]},"severity":"low"}]`,
		`get_user {"fields":["owner.tags.k"]}`:            `{"owner":{"tags":[{"k":1},{"k":3}]},"pagination":{"p":1}}`,
		`get_user {"fields":["owner","owner.id"]}`:        `{"owner":{"login":"l","id":2,"tags":[{"k":1,"v":2},{"k":3}]},"pagination":{"p":1}}`,
		`get_user {"fields":["owner.id","owner"]}`:        `{"owner":{"login":"l","id":2,"tags":[{"k":1,"v":2},{"k":3}]},"pagination":{"p":1}}`,
		`get_user {"fields":"standard"}`:                  `{"id":1,"owner":{"login":"l"},"pagination":{"p":1}}`,
		`get_user {"preset":"minimal","fields":["name"]}`: `{"id":1,"name":"n","pagination":{"p":1}}`,
		`get_all {"fields":["id"]}`:                       `{"id":1,"pagination":{"p":1}}`,
		`list {"fields":["id"]}`:                          `{"data":{"rows":[{"id":1},{}]},"next":"c1","pagination":{"a":1}}`,
		`get_user {"fields":"odd"}`:                       `"VALIDATION_INVALID_VALUE","message":"Parameter 'fields' names no preset of the adapter"`,
		`get_user {"fields":["a..b"]}`:                    `"VALIDATION_INVALID_VALUE","message":"Parameter 'fields' must be dotted paths, not too many"`,
		`get_user {"fields":[5]}`:                         `"VALIDATION_INVALID_TYPE","message":"Parameter 'fields' expected 'string', got 'integer'"`,
		`get_user {"fields":5}`:                           `"VALIDATION_INVALID_TYPE","message":"Parameter 'fields' expected 'array', got 'integer'"`,
	} {
		op, params, _ := strings.Cut(params, " ")
		got := ask(rt, Endpoint{}, `{"operation":"`+op+`","params":`+params+`}`)
		if strings.HasPrefix(want, "{") {
			want = `{"success":true,"data":` + want + `}`
		}
		if got != want && !(strings.HasPrefix(want, `"V`) && strings.Contains(got, want)) {
			t.Errorf("%s %s\n got %s\nwant %s", op, params, got, want)
		}
	}
	if got := ask(rt, Endpoint{}, `{"operation":"get_all"}`); !strings.Contains(got, `"a.b":0`) {
		t.Error(got)
	}
	if got := ask(rt, Endpoint{}, `{"operation":"list","params":{"first":5,"fields":["id"]}}`); !strings.HasPrefix(got, `{"success":true,"data":{"items":[{"id":1},{}],"pageInfo":{"hasNextPage":true`) {
		t.Error(got)
	}
	detail := query(rt, "operations", "list")
	for _, want := range []string{`{"name":"fields","type":"array"`, `{"name":"first","type":"integer"`, `{"name":"after","type":"string"`, `"supports_fields":true`, `"supports_pagination":true`, `"pagination":{"style":"cursor","default_limit":20,"max_limit":100}`} {
		if !strings.Contains(detail, want) {
			t.Error(want, detail)
		}
	}
	if strings.Contains(detail, `"cursor","type"`) {
		t.Error("shows what clients cannot set:", detail)
	}
	conforms(t, "detailExtended", detail)
}

// TestNamesOfTheAPIWin: parameters of the API keep their names and reach it, whatever they are called; the names of paging move.
func TestNamesOfTheAPIWin(t *testing.T) {
	s, queries := listAPI(t)
	const own = "params: {first: {type: string}, after: {type: string}, before: {type: string}, last: {type: integer}}"
	rt := one(t, Options{}, s.URL, `
read:
- {name: by_page, maps_to: GET /page, description: P, `+own+`, pagination: {style: page, param_name: page, per_page_param: size}}
- {name: by_link, maps_to: GET /link, description: L, `+own+`, pagination: {style: link_header, per_page_param: size}}
- {name: by_cursor, maps_to: GET /cursor, description: C, `+own+`, pagination: {style: cursor, param_name: cursor, per_page_param: size, items_path: data.rows, next_path: next}}
- {name: some, maps_to: GET /page, description: S, params: {before: {type: string}, last: {type: integer}, page_first: {type: string}, first: {type: string}}, pagination: {style: page, param_name: page, per_page_param: size}}`)
	for _, c := range []struct{ op, first, after, params, query string }{
		{"by_page", "page_first", "page_after", `"first":"a","after":"b","before":"c","last":5`, "first=a&after=b&before=c&last=5"},
		{"by_link", "page_first", "page_after", `"after":"2026-01-01","before":"c"`, "after=2026-01-01&before=c"},
		{"by_cursor", "page_first", "page_after", `"last":5`, "last=5"},
		{"some", "page_page_first", "after", `"first":"a","page_first":"b","last":5`, "last=5&page_first=b&first=a"},
	} {
		p := getPage(t, rt, c.op, `{"`+c.first+`":2,`+c.params+`}`)
		if !p.Success || len(p.Data.Items) != 2 || p.Data.PageInfo.EndCursor == nil {
			t.Errorf("%s: %+v", c.op, p)
			continue
		}
		query := (*queries)[len(*queries)-1]
		for _, part := range strings.Split(c.query, "&") {
			if !strings.Contains("&"+query+"&", "&"+part+"&") {
				t.Errorf("%s: %s has no %s", c.op, query, part)
			}
		}
		p = getPage(t, rt, c.op, `{"`+c.first+`":2,`+c.params+`,"`+c.after+`":"`+*p.Data.PageInfo.EndCursor+`"}`)
		if !p.Success || len(p.Data.Items) != 2 || p.Data.Items[0].ID != 2 {
			t.Errorf("%s: the second page is %+v", c.op, p)
		}
		if p = getPage(t, rt, c.op, `{"`+c.after+`":"x"}`); !strings.Contains(p.Error.Message, "'"+c.after+"' needs '"+c.first+"'") {
			t.Errorf("%s: %+v", c.op, p.Error)
		}
	}
}
