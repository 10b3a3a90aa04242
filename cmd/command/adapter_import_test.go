package command

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

const petsDocument = `openapi: 3.0.3
info: {title: Pet Shop API, version: 1.0.0}
servers: [{url: 'BASE'}]
security: [{key: []}]
paths:
  /pets:
    get:
      operationId: listPets
      summary: List pets
      tags: [pets]
      parameters: [{name: limit, in: query, schema: {type: integer, maximum: 100}}]
      responses: {'200': {description: ok, content: {application/json: {schema: {type: array, items: {type: object, properties: {id: {type: integer}, name: {type: string}, kind: {type: string}, photo_url: {type: string}}}}}}}}
  /pets/{id}:
    delete: {operationId: deletePet, tags: [pets], parameters: [{name: id, in: path, required: true, schema: {type: string}}], responses: {'204': {description: gone}}}
  /owners: {get: {operationId: listOwners, tags: [owners], responses: {'200': {description: ok}}}}
  /old: {get: {deprecated: true, responses: {'200': {description: ok}}}}
  /upload: {post: {operationId: mixedUpload, tags: [owners], requestBody: {required: true, content: {multipart/mixed: {schema: {type: object}}}}, responses: {'200': {description: ok}}}}
components: {securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}}
`

// importing runs dragoman adapter with arguments, in which DIR is a new directory with the document api.yaml.
func importing(t *testing.T, dir, args string) (out, errOut string, code int) {
	t.Helper()
	return adapter(t, dir, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
}

// withoutCosts replaces the numbers of tokens.
func withoutCosts(text string) string {
	return regexp.MustCompile(`\d+ (tokens|of them)`).ReplaceAllString(text, "N $1")
}

func documentIn(t *testing.T, base string) string {
	return folderWith(t, map[string]string{"api.yaml": strings.Replace(petsDocument, "BASE", base, 1)})
}

func TestAdapterImport(t *testing.T) {
	t.Setenv("PET_SHOP_KEY", "")
	dir := documentIn(t, "https://pets.example.com/v1")
	_, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR")
	if want := "DIR/api.yaml"; code != exitOther || !strings.Contains(errOut, `api.yaml:17: POST /upload: its body is "multipart/mixed"`) || !strings.Contains(errOut, "1 operation of 4 cannot be imported: leave them out with --allow-partial") {
		t.Fatalf("%d %s, want the place in %s", code, errOut, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "pet-shop-adapter.md")); err == nil {
		t.Fatal("a file was written in spite of the error")
	}
	out, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR --allow-partial --report DIR/report.json")
	const told = `DIR/pet-shop-adapter.md: 3 operations, 3 examples; N tokens in discrete mode, N of them for output schemas
what did not fit: 1 dropped; the file has a list
left out: 1 deprecated operation
set PET_SHOP_KEY to the credential
next: read it, then dragoman serve --adapters DIR/pet-shop-adapter.md
`
	if out != "" || withoutCosts(errOut) != told || code != 0 {
		t.Fatalf("%d\n%s%s", code, out, errOut)
	}
	var report struct {
		Document struct{ Title, SHA256 string }
		Files    []struct {
			File       string
			Operations int
		}
		Selected, Dropped int
		Left              map[string]int `json:"left_out"`
		Findings          []struct{ Operation, Place, Class, What string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || report.Document.Title != "Pet Shop API" || len(report.Document.SHA256) != 64 || report.Selected != 4 || report.Dropped != 1 || report.Files[0].Operations != 3 ||
		report.Findings[0].Class != "dropped" || report.Findings[0].Place != "api.yaml:17" || report.Left["deprecated operation"] != 1 {
		t.Errorf("%v %s", err, text)
	}
	if out, errOut, code := importing(t, dir, "validate DIR/pet-shop-adapter.md"); code != 0 {
		t.Error(out, errOut)
	}
	if out, errOut, code := importing(t, dir, "test DIR/pet-shop-adapter.md"); out != "3 examples, all passed\n" || code != 0 {
		t.Error(out, errOut)
	}
	if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR --allow-partial"); code != exitOther || !strings.Contains(errOut, "DIR/pet-shop-adapter.md exists: bring changes into it with --update") {
		t.Error(code, errOut)
	}
}

func TestAdapterImportSelection(t *testing.T) {
	dir := documentIn(t, "https://pets.example.com/v1")
	for args, want := range map[string]string{
		"--include tag:pets":                                  "list_pets delete_pet",
		"--include tag:pets --exclude method:delete":          "list_pets",
		"--include path:/pets/**":                             "delete_pet",
		"--include path:/*":                                   "list_pets list_owners",
		"--include id:list*":                                  "list_pets list_owners",
		"--include op:*_pets":                                 "list_pets",
		"--exclude path:/pets** --allow-partial":              "list_owners",
		"--include path:/old --deprecated":                    "get_old",
		"--include tag:pets --examples=false":                 "list_pets delete_pet",
		"--include tag:pets --name zoo":                       "list_pets delete_pet",
		"--include tag:pets --fields":                         "list_pets delete_pet",
		"--include tag:pets --server https://h.example.com/x": "list_pets delete_pet",
	} {
		all := args
		if !strings.Contains(args, "--include tag") && !strings.Contains(args, "partial") {
			all += " --allow-partial"
		}
		out, errOut, code := importing(t, dir, "import DIR/api.yaml -o - "+all)
		var names []string
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(line, "    - name: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		if strings.Join(names, " ") != want || code != 0 {
			t.Errorf("%s: %d %v %s", args, code, names, errOut)
		}
		if strings.Contains(out, "default_fields: [id, name, kind]") != strings.Contains(args, "--fields") {
			t.Errorf("%s: default_fields", args)
		}
		if strings.Contains(out, "```golden") == strings.Contains(args, "examples=false") {
			t.Errorf("%s: examples", args)
		}
	}
	for args, want := range map[string]string{
		"--include pets":                         `selector "pets": want tag:NAME`,
		"--include tag:none":                     "no operation of 5 is selected",
		"--split folder":                         "--split folder: want none, tag or path",
		"--server 3":                             "--server 3: the document has 1 servers",
		"--server pets.example.com":              `--server: the server "pets.example.com" is relative`,
		"--server http://pets.example.com":       "is not https",
		"--server-var x":                         "--server-var x: want NAME=VALUE",
		"--include path:/old":                    "are deprecated: import them with --deprecated",
		"--include tag:pets --name Zoo":          "Adapter name is not valid",
		"--include tag:pets --update x --name z": "exclude each other",
		"--update x --fields":                    "exclude each other",
		"--max-ops 1":                            "4 operations are selected, more than --max-ops 1",
		"--split tag --allow-partial":            "2 files cannot be written to standard output",
	} {
		if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o - "+args); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
	_, errOut, _ := importing(t, dir, "import DIR/api.yaml -o DIR --max-ops 1")
	if want := "2  dragoman adapter import DIR/api.yaml --include tag:pets\n"; !strings.Contains(errOut, want) {
		t.Errorf("no %q in %s", want, errOut)
	}
	if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR/new --split tag --allow-partial --max-ops 0"); code != 0 || !strings.Contains(errOut, "serve --adapters DIR/new\n") {
		t.Error(code, errOut)
	}
	for _, name := range []string{"new/pet-shop-pets-adapter.md", "new/pet-shop-owners-adapter.md"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestAdapterImportReads(t *testing.T) {
	dir := folderWith(t, map[string]string{"bad.json": "{\n\"openapi\": \"3.0.0\",\n", "page.html": "<!doctype html>", "empty.yaml": ""})
	for args, want := range map[string]string{
		"import DIR/none.yaml":                "no such file",
		"import DIR":                          "DIR is a directory, not a document",
		"import DIR/bad.json":                 "bad.json:3: not valid JSON",
		"import DIR/page.html":                "page.html:1: not a description of an API",
		"import DIR/empty.yaml":               "empty.yaml: the document is empty",
		"import https://127.0.0.1:1/x":        "a URL is fetched only with --fetch",
		"import --fetch http://example.com/x": "documents are fetched from https URLs",
		"import --fetch https://u:p@h/x":      "documents are fetched from https URLs",
	} {
		if _, errOut, code := importing(t, dir, args); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
	out, errOut, err := run(t.Context(), strings.Replace(petsDocument, "BASE", "https://pets.example.com", 1), "adapter", "import", "-", "-o", "-", "--include", "tag:pets")
	if err != nil || !strings.Contains(out, "name: list_pets") {
		t.Error(out, errOut, err)
	}
	// Files below the document's folder are read; a link does not lead out of it.
	dir = folderWith(t, map[string]string{
		"api.yaml":  "openapi: 3.0.0\ninfo: {title: Files, version: 1}\nservers: [{url: 'https://h.example.com'}]\npaths: {/a: {$ref: 'a.yaml'}, /b: {$ref: 'link.yaml'}, /c: {$ref: 'https://127.0.0.1:1/c.yaml'}}\n",
		"a.yaml":    "get: {operationId: getA, responses: {'200': {description: x}}}",
		"secret.md": "",
	})
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	write(t, outside, "get: {operationId: getB, responses: {'200': {description: x}}}")
	if err := os.Symlink(outside, filepath.Join(dir, "link.yaml")); err != nil {
		t.Skip(err)
	}
	out, errOut, code := importing(t, dir, "import DIR/api.yaml -o - --allow-partial")
	if code != 0 || !strings.Contains(out, "name: get_a") || strings.Contains(out, "get_b") || !strings.Contains(out, `$ref "link.yaml": the file cannot be read`) || !strings.Contains(out, "a URL is fetched only with --fetch") {
		t.Error(code, out, errOut)
	}
	// A limit that is reached fails, also with --allow-partial: what would be written is less than the document says.
	out, errOut, code = importing(t, dir, "import DIR/api.yaml -o - --allow-partial --max-files 1")
	if code != exitUsage || out != "" || !strings.Contains(errOut, "more than 1 files: allow more with --max-files") {
		t.Error(code, out, errOut)
	}
}

func TestAdapterDiffAndUpdate(t *testing.T) {
	dir := documentIn(t, "https://pets.example.com/v1")
	if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR --include tag:pets"); code != 0 {
		t.Fatal(errOut)
	}
	if out, errOut, code := importing(t, dir, "diff DIR/pet-shop-adapter.md DIR/api.yaml"); out+errOut != "" || code != 0 {
		t.Error(code, out, errOut)
	}
	old, _ := os.ReadFile(filepath.Join(dir, "api.yaml"))
	write(t, filepath.Join(dir, "new.yaml"), strings.NewReplacer("maximum: 100", "maximum: 50", "  /owners:", "  /cats: {get: {operationId: listCats, tags: [pets], responses: {'200': {description: ok}}}}\n  /owners:").Replace(string(old)))
	out, errOut, code := importing(t, dir, "diff DIR/pet-shop-adapter.md DIR/new.yaml")
	const want = "breaking  list_pets (GET /pets): parameter limit: maximum is 50, and was 100\n          list_cats (GET /cats): is new: List cats\n"
	if out != want || errOut != "2 changes since DIR/pet-shop-adapter.md was made of the document\n" || code != exitDiffers {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	out, _, code = importing(t, dir, "diff --json --breaking DIR/pet-shop-adapter.md DIR/new.yaml")
	var changes []struct {
		Kind, Operation, What string
		MapsTo                string `json:"maps_to"`
		Breaking              bool
	}
	if err := json.Unmarshal([]byte(out), &changes); err != nil || len(changes) != 1 || changes[0].Kind != "narrowed" || !changes[0].Breaking || code != exitDiffers {
		t.Error(code, out, err)
	}
	if out, _, code := importing(t, dir, "diff --json DIR/pet-shop-adapter.md DIR/api.yaml"); out != "[]\n" || code != 0 {
		t.Error(code, out)
	}
	out, errOut, code = importing(t, dir, "import DIR/new.yaml --update DIR/pet-shop-adapter.md")
	if out != "changed list_pets (GET /pets)\nadded list_cats (GET /cats)\nDIR/pet-shop-adapter.md: updated\n" || errOut != "" || code != 0 {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	if out, errOut, code := importing(t, dir, "import DIR/new.yaml --update DIR/pet-shop-adapter.md"); out != "DIR/pet-shop-adapter.md: nothing has changed\n" || code != 0 {
		t.Error(code, out, errOut)
	}
	if out, _, code := importing(t, dir, "test DIR/pet-shop-adapter.md"); out != "3 examples, all passed\n" || code != 0 {
		t.Error(code, out)
	}
	// A conflict changes nothing.
	path := filepath.Join(dir, "pet-shop-adapter.md")
	text, _ := os.ReadFile(path)
	mine := strings.Replace(string(text), "maximum: 50", "maximum: 30", 1)
	write(t, path, mine)
	out, errOut, code = importing(t, dir, "import DIR/api.yaml --base DIR/new.yaml --update DIR/pet-shop-adapter.md")
	now, _ := os.ReadFile(path)
	if code != exitOther || !strings.Contains(errOut, ": list_pets: params.limit.maximum: the file has 30, the document has 100\n1 conflict: nothing is written\n") || string(now) != mine {
		t.Error(code, out, errOut)
	}
	for args, want := range map[string]string{
		"diff DIR/none.md DIR/api.yaml":                                                       "no such file",
		"diff DIR/api.yaml DIR/api.yaml":                                                      "front matter must start",
		"diff DIR/pet-shop-adapter.md DIR/none":                                               "no such file",
		"import DIR/api.yaml --update DIR/none.md":                                            "no such file",
		"import DIR/new.yaml --base DIR/api.yaml --update DIR/pet-shop-adapter.md":            "--base is not the document of which the file was made",
		"import DIR/new.yaml --update DIR/pet-shop-adapter.md --base DIR/pet-shop-adapter.md": "not valid YAML",
	} {
		if _, errOut, code := importing(t, dir, args); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
}

// TestUpdateAfterTheServerMoved: a document with another server updates the file, and its examples with it.
func TestUpdateAfterTheServerMoved(t *testing.T) {
	dir := documentIn(t, "https://pets.example.com/v1")
	if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR --include tag:pets"); code != 0 {
		t.Fatal(errOut)
	}
	old, _ := os.ReadFile(filepath.Join(dir, "api.yaml"))
	write(t, filepath.Join(dir, "new.yaml"), strings.ReplaceAll(string(old), "https://pets.example.com/v1", "https://new.example.com"))
	out, errOut, code := importing(t, dir, "import DIR/new.yaml --update DIR/pet-shop-adapter.md")
	if out != "changed target.base_url to https://new.example.com\nDIR/pet-shop-adapter.md: updated\n" || errOut != "" || code != 0 {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	if out, errOut, code := importing(t, dir, "test DIR/pet-shop-adapter.md"); !strings.Contains(out, "all passed") || code != 0 {
		t.Error(code, out, errOut)
	}
}

// TestAdapterImportedCall imports a document and calls the API that it describes.
func TestAdapterImportedCall(t *testing.T) {
	t.Setenv("PET_SHOP_KEY", "k1")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Key") != "k1" || r.URL.RequestURI() != "/v1/pets?limit=2" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = w.Write([]byte(`[{"name":"Rex"}]`))
	}))
	defer api.Close()
	dir := documentIn(t, api.URL+"/v1")
	if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR --include tag:pets"); code != 0 {
		t.Fatal(errOut)
	}
	out, errOut, code := importing(t, dir, "call pet-shop list_pets limit=2")
	if code != 0 || !strings.Contains(out, "Rex") {
		t.Error(code, out, errOut)
	}
}

// TestDocumentsOfThisMachineAreFetched reads a document of a server on this machine, which has no certificate. Its API is there, too.
func TestDocumentsOfThisMachineAreFetched(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/docs/openapi.json":
			_, _ = w.Write([]byte(`{"openapi": "3.1.0", "info": {"title": "Local", "version": "1"}, "paths": {"/a": {"$ref": "a.json"}, "/b": {"$ref": "http://` + r.Host + `/docs/b.json"},
				"/c": {"$ref": "http://localhost:1/c.json"}, "/d": {"$ref": "http://x.example/d.json"}}}`))
		case "/docs/a.json", "/docs/b.json":
			_, _ = w.Write([]byte(`{"get": {"operationId": "` + r.URL.Path[6:7] + `", "responses": {}}}`))
		case "/away":
			http.Redirect(w, r, "http://x.example/", http.StatusFound)
		}
	}))
	defer api.Close()
	r := &documents{fetch: true, files: openapi.MaxFiles}
	d, err := r.read(t.Context(), api.URL+"/docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(openapi.Options{})
	if err != nil || in.Files[0].Operations != 2 || in.Dropped != 2 || !strings.Contains(string(in.Files[0].Front()), `base_url: "`+api.URL+`"`) {
		t.Errorf("%v %+v", err, in)
	}
	if _, err := r.read(t.Context(), api.URL+"/away"); err == nil || !strings.Contains(err.Error(), "documents are fetched from https URLs") {
		t.Error(err)
	}
}

// TestDocumentsAreFetched reads documents over https.
func TestDocumentsAreFetched(t *testing.T) {
	var asked []string
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if len(r.Header["Authorization"])+len(r.Header["Cookie"]) > 0 {
			t.Error("a credential was sent")
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/d/api.yaml", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/d/api.yaml", http.StatusFound)
		case "/d/api.yaml":
			_, _ = w.Write([]byte("openapi: 3.0.0\ninfo: {title: Fetched, version: 1}\nservers: [{url: 'https://h.example.com'}]\npaths: {/a: {$ref: 'paths/a.yaml'}, /b: {$ref: 'https://localhost:1/b.yaml'}}\n"))
		case "/d/paths/a.yaml":
			_, _ = w.Write([]byte("get: {operationId: getA, responses: {'200': {description: x}}}"))
		case "/page":
			_, _ = w.Write([]byte("\n<!DOCTYPE html><html></html>"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	roots := x509.NewCertPool()
	roots.AddCert(api.Certificate())
	r := &documents{fetch: true, files: openapi.MaxFiles, roots: roots}
	d, err := r.read(t.Context(), api.URL+"/d/api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(openapi.Options{})
	if err != nil || in.Files[0].Operations != 1 || in.Dropped != 1 || !strings.Contains(in.Findings[0].What, "address not allowed") {
		t.Errorf("%v %+v", err, in)
	}
	if got := strings.Join(asked, " "); got != "/d/api.yaml /d/paths/a.yaml" {
		t.Error(got)
	}
	if _, err := r.read(t.Context(), api.URL+"/moved"); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"/round": "more than 3 redirects", "/plain": "documents are fetched from https URLs", "/none": "404 Not Found", "/page": "is a web page, not a document",
	} {
		if _, err := r.read(t.Context(), api.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	r.publicOnly = true
	if _, err := r.read(t.Context(), api.URL+"/d/api.yaml"); err == nil || !strings.Contains(err.Error(), "address not allowed") {
		t.Error(err)
	}
}

// TestAdapterImportIsTooLarge: the error for a file that would be too large names the ways to smaller ones, and those work.
func TestAdapterImportIsTooLarge(t *testing.T) {
	const about = "a parameter with a description of its own, by which the one of operation "
	var b strings.Builder
	b.WriteString(`{"openapi": "3.0.0", "info": {"title": "Big", "version": "1"}, "servers": [{"url": "https://big.example.com"}], "paths": {`)
	for i := range 1300 {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `"/area%d/thing%d": {"get": {"operationId": "getThing%d", "tags": ["tag%d"], "summary": "Get thing %d", "parameters": [`, i%3, i, i, i%2, i)
		for k := range 8 {
			fmt.Fprintf(&b, `%.*s{"name": "filter%d_%d", "in": "query", "schema": {"type": "string"}, "description": "%s%d differs from all"}`, min(k, 1), ",", i, k, about, i*k)
		}
		b.WriteString(`], "responses": {"200": {"description": "ok"}}}}`)
	}
	b.WriteString("}}")
	dir := folderWith(t, map[string]string{"api.yaml": b.String()})
	_, errOut, code := importing(t, dir, "import DIR/api.yaml --max-ops 0 -o DIR/one")
	if code != exitUsage || !strings.Contains(errOut, "big-adapter.md would have 1") || !strings.Contains(errOut, "bytes, the limit is 1048576: select fewer operations with --include, or use --split tag or --split path") {
		t.Errorf("%d %s", code, errOut)
	}
	if _, errOut, code = importing(t, dir, "import DIR/api.yaml --max-ops 0 --split path -o DIR/several"); code != 0 || strings.Count(errOut, "-adapter.md: ") != 3 {
		t.Errorf("%d %s", code, errOut)
	}
	many := `{"openapi": "3.0.0", "info": {"title": "Many", "version": "1"}, "servers": [{"url": "https://big.example.com"}], "paths": {`
	for i := range 2001 {
		many += fmt.Sprintf(`%.*s"/t%d/x": {"get": {"operationId": "get%d", "responses": {}}}`, min(i, 1), ",", i, i)
	}
	dir = folderWith(t, map[string]string{"api.yaml": many + "}}"})
	if _, errOut, code = importing(t, dir, "import DIR/api.yaml --max-ops 0 -o DIR/one"); code != exitUsage || !strings.Contains(errOut, "many-adapter.md would have 2001 operations, the limit is 2000: select fewer operations with --include, or use --split tag or --split path") {
		t.Errorf("%d %s", code, errOut)
	}
	dir = folderWith(t, map[string]string{"x-adapter.md": "---\n" + strings.Repeat("# "+strings.Repeat("x", 70)+"\n", 20_000) + "---\n"})
	if out, errOut, code := importing(t, dir, "validate DIR/x-adapter.md"); code == 0 || !strings.Contains(out+errOut, "--split") {
		t.Errorf("%d %s %s", code, out, errOut)
	}
}

// TestAdapterImportMakesChoices runs the command with the flags for parameters, names and authentication, and updates the file.
func TestAdapterImportMakesChoices(t *testing.T) {
	t.Setenv("PET_SHOP_TOKEN", "")
	dir := documentIn(t, "https://pets.example.com/v1")
	_, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR --exclude path:/upload --set-param limit=20 --auth bearer --names operationId")
	if code != 0 || !strings.Contains(errOut, "set PET_SHOP_TOKEN to the credential") {
		t.Fatalf("%d %s", code, errOut)
	}
	path := filepath.Join(dir, "pet-shop-adapter.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const selection = `selection: {exclude: ["path:/upload"], set_params: {limit: "20"}, auth: "bearer", names: operationId, output_schema: true}`
	for _, want := range []string{"limit: {type: integer, maximum: 100, hidden: true, default: 20}", "tool_name: listPets\n", selection, "/pets?limit=20\n"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
	if out, errOut, code := importing(t, dir, "import DIR/api.yaml --update DIR/pet-shop-adapter.md"); code != 0 || !strings.Contains(out, "nothing has changed") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), `set_params: {limit: "20"}`, `omit_params: [limit]`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errOut, code := importing(t, dir, "import DIR/api.yaml --update DIR/pet-shop-adapter.md"); code != 0 || !strings.Contains(out, "changed list_pets") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	if data, _ = os.ReadFile(path); strings.Contains(string(data), "limit:") || strings.Contains(string(data), "limit=20") || !strings.Contains(string(data), `omit_params: ["limit"]`) {
		t.Errorf("%s", data)
	}
	for _, flag := range []string{"--omit-param limit", "--set-param limit=1", "--auth key", "--names operationId", "--include tag:pets", "--server 1", "--fields"} {
		_, errOut, code := importing(t, dir, "import DIR/api.yaml --update DIR/pet-shop-adapter.md "+flag)
		name, _, _ := strings.Cut(flag, " ")
		if code != exitUsage || !strings.Contains(errOut, name+" and --update exclude each other: what was chosen is in selection of x-source in DIR/pet-shop-adapter.md; edit it there, then run --update") {
			t.Errorf("%s: %d %s", flag, code, errOut)
		}
	}
	if _, errOut, code := importing(t, dir, "import DIR/api.yaml --update DIR/pet-shop-adapter.md -o DIR"); code != exitUsage || !strings.Contains(errOut, "--output and --update exclude each other") {
		t.Errorf("%d %s", code, errOut)
	}
	for args, want := range map[string]string{
		"--omit-param limt":                       "--omit-param limt: no operation has this parameter; did you mean limit?",
		"--set-param limit":                       "--set-param limit: want NAME=VALUE",
		"--set-param limit=1 --set-param limit=2": "--set-param limit is given twice",
		"--auth kye":                              "--auth kye: the document has no security scheme of this name; did you mean key?",
		"--names camelCase":                       "--names camelCase: want snake_case or operationId",
	} {
		if _, errOut, code := importing(t, dir, "import DIR/api.yaml -o DIR/other --exclude path:/upload "+args); code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", args, code, errOut)
		}
	}
}
