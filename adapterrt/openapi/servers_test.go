package openapi_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// requests returns the requests of a file's operations, sorted: method, URL, and further headers.
func requests(t *testing.T, f *openapi.File) (out []string) {
	t.Helper()
	a, problems := file.Parse("", f.Front(), &file.Options{})
	if a == nil {
		t.Fatal(problems)
	}
	for _, op := range a.Operations {
		s := op.Mapping.Method + " " + op.Target.BaseURL + op.Mapping.Template
		if op.Request != nil {
			for _, h := range op.Request.Headers {
				s += " " + h.Name + ": " + h.Value
			}
		}
		if op.Anonymous {
			s += " without credentials"
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// TestServersOfOperations: an operation or a path that has a server of its own is called there.
func TestServersOfOperations(t *testing.T) {
	const get = `get: {operationId: `
	for name, c := range map[string]struct {
		root, paths string
		opt         openapi.Options
		want        []string
		finding     string
	}{
		"an operation": {"[{url: 'https://a.example.com/v1'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://up.example.com/v2/'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/v1/x", "GET https://up.example.com/v2/y"}, "its server is https://up.example.com/v2, to which the credential is sent, too"},
		"a path": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /y: {servers: [{url: 'https://up.example.com'}], ` + get + `y}, post: {servers: [{url: 'https://a.example.com'}], operationId: py}}`, openapi.Options{},
			[]string{"GET https://a.example.com/x", "GET https://up.example.com/y", "POST https://a.example.com/y"}, ""},
		"another base path": {"[{url: 'https://a.example.com/v1'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://a.example.com/v2'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/v1/x", "GET https://a.example.com/v2/y"}, "-to which the credential is sent"},
		"below the base path": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://a.example.com/v2'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/v2/y", "GET https://a.example.com/x"}, "-its server"},
		"relative": {"[{url: 'https://a.example.com/v1'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: /v2}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/v1/x", "GET https://a.example.com/v2/y"}, ""},
		"the same path twice": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /x/: {` + get + `y, servers: [{url: 'https://up.example.com'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/x", "GET https://up.example.com/x/"}, ""},
		"the first with https": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x, servers: [{url: 'http://b.example.com'}, {url: 'https://c.example.com'}]}}, /y: {` + get + `y}}`, openapi.Options{},
			[]string{"GET https://a.example.com/y", "GET https://c.example.com/x"}, ""},
		"servers at operations only": {"[]", `/x: {` + get + `x, servers: [{url: 'https://a.example.com'}]}}, /y: {` + get + `y, servers: [{url: 'https://b.example.com'}]}}, /z: {` + get + `z, servers: [{url: 'https://b.example.com'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/x", "GET https://b.example.com/y", "GET https://b.example.com/z"}, ""},
		"no server but the operations'": {"[{url: /}]", `/x: {` + get + `x, servers: [{url: 'https://a.example.com'}]}}`, openapi.Options{}, []string{"GET https://a.example.com/x"}, ""},
		"a server is given": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://up.example.com'}]}}`, openapi.Options{Server: "https://test.example.com"},
			[]string{"GET https://test.example.com/x", "GET https://test.example.com/y"}, "its own server, https://up.example.com, is not used, because another one was given"},
		"one of the document's is given": {"[{url: 'https://a.example.com'}, {url: 'https://b.example.com'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://up.example.com'}]}}`, openapi.Options{Server: "2"},
			[]string{"GET https://b.example.com/x", "GET https://up.example.com/y"}, ""},
		"a variable": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://{r}.example.com', variables: {r: {default: eu}}}]}}`, openapi.Options{ServerVars: map[string]string{"r": "us"}},
			[]string{"GET https://a.example.com/x", "GET https://us.example.com/y"}, ""},
		"a variable that is not given": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'https://{r}.{s}.example.com'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/x"}, `it has a server of its own: the host in "https://{r}.{s}.example.com" depends on a variable: give --server-var r=VALUE --server-var s=VALUE`},
		"without https": {"[{url: 'https://a.example.com'}]", `/x: {` + get + `x}}, /y: {` + get + `y, servers: [{url: 'http://up.example.com'}]}}`, openapi.Options{},
			[]string{"GET https://a.example.com/x"}, `base_url must be https`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(document(c.paths, ""), "[{url: 'https://h.example.com'}]", c.root+"\nsecurity: [{k: []}]", 1)
			text = strings.Replace(text, "components: {", "components: {securitySchemes: {k: {type: http, scheme: bearer}}, ", 1)
			in, err := parse(t, "d", []byte(text), "").Import(c.opt)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, requests(t, in.Files[0])); d != "" {
				t.Error(d)
			}
			var all string
			for _, f := range in.Findings {
				all += f.What + "\n"
			}
			without, absent := strings.CutPrefix(c.finding, "-")
			if strings.Contains(all, without) == absent && c.finding != "" {
				t.Errorf("findings %s, want %s", all, c.finding)
			}
		})
	}
}

// TestSecurityOfOperations: an operation of which the document says that it needs no credential gets none.
func TestSecurityOfOperations(t *testing.T) {
	text := document(`/a: {get: {operationId: a}}, /b: {get: {operationId: b, security: []}}, /c: {get: {operationId: c, security: [{}]}},
		/d: {get: {operationId: d, security: [{}, {k: []}]}}, /e: {get: {operationId: e, security: [{k: []}]}}`, "")
	text = strings.Replace(text, "components: {", "security: [{k: []}]\ncomponents: {securitySchemes: {k: {type: http, scheme: bearer}}, ", 1)
	in := importOf(t, text)
	want := []string{"GET https://h.example.com/a", "GET https://h.example.com/b without credentials", "GET https://h.example.com/c without credentials", "GET https://h.example.com/d", "GET https://h.example.com/e"}
	if d := cmp.Diff(want, requests(t, in.Files[0])); d != "" {
		t.Error(d)
	}
	in = importOf(t, document(`/b: {get: {operationId: b, security: []}}`, ""))
	if d := cmp.Diff([]string{"GET https://h.example.com/b"}, requests(t, in.Files[0])); d != "" { // the file has no credential at all
		t.Error(d)
	}
}

// TestMessagesOfServers: a message says all that is to be given at once.
func TestMessagesOfServers(t *testing.T) {
	for servers, want := range map[string]string{
		"[{url: ''}]":  "the document does not say on which host its server is: give --server https://HOST",
		"[{}]":         "the document does not say on which host its server is: give --server https://HOST",
		"[{url: /}]":   "the document does not say on which host its server is: give --server https://HOST",
		"[]":           "the document names no server: give --server https://HOST",
		"[{url: /v1}]": `the server "/v1" is relative`,
		"[{url: 'https://{a}.{b}.x.example/{c}'}]":                                        `the host in "https://{a}.{b}.x.example/{c}" depends on a variable: give --server-var a=VALUE --server-var b=VALUE --server-var c=VALUE`,
		"[{url: 'https://x.example/{c}/{d}/{c}'}]":                                        `give --server-var c=VALUE --server-var d=VALUE for "https://x.example/{c}/{d}/{c}"`,
		"[{url: 'https://{a}.x.example/{c}', variables: {c: {default: v1}}}]":             `give --server-var a=VALUE`,
		"[{url: 'https://{a}.x.example', variables: {a: {enum: [eu, us], default: eu}}}]": "",
		"[{url: '//x.example/v1'}]":                                                       "",
	} {
		_, err := parse(t, "d", []byte(strings.Replace(document("/a: {get: {operationId: a}}", ""), "[{url: 'https://h.example.com'}]", servers, 1)), "").Import(openapi.Options{})
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s: %s, want %s", servers, got, want)
		}
	}
}

// TestMessagesOfNames: the rule of a name is in the message that refuses one.
func TestMessagesOfNames(t *testing.T) {
	for name, c := range map[string]struct {
		opt  openapi.Options
		want string
	}{
		"a name":        {openapi.Options{Name: "My API"}, `--name "My API": Adapter name is not valid: want 2–64 characters of a-z, 0-9 and -, starting with a letter`},
		"a long name":   {openapi.Options{Name: strings.Repeat("a", 65)}, "2–64 characters"},
		"a variable":    {openapi.Options{ServerVars: map[string]string{"regoin": "eu"}}, "--server-var regoin: no server of the document has this variable; they have: region"},
		"one of a path": {openapi.Options{ServerVars: map[string]string{"region": "eu"}}, ""},
	} {
		text := document("/a: {servers: [{url: 'https://{region}.example.com'}], get: {operationId: a}}", "")
		if _, err := parse(t, "d", []byte(text), "").Import(c.opt); err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestServersOfTheDocumentsOwnURL: a document that was read from a URL has its relative server there, and without a server, that host.
func TestServersOfTheDocumentsOwnURL(t *testing.T) {
	oas := func(servers string) string {
		return `{"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, ` + servers + `"paths": {"/a": {"get": {"operationId": "a"}}}}`
	}
	swagger := func(more string) string {
		return `{"swagger": "2.0", "info": {"title": "T", "version": "1"}, ` + more + `"paths": {"/a": {"get": {"operationId": "a"}}}}`
	}
	for _, c := range []struct{ at, text, want string }{
		{"http://localhost:8000/openapi.json", oas(""), "http://localhost:8000/a"},
		{"http://localhost:8080/v3/api-docs", oas(`"servers": [{"url": "http://localhost:8080"}], `), "http://localhost:8080/a"},
		{"https://x.example/docs/openapi.json", oas(`"servers": [{"url": "/api/v3"}], `), "https://x.example/api/v3/a"},
		{"https://x.example/docs/openapi.json?t=1", oas(`"servers": [{"url": "../v3/"}], `), "https://x.example/v3/a"},
		{"https://x.example/openapi.json", oas(`"servers": [{"url": "//y.example/v1"}], `), "https://y.example/v1/a"},
		{"http://127.0.0.1:5000/swagger/v1/swagger.json", swagger(""), "http://127.0.0.1:5000/a"},
		{"http://127.0.0.1:5000/swagger.json", swagger(`"basePath": "/v1", `), "http://127.0.0.1:5000/v1/a"},
		{"http://localhost:5000/swagger.json", swagger(`"host": "localhost:5000", `), "http://localhost:5000/a"},
		{"swagger.json", swagger(`"host": "localhost:5000", "basePath": "/v1", `), "http://localhost:5000/v1/a"},
		{"swagger.json", swagger(`"host": "x.example", `), "https://x.example/a"},
	} {
		d, err := openapi.Read(c.at, []byte(c.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Import(openapi.Options{})
		if err != nil {
			t.Errorf("%s %s: %v", c.at, c.text, err)
			continue
		}
		if got := requests(t, in.Files[0])[0]; got != "GET "+c.want {
			t.Errorf("%s %s: %s, want %s", c.at, c.text, got, c.want)
		}
	}
}

// alike has operations that have method and path in common, as the documents of Amazon's APIs do.
const alike = `{"openapi": "3.0.0", "info": {"title": "Alike", "version": "1"}, "servers": [{"url": "https://h.example.com"}], "paths": {
	"/#Action=RunInstances": {"get": {"operationId": "GET_RunInstances", "parameters": [
		{"name": "Action", "in": "query", "required": true, "schema": {"type": "string", "enum": ["RunInstances"]}},
		{"name": "Version", "in": "query", "required": true, "schema": {"type": "string", "enum": ["2016-11-15"]}},
		{"name": "ImageId", "in": "query", "schema": {"type": "string"}}]}},
	"/#Action=StopInstances": {"get": {"operationId": "GET_StopInstances", "parameters": [
		{"name": "Action", "in": "query", "required": true, "schema": {"type": "string", "enum": ["StopInstances"]}},
		{"name": "Version", "in": "query", "required": true, "schema": {"type": "string", "enum": ["2016-11-15"]}}]}},
	"/#X-Amz-Target=DynamoDB_20120810.GetItem": {"post": {"operationId": "GetItem", "parameters": [
		{"name": "X-Amz-Target", "in": "header", "required": true, "schema": {"type": "string", "enum": ["DynamoDB_20120810.GetItem"]}}],
		"requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "properties": {"Key": {"type": "string"}}}}}}}},
	"/#X-Amz-Target=DynamoDB_20120810.PutItem": {"post": {"operationId": "PutItem", "parameters": [
		{"name": "X-Amz-Target", "in": "header", "required": true, "schema": {"type": "string", "enum": ["DynamoDB_20120810.PutItem"]}}],
		"requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "properties": {"Item": {"type": "string"}}}}}}}},
	"/{Bucket}": {"get": {"operationId": "ListObjects"}},
	"/{Bucket}#acl": {"get": {"operationId": "GetBucketAcl", "parameters": [{"name": "acl", "in": "query", "required": true, "schema": {"type": "boolean", "enum": [true]}}]}},
	"/{Bucket}#uploadId": {"get": {"operationId": "ListParts", "parameters": [{"name": "uploadId", "in": "query", "required": true, "schema": {"type": "string"}}]}},
	"/users/{id}": {"get": {"operationId": "getUser"}},
	"/users/{name}": {"get": {"operationId": "getUserByName"}}
}}`

// TestOperationsThatShareTheirPath: operations are told apart by what is sent, not by the fragment of their path or the name of a
// placeholder, and a file with them is compared with a document and updated as any other.
func TestOperationsThatShareTheirPath(t *testing.T) {
	d := parse(t, "d", []byte(alike), "")
	in, files := written(t, d, openapi.Options{Name: "alike"})
	want := []string{
		"GET https://h.example.com/?Action=RunInstances&Version=2016-11-15", "GET https://h.example.com/?Action=StopInstances&Version=2016-11-15",
		"GET https://h.example.com/users/{id}", "GET https://h.example.com/users/{name}", "GET https://h.example.com/{bucket}", "GET https://h.example.com/{bucket}", "GET https://h.example.com/{bucket}?acl=true",
		"POST https://h.example.com/ X-Amz-Target: DynamoDB_20120810.GetItem", "POST https://h.example.com/ X-Amz-Target: DynamoDB_20120810.PutItem",
	}
	if d := cmp.Diff(want, requests(t, in.Files[0])); d != "" {
		t.Error(d)
	}
	if in.Dropped != 0 {
		t.Errorf("%d dropped: %v", in.Dropped, in.Findings)
	}
	for _, op := range []string{"get_run_instances", "get_item", "list_parts", "get_user_by_name"} {
		if !strings.Contains(string(files["alike-adapter.md"]), "name: "+op+"\n") {
			t.Errorf("no %s", op)
		}
	}
	data := files["alike-adapter.md"]
	a, problems := file.Parse("alike-adapter.md", data, &file.Options{})
	if a == nil {
		t.Fatal(problems)
	}
	changes, err := openapi.Diff(data, a, d, nil)
	if err != nil || len(changes) > 0 {
		t.Errorf("%v %v", changes, err)
	}
	u, err := openapi.Update(data, a, d, nil, nil)
	if err != nil || len(u.Changed)+len(u.Removed)+len(u.Conflicts)+len(u.Lines) > 0 {
		t.Fatalf("%+v %v", u, err)
	}
	// One is renamed by a person, one changes in the document, one goes, and one comes.
	edited := strings.Replace(string(data), "name: put_item\n", "name: write_item\n", 1)
	now := strings.Replace(alike, `"Item": {"type": "string"}`, `"Item": {"type": "string"}, "Table": {"type": "string"}`, 1)
	now = strings.Replace(now, `"/users/{id}"`, `"/users/{key}"`, 1)
	now = regexp.MustCompile(`(?s)"/#Action=StopInstances".*?\]\}\}\]\}\},\n`).ReplaceAllString(now, `"/{Bucket}#cors": {"get": {"operationId": "GetBucketCors", "parameters": [{"name": "cors", "in": "query", "required": true, "schema": {"type": "boolean", "enum": [true]}}]}},`)
	if a, problems = file.Parse("alike-adapter.md", []byte(edited), &file.Options{}); a == nil {
		t.Fatal(problems)
	}
	if u, err = openapi.Update([]byte(edited), a, parse(t, "d", []byte(now), ""), nil, nil); err != nil {
		t.Fatal(err)
	}
	slices.Sort(u.Lines)
	if d := cmp.Diff([]string{
		"added get_bucket_cors (GET /{bucket}?cors=true)", "changed get_user (GET /users/{key})", "changed write_item (POST /)",
		"removed get_stop_instances (GET /?Action=StopInstances&Version=2016-11-15), which the document does not have any more",
	}, u.Lines); d != "" {
		t.Error(d, u.Conflicts)
	}
}

// TestOperationsWithAnotherCredential: an operation that the file's credential is not for says so.
func TestOperationsWithAnotherCredential(t *testing.T) {
	text := document(`/a: {get: {operationId: a}}, /b: {get: {operationId: b, security: [{k: [], t: []}, {o: []}]}}, /c: {get: {operationId: c, security: [{o: []}, {t: []}]}}, /d: {get: {operationId: d, security: []}},
		/e: {get: {operationId: e}}`, "")
	text = strings.Replace(text, "components: {", "security: [{t: []}]\ncomponents: {securitySchemes: {t: {type: http, scheme: bearer}, k: {type: apiKey, in: header, name: X-Key}, o: {type: http, scheme: basic}}, ", 1)
	var got []string
	for _, f := range importOf(t, text).Findings {
		if strings.HasPrefix(f.What, "it needs another credential") {
			got = append(got, f.Operation+": "+f.What)
		}
	}
	if d := cmp.Diff([]string{"b: it needs another credential than this file has: k and t, or o"}, got); d != "" {
		t.Error(d)
	}
}
