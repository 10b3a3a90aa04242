package file

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// everything has most keys of the format.
const everything = `
name: x-api
type: adapter
version: "1.0.0"
description: Most keys of the format
target:
  base_url: https://api.example.com/v1
  transport: http
  protocol: rest
  serialization: json
  headers: {X-A: b}
  headers_env: {X-Key: NAME}
  redirects: [example.com, "*.example.org"]
auth: {type: api_key, in: query, query_name: k, key_env: KEY, also: [{type: bearer, token_env: TOKEN}, {type: basic, username_env: U, password_env: P}]}
trust: {level: community, verified_by: x}
presets: {small: [id, owner.name]}
types: [{name: T, kind: object, fields: [{name: a, type: string}]}, {name: E, kind: enum, values: [a]}]
error_mapping: [{status: 200, when: {path: ok, is: false}, code: NOT_FOUND_RESOURCE}]
breaker: {failures: 3}
rate_limits:
  requests_per_minute: 10
  api_limits: [{scope: endpoint, endpoint: "GET /a", limit: 5, remaining_header: X-R}, {scope: category, category: read, limit: 5}]
  quotas: {limits: [{metric: requests_per_day, warn: 1, pause: 2, hard_stop: 3}]}
operations:
  read:
  - name: list_a
    maps_to: GET /a/{id}?kind={kind}
    description: Lists
    params:
      id: {type: string, required: true, pattern: "^a+$", encode: reserved}
      kind: {type: string, default: a, enum: [a, b]}
      list: {type: array, items: {type: integer, minimum: 1}, style: repeat}
      deep: {type: object, style: deep_object, properties: {a: {type: object, properties: {b: {type: string, required: true}}}}}
      within: {type: string, wire_path: page.size}
    pagination: {style: cursor, param_name: page, per_page_param: size, items_path: items, next_path: next}
    supports_fields: true
    default_fields: {a: string, b.c: integer}
    cache: {ttl: 30s, coalesce: true}
    capability_gate: [{params: [list], source: get_b, source_params: {n: "{kind}"}, match: {"a|b": "{id}"}, list: x.y, capability: z, error_code: not_able, subject: id}]
    response: {as: json, decode: {a.b: base64}, ok: [404], schema: {type: object, properties: {a: {type: string}}}}
    lifecycle: {states: [a]}
    deprecated: {since: "1"}
    aliases: [show]
  - {name: get_b, maps_to: GET /b, description: B, params: {n: {type: string}}}
  - name: find_c
    maps_to: POST /c
    description: Finds
    params: {page: {type: object, wire_path: q.page}, text: {type: string, wire_path: q.text}}
    pagination: {style: page, param_name: number, per_page_param: size, items_path: items}
  create:
  - name: make_d
    maps_to: POST /d
    description: Makes
    params: {a: {type: string}, f: {type: string, format: binary, file: {name: "{a}.txt", type: text/plain}}, n: {type: string}}
    request: {as: multipart, encode: {n: base64}, headers: {X-B: c}}
    rate_limits: {requests_per_hour: 5}
    danger: {level: destructive, requires_confirmation: true, cooldown_seconds: 5, reasons: [x]}
  - name: make_e
    maps_to: POST /e
    description: Makes
    params: {a: {type: string}, b: {type: object}}
    request: {body: {x: "{a}", y: ["{b}", "t {a}"], z: {k: 1}}}
  - name: make_f
    maps_to: PUT /f
    description: Makes
    params: {a: {type: string}}
    request: {as: text, body_from: a, body_required: true}
`

// nodes returns the places of a tree at which a value can be replaced.
func nodes(n *node) (all []**node) {
	for i := range n.list {
		all = append(append(all, &n.list[i]), nodes(n.list[i])...)
	}
	for i := range n.fields {
		all = append(append(all, &n.fields[i].val), nodes(n.fields[i].val)...)
	}
	return all
}

// bounded reports whether a tree is one that the reader of YAML makes: a part may have been put into itself.
func bounded(n *node, depth int) bool {
	if depth > 20 {
		return false
	}
	for _, v := range n.list {
		if !bounded(v, depth+1) {
			return false
		}
	}
	for _, f := range n.fields {
		if !bounded(f.val, depth+1) {
			return false
		}
	}
	return true
}

// FuzzMutated checks files of which parts are replaced by other values, or by parts from elsewhere. [Parse] would hide a panic.
func FuzzMutated(f *testing.F) {
	seeds := [][]byte{[]byte(everything)}
	for _, path := range []string{"../../deploy/adapters/notion-adapter.md", "../../deploy/adapters/linear-adapter.md", "../openapi/testdata/files-adapter.md"} {
		data, err := os.ReadFile(filepath.FromSlash(path))
		if err != nil {
			f.Fatal(err)
		}
		front, _, err := splitFrontMatter(data)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, front)
	}
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		_, root, err := parseYAML(seeds[seed%uint64(len(seeds))])
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(4) {
			all := nodes(root)
			at := all[r.IntN(len(all))]
			switch r.IntN(4) {
			case 0:
				_, *at, _ = parseYAML([]byte([]string{"null", "''", "5", "-1", "true", "[]", "{}", "[null]", "[{}]", "{'': null}", "word", "a.b", "'{'", "'{a}'", "1e400", "page", "POST /x"}[r.IntN(17)]))
			case 1:
				*at = *all[r.IntN(len(all))]
			default: // the same key elsewhere, or once more
				from, to := *all[r.IntN(len(all))], *at
				if len(from.fields) > 0 && to.kind == wire.Object && to != from {
					x := from.fields[r.IntN(len(from.fields))]
					to.fields = append([]field{x}, to.fields...)
				} else if len(to.fields) > 0 {
					i := r.IntN(len(to.fields))
					to.fields = append(to.fields[:i:i], to.fields[i+1:]...)
				}
			}
			if !bounded(root, 0) {
				return
			}
		}
		for _, graphql := range []bool{false, true} {
			if graphql {
				if n := root.get("target").get("protocol"); n != nil {
					n.text = "graphql"
				}
			}
			c := &checker{file: "x-api-adapter.md", opt: &Options{Getenv: func(string) (string, bool) { return "", false }}}
			if a := c.adapter(root); a != nil && !HasError(c.problems) {
				for _, op := range a.Operations {
					_ = op.MaxWait()
				}
			}
		}
	})
}
