package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

const (
	dataOnly  = `{type: object, properties: {data: {type: array, items: {type: object}}}}`
	limitText = `{name: limit, in: query, schema: {type: integer, minimum: 1, maximum: 100}, description: Results per page}`
	unclearly = "it seems to have pages, but the document does not say how they go on"
)

// TestPages: the style of pages follows what the document says of the parameters and of the answer, not the parameters'
// names. When in doubt there are no pages, the parameters stay, and a finding says so.
func TestPages(t *testing.T) {
	with := func(member string) string {
		return `{type: object, properties: {data: {type: array, items: {type: object}}, ` + member + `}}`
	}
	for name, c := range map[string]struct{ params, answer, want string }{
		"an offset that is a token": {limitText + `, {name: offset, in: query, schema: {type: string}, description: Offset token. An offset that was returned to you via a previously paginated request}`,
			with(`next_page: {type: object, nullable: true, properties: {offset: {type: string}, path: {type: string}, uri: {type: string}}}`),
			"{style: cursor, param_name: offset, per_page_param: limit, items_path: data, next_path: next_page.offset, max_limit: 100}"},
		"a text offset that the answer has":         {limitText + `, {name: offset, in: query, schema: {type: string}}`, with(`next_page: {type: object, properties: {offset: {type: string}}}`), "next_path: next_page.offset"},
		"an offset token without a next one":        {limitText + `, {name: offset, in: query, schema: {type: string}, description: An opaque token}`, dataOnly, "none: limit offset"},
		"a text offset of which nothing is known":   {limitText + `, {name: offset, in: query, schema: {type: string}}`, dataOnly, "none: limit offset"},
		"a text offset that is a number":            {limitText + `, {name: offset, in: query, schema: {type: string, default: "0"}}`, dataOnly, "style: offset"},
		"a number as text":                          {limitText + `, {name: page, in: query, schema: {type: string}, description: The page number}`, dataOnly, "style: page"},
		"an offset that is a token, as a number":    {limitText + `, {name: offset, in: query, schema: {type: integer}, description: The cursor of the answer before}`, dataOnly, "none: limit offset"},
		"an offset":                                 {limitText + `, {name: offset, in: query, schema: {type: integer}, description: The number of items returned by previous calls to skip}`, dataOnly, "style: offset"},
		"an offset from 1":                          {limitText + `, {name: start_index, in: query, schema: {type: integer, default: 1}}`, dataOnly, "none: limit start_index"},
		"an offset of pages":                        {limitText + `, {name: offset, in: query, schema: {type: integer}, description: The page number to start at}`, dataOnly, "none: limit offset"},
		"a page beside a token":                     {limitText + `, {name: page, in: query, schema: {type: integer}}, {name: pageToken, in: query, schema: {type: string}}`, with(`nextPageToken: {type: string}`), "{style: cursor, param_name: pageToken, per_page_param: limit, items_path: data, next_path: nextPageToken, max_limit: 100}"},
		"a page beside a token, nested":             {limitText + `, {name: page, in: query, schema: {type: integer}}, {name: page_token, in: query, schema: {type: string}}`, with(`metadata: {type: object, properties: {next_page_token: {type: string}}}`), "next_path: metadata.next_page_token"},
		"a page beside a token of no answer":        {limitText + `, {name: page, in: query, schema: {type: integer}}, {name: page_token, in: query, schema: {type: string}}`, dataOnly, "none: limit page page_token"},
		"an offset beside a cursor of no answer":    {limitText + `, {name: offset, in: query, schema: {type: integer}}, {name: cursor, in: query, schema: {type: string}}`, dataOnly, "none: limit offset cursor"},
		"a page that is a token":                    {limitText + `, {name: page, in: query, schema: {type: string}, description: The token of a page}`, with(`next: {type: string, description: token of the next page}`), "{style: cursor, param_name: page, per_page_param: limit, items_path: data, next_path: next, max_limit: 100}"},
		"a page, and an answer with a token":        {limitText + `, {name: page, in: query, schema: {type: integer}}`, with(`next_page_token: {type: string}`), "none: limit page"},
		"a page, and the number of the next":        {limitText + `, {name: page, in: query, schema: {type: integer}}`, with(`next_page: {type: integer}`), "style: page"},
		"a page, and the URL of the next":           {limitText + `, {name: page, in: query, schema: {type: integer}}`, with(`next: {type: string, description: URL of the next page}`), "style: page"},
		"a cursor, and the URL of the next":         {limitText + `, {name: cursor, in: query, schema: {type: string}}`, with(`next: {type: string, example: "https://h.example.com/x?cursor=y"}`), "none: limit cursor"},
		"a cursor, and a next that may be a URL":    {limitText + `, {name: cursor, in: query, schema: {type: string}}`, with(`next: {type: string}`), "none: limit cursor"},
		"a cursor for more":                         {limitText + `, {name: cursor, in: query, schema: {type: string}}`, with(`cursor: {type: string, description: Use it in a subsequent request to retrieve the next set}`), "next_path: cursor"},
		"a cursor of this page":                     {limitText + `, {name: cursor, in: query, schema: {type: string}}`, with(`cursor: {type: string, description: The cursor of this request}`), "none: limit cursor"},
		"a cursor two objects deep":                 {limitText + `, {name: after, in: query, schema: {type: string}}`, with(`paging: {type: object, properties: {next: {type: object, properties: {after: {type: string}, link: {type: string}}}}}`), "{style: cursor, param_name: after, per_page_param: limit, items_path: data, next_path: paging.next.after, max_limit: 100}"},
		"continue":                                  {limitText + `, {name: continue, in: query, schema: {type: string}}`, with(`metadata: {type: object, properties: {continue: {type: string, description: set if the server has more data}}}`), "next_path: metadata.continue"},
		"a time that is called after":               {limitText + `, {name: after, in: query, schema: {type: string, format: date-time}}`, with(`next_cursor: {type: string}`), "no list: limit after"},
		"a time that is described":                  {limitText + `, {name: start_at, in: query, schema: {type: string}, description: Only what begins after this date}`, dataOnly, "no list: limit start_at"},
		"a limit that is no number":                 {`{name: count, in: query, schema: {type: boolean}}, {name: page, in: query, schema: {type: integer}}`, dataOnly, "none: count page"},
		"a total that is a list":                    {limitText + `, {name: page, in: query, schema: {type: integer}}`, with(`count: {type: string}`), "{style: page, param_name: page, per_page_param: limit, items_path: data, max_limit: 100}"},
		"a page beside an offset of the same pages": {limitText + `, {name: page, in: query, schema: {type: integer}}, {name: skip, in: query, schema: {type: integer}}`, dataOnly, "style: page"},
	} {
		t.Run(name, func(t *testing.T) {
			in := importOf(t, document(`/x: {get: {operationId: listX, parameters: [`+c.params+`], responses: {"200": {description: OK, content: {application/json: {schema: `+c.answer+`}}}}}}`, ""))
			text := string(in.Files[0].Front())
			_, pages, paged := strings.Cut(text, "      pagination: ")
			pages, _, _ = strings.Cut(pages, "\n")
			said := slices.ContainsFunc(in.Findings, func(f openapi.Finding) bool { return f.What == unclearly && f.Class == openapi.Guessed })
			kind, params, found := strings.Cut(c.want, ": ")
			if !found || kind != "none" && kind != "no list" {
				if !paged || !strings.Contains(pages, c.want) {
					t.Errorf("pagination: %s, want %s", pages, c.want)
				}
				return
			}
			if paged {
				t.Errorf("pagination: %s, want none", pages)
			}
			if kind == "none" && !said {
				t.Errorf("no finding in %+v", in.Findings)
			}
			for _, p := range strings.Fields(params) {
				if !strings.Contains(text, "\n        "+p+": ") {
					t.Errorf("parameter %s is gone:\n%s", p, text)
				}
			}
		})
	}
}

// TestParametersOfTheAPIKeepTheirNames: paging does not rename parameters, nor take those that are no part of it.
func TestParametersOfTheAPIKeepTheirNames(t *testing.T) {
	in := importOf(t, document(`/times: {get: {operationId: listTimes, parameters: [
		{name: before, in: query, schema: {type: string, format: date-time}, description: Only times before this date},
		{name: after, in: query, schema: {type: string, format: date-time}, description: Only times after this date},
		{name: last, in: query, schema: {type: integer}}, {name: first, in: query, schema: {type: string}}, {name: page, in: query, schema: {type: integer}}, `+limitText+`],
		responses: {"200": {description: OK, headers: {Link: {schema: {type: string}}}, content: {application/json: {schema: {type: array, items: {type: object}}}}}}}}`, ""))
	text := string(in.Files[0].Front())
	for _, want := range []string{"\n        before: ", "\n        after: ", "\n        last: ", "\n        first: ", "pagination: {style: link_header, per_page_param: limit"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
