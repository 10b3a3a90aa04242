package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/tidwall/gjson"
)

var installJudges = sync.OnceValues(func() (modules, error) { return installModules("judges") })

// judges returns the packages of the judges. It skips the test if they are not wanted or cannot be installed.
func judges(t *testing.T) modules {
	t.Helper()
	testset.Need(t, testset.Judges, "node", "npm")
	m, err := installJudges()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// document returns GitHub's description of its API.
func document(t *testing.T, m modules) map[string]any {
	t.Helper()
	return described(t, m, "@octokit", "openapi", "generated", "api.github.com.json")
}

// described returns a description of an API from the judges' packages.
func described(t *testing.T, m modules, path ...string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{string(m)}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// within returns the value at a path of names, or nil if there is none.
func within(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// resolved returns v, or what v refers to by $ref.
func resolved(doc map[string]any, v any) map[string]any {
	for {
		ref, ok := within(v, "$ref").(string)
		if !ok {
			m, _ := v.(map[string]any)
			return m
		}
		v = within(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
}

// judged are operations whose body their APIs' documents describe. Each must be refused without the part in change.
type judged struct{ name, op, change, params string }

var github = []judged{
	{"update_gist", `maps_to: "PATCH /gists/{id}", params: {id: {type: string}, description: {type: string}}`, `request: {body_required: true}`, `{"id":"1"}`},
	{"update_org_variable", `maps_to: "PATCH /orgs/{org}/actions/variables/{name}", params: {org: {type: string}, name: {type: string}, value: {type: string}}`, `request: {body_required: true}`, `{"org":"o","name":"n"}`},
	{"update_variable", `maps_to: "PATCH /repos/{owner}/{repo}/actions/variables/{name}", params: {owner: {type: string}, repo: {type: string}, name: {type: string}, value: {type: string}}`, `request: {body_required: true}`, `{"owner":"o","repo":"r","name":"n"}`},
	{"update_hook", `maps_to: "PATCH /repos/{owner}/{repo}/hooks/{id}", params: {owner: {type: string}, repo: {type: string}, id: {type: integer}, url: {type: string, wire_path: config.url}}`, `request: {body_required: true}`, `{"owner":"o","repo":"r","id":1}`},
	{"set_suite_preferences", `maps_to: "PATCH /repos/{owner}/{repo}/check-suites/preferences", params: {owner: {type: string}, repo: {type: string}, auto_trigger_checks: {type: array, items: {type: object, properties: {app_id: {type: integer, required: true}, setting: {type: boolean, required: true}}}}}`, `request: {body_required: true}`, `{"owner":"o","repo":"r"}`},
	{"add_protection_rule", `maps_to: "POST /repos/{owner}/{repo}/environments/{env}/deployment_protection_rules", params: {owner: {type: string}, repo: {type: string}, env: {type: string}, integration_id: {type: integer}}`, `request: {body_required: true}`, `{"owner":"o","repo":"r","env":"e"}`},
	{"put_codespaces_secret", `maps_to: "PUT /repos/{owner}/{repo}/codespaces/secrets/{name}", params: {owner: {type: string}, repo: {type: string}, name: {type: string}, key_id: {type: string}}`, `request: {body_required: true}`, `{"owner":"o","repo":"r","name":"n"}`},
	{"put_dependabot_secret", `maps_to: "PUT /repos/{owner}/{repo}/dependabot/secrets/{name}", params: {owner: {type: string}, repo: {type: string}, name: {type: string}, key_id: {type: string}}`, `request: {body_required: true}`, `{"owner":"o","repo":"r","name":"n"}`},
	{"publish_codespace", `maps_to: "POST /user/codespaces/{name}/publish", params: {name: {type: string}, private: {type: boolean}}`, `request: {body_required: true}`, `{"name":"n"}`},
	{"update_runner", `maps_to: "PATCH /orgs/{org}/actions/hosted-runners/{id}", params: {org: {type: string}, id: {type: integer}, name: {type: string}}`, `request: {body_required: true}`, `{"org":"o","id":1}`},
	{"commit_tree", `maps_to: "POST /repos/{owner}/{repo}/git/trees", params: {owner: {type: string}, repo: {type: string}, path: {type: string}, sha: {type: string}}`, `request: {body: {tree: [{path: "{path}", mode: "100644", type: blob, sha: "{sha}"}]}}`, `{"owner":"o","repo":"r","path":"a","sha":"7638417db6d59f3c431d3e1f261cc637155684cd"}`},
}

const bracketForm = `request: {form_style: brackets, body_required: true}`

var stripe = []judged{
	{"create_customer", `maps_to: "POST /v1/customers", params: {name: {type: string}, address: {type: object, properties: {city: {type: string}}}}`, bracketForm, `{"name":"n","address":{"city":"c","line1":"l"}}`},
	{"create_checkout", `maps_to: "POST /v1/checkout/sessions", params: {mode: {type: string}, success_url: {type: string}, line_items: {type: array, items: {type: object}}}`, bracketForm, `{"mode":"payment","success_url":"https://h/x","line_items":[{"quantity":1,"price_data":{"currency":"usd","unit_amount":5,"product_data":{"name":"p"}}},{"price":"p","quantity":2}]}`},
	{"create_subscription", `maps_to: "POST /v1/subscriptions", params: {customer: {type: string}, items: {type: array, items: {type: object, properties: {price: {type: string}, quantity: {type: integer}}}}}`, bracketForm, `{"customer":"c","items":[{"price":"p","quantity":2}]}`},
	{"create_intent", `maps_to: "POST /v1/payment_intents", params: {amount: {type: integer}, currency: {type: string}, payment_method_types: {type: array}}`, bracketForm, `{"amount":5e1,"currency":"usd","payment_method_types":["card"]}`},
	{"create_price", `maps_to: "POST /v1/prices", params: {currency: {type: string}, unit_amount: {type: integer}, product_data: {type: object}, recurring: {type: object}}`, bracketForm, `{"currency":"usd","unit_amount":5,"product_data":{"name":"p"},"recurring":{"interval":"month"}}`},
	{"create_link", `maps_to: "POST /v1/payment_links", params: {line_items: {type: array}}`, bracketForm, `{"line_items":[{"price":"p","quantity":1}]}`},
	{"create_product", `maps_to: "POST /v1/products", params: {name: {type: string}, metadata: {type: object}, default_price_data: {type: object}}`, bracketForm, `{"name":"n","metadata":{"a":"b"},"default_price_data":{"currency":"usd","unit_amount":5}}`},
	{"create_invoice_item", `maps_to: "POST /v1/invoiceitems", params: {customer: {type: string}, amount: {type: integer}, currency: {type: string}, period: {type: object}}`, bracketForm, `{"customer":"c","amount":5,"currency":"usd","period":{"start":1,"end":2}}`},
	{"create_account", `maps_to: "POST /v1/accounts", params: {type: {type: string}, capabilities: {type: object}, business_profile: {type: object}}`, bracketForm, `{"type":"custom","capabilities":{"transfers":{"requested":true}},"business_profile":{"name":"n"}}`},
	{"create_schedule", `maps_to: "POST /v1/subscription_schedules", params: {customer: {type: string}, phases: {type: array}}`, bracketForm, `{"customer":"c","phases":[{"items":[{"price":"p"}],"iterations":2}]}`},
	{"create_empty_customer", `maps_to: "POST /v1/customers", params: {name: {type: string}}`, bracketForm, `{}`},
	{"list_charges", `maps_to: "GET /v1/charges", params: {expand: {type: array, STYLE}, created: {type: object, style: deep_object}}`, `style: brackets`, `{"expand":["data.customer"],"created":{"gte":5}}`},
}

// held sends the operations to a judge, with and without their request block.
func held(t *testing.T, base, serialization string, ops []judged) {
	t.Helper()
	for _, with := range []bool{true, false} {
		var list strings.Builder
		for _, op := range ops {
			text := op.op
			if strings.Contains(text, "STYLE") {
				style := "style: json"
				if with {
					style = op.change
				}
				text = strings.Replace(text, "STYLE", style, 1)
			} else if with {
				text += ", " + op.change
			}
			fmt.Fprintf(&list, "  - {name: %s, description: Judged, %s}\n", op.name, text)
		}
		file := "---\nname: judged\ntype: adapter\nversion: \"1.0.0\"\ndescription: An API that a judge plays\ntarget: {base_url: \"" + base + "\", transport: http, protocol: rest, serialization: " + serialization + "}\n" +
			"auth: {type: bearer, token_env: KEY}\noperations:\n  execute:\n" + list.String() + "---\n"
		path := filepath.Join(t.TempDir(), "judged-adapter.md")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		rt, err := adapterrt.New(adapterrt.Options{Getenv: func(string) (string, bool) { return "sk_test_123", true }, TrustOverrides: map[string]string{"judged": "official"}})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := rt.Load([]string{path}); err != nil {
			t.Fatal(problems)
		}
		for _, op := range ops {
			r := rt.Dispatch(context.Background(), adapterrt.Endpoint{}, &adapterrt.Request{Body: []byte(`{"operation":"` + op.name + `","params":` + op.params + `}`)})
			if ok := r.Call.Status >= 200 && r.Call.Status < 300; ok != with {
				t.Errorf("%s with %s: %v, status %d: %.500s", op.name, op.change, with, r.Call.Status, r.JSON())
			}
		}
		rt.Close()
	}
}

// TestGitHubAcceptsRequestBodies checks that Prism, with GitHub's document, accepts what these operations send and refuses what
// they would send without their request block.
func TestGitHubAcceptsRequestBodies(t *testing.T) {
	m := judges(t)
	doc := document(t, m)
	// Only the paths that are used: Prism takes half a minute to read the whole document. Without --errors it checks only
	// requests: some of GitHub's own examples of answers do not fit the document.
	paths := map[string]any{}
	for path, methods := range within(doc, "paths").(map[string]any) {
		pattern := strings.NewReplacer("{gist_id}", "{id}", "{hook_id}", "{id}", "{environment_name}", "{env}", "{secret_name}", "{name}", "{codespace_name}", "{name}", "{hosted_runner_id}", "{id}", "{issue_number}", "{n}").Replace(path)
		for _, op := range github {
			if strings.Contains(op.op, " "+pattern+`"`) {
				paths[path] = methods
			}
		}
	}
	cut := map[string]any{"openapi": doc["openapi"], "info": doc["info"], "paths": paths, "components": map[string]any{}}
	var keep func(v any)
	keep = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				at := strings.Split(strings.TrimPrefix(ref, "#/components/"), "/")
				of, _ := within(cut, "components", at[0]).(map[string]any)
				if of == nil {
					of = map[string]any{}
					cut["components"].(map[string]any)[at[0]] = of
				}
				if of[at[1]] == nil {
					of[at[1]] = within(doc, "components", at[0], at[1])
					keep(of[at[1]])
				}
			}
			for _, e := range v {
				keep(e)
			}
		case []any:
			for _, e := range v {
				keep(e)
			}
		}
	}
	keep(paths)
	text, err := json.Marshal(cut)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "github.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	base := prism(t, m, file)
	held(t, base, "json", github)
}

// TestStripeAcceptsForms is the same with stripe-mock and Stripe's document.
func TestStripeAcceptsForms(t *testing.T) {
	testset.Need(t, testset.Judges)
	bin := t.TempDir()
	install := exec.Command("go", "install", "github.com/stripe/stripe-mock@v0.203.0")
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("stripe-mock cannot be had here: %v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	mock := exec.CommandContext(ctx, filepath.Join(bin, "stripe-mock"), "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	stdout, err := mock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := mock.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = mock.Wait() }()
	base := ""
	for lines := bufio.NewScanner(stdout); base == "" && lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "Listening for HTTP at address: "); ok {
			base = "http://" + address
		}
	}
	if base == "" {
		t.Fatal("stripe-mock ended before it listened")
	}
	go io.Copy(io.Discard, stdout) // ends with the process
	held(t, base, "form", stripe)
}

// agrees checks that check finds no disagreement in the file of a shipped adapter, and that it finds each of the mistakes:
// pairs of texts, of which the second replaces the first.
func agrees(t *testing.T, name string, check func(a *file.Adapter) []string, mistakes ...[2]string) {
	t.Helper()
	path := "../../../deploy/adapters/" + name
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(text string) []string {
		a, problems := adapterrt.Parse(path, []byte(text), &adapterrt.Options{})
		if a == nil {
			t.Fatal(problems)
		}
		return check(a)
	}
	for _, p := range wrong(string(text)) {
		t.Error(p)
	}
	for _, m := range mistakes {
		if edited := strings.Replace(string(text), m[0], m[1], 1); edited == string(text) || len(wrong(edited)) == 0 {
			t.Errorf("%s is not found", m[1])
		}
	}
}

// TestGitHubAdapterAgreesWithGitHub compares the shipped adapter with GitHub's own document: every path and parameter
// must be there, in its place, with its type and its allowed values, and what GitHub requires must be required.
func TestGitHubAdapterAgreesWithGitHub(t *testing.T) {
	doc := document(t, judges(t))
	agrees(t, "github-adapter.md", func(a *file.Adapter) []string { return disagreements(doc, a) },
		[2]string{"enum: [APPROVE, REQUEST_CHANGES, COMMENT]", "enum: [APPROVE, REJECT, COMMENT]"},
		[2]string{"maintainer_can_modify: {type: boolean", "maintainer_may_modify: {type: boolean"},
		[2]string{"GET /repos/{owner}/{repo}/branches", "GET /repos/{owner}/{repo}/twigs"},
		[2]string{"title: {type: string, required: true", "title: {type: string"},
		[2]string{"draft: {type: boolean", "draft: {type: string"})
}

// notionSimplifies is what Notion's reference has and the document leaves out: blocks, icons and covers are objects there
// (here their JSON as text), update_block takes a member named for the block's type, and a comment may go on with a
// discussion instead of having a parent.
var notionSimplifies = regexp.MustCompile(`^create_page: (children \[\]|icon|cover) is of type string, not object$|^update_block: no member |` +
	`^create_comment: (parent is required|no member discussion_id of the body)$`)

// TestNotionAdapterAgreesWithNotion does the same with the document from which Notion's own MCP server is generated.
func TestNotionAdapterAgreesWithNotion(t *testing.T) {
	doc := described(t, judges(t), "@notionhq", "notion-mcp-server", "scripts", "notion-openapi.json")
	paths := map[string]any{}
	for path, methods := range within(doc, "paths").(map[string]any) {
		paths[strings.TrimPrefix(path, "/v1")] = methods
	}
	doc["paths"] = paths
	agrees(t, "notion-adapter.md", func(a *file.Adapter) (wrong []string) {
		simplified := 0
		for _, d := range disagreements(doc, a) {
			if notionSimplifies.MatchString(d) {
				simplified++
			} else {
				wrong = append(wrong, d)
			}
		}
		if simplified == 0 {
			t.Error("the document has become whole: what it left out need not be forgiven any more")
		}
		return wrong
	},
		[2]string{"POST /search", "POST /find"},
		[2]string{"rich_text: {type: array, required: true", "rich_text: {type: array"},
		[2]string{"children: {type: array, required: true", "child: {type: array, required: true"},
		[2]string{"filter_properties: {type: array, in: query", "filter_property: {type: array, in: query"})
}

// TestLinearAdapterAgreesWithLinear validates the documents of the shipped adapter by the schema of Linear's SDK.
func TestLinearAdapterAgreesWithLinear(t *testing.T) {
	m := judges(t)
	agrees(t, "linear-adapter.md", func(a *file.Adapter) (wrong []string) {
		documents := map[string]string{}
		for _, op := range a.Operations {
			documents[op.Name] = gjson.GetBytes(op.GraphQL.Head, "query").String()
		}
		in, err := json.Marshal(documents)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "node", "judges/linear.mjs", string(m))
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%v\n%s", err, exit.Stderr)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &wrong); err != nil || len(documents) == 0 {
			t.Fatalf("%v: %s", err, out)
		}
		return wrong
	},
		[2]string{"$dueDate: TimelessDate", "$dueDate: String"},
		[2]string{"viewer { id name displayName", "viewer { id nick displayName"},
		[2]string{"issueCreate(input: {teamId: $teamId", "issueCreate(input: {team: $teamId"},
		[2]string{"$orderBy: PaginationOrderBy", "$orderBy: Order"})
}
