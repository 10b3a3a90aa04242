package adapterrt

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// planted are error answers of APIs with secrets in them that only their names tell. Each secret contains zq; says are words
// that must stay, since the caller needs them.
var planted = []struct {
	claim, kind, body string
	says              []string
}{
	{"members", "application/json", `{"message":"no","password":"zq1","api_key":"zq","user":"joe"}`, []string{"no", "joe"}},
	{"deep", "application/json", `{"error":{"message":"no","request":{"headers":[{"X-Api-Key":"zq"}],"n":{"o":{"credentials":{"a":["zq",{"b":"zq"}]}}}}},"id":"r1"}`, []string{"r1"}},
	{"deeper than is shown", "application/json", `{"error":` + strings.Repeat(`{"a":`, 40) + `{"token":"zq"}` + strings.Repeat(`}`, 40) + `}`, nil},
	{"as the message", "application/json", `{"message":{"password":"zq x","why":"is taken"}}`, []string{"is taken"}},
	{"as the message, by names", "application/json", `{"errors":{"password":"zq x","name":"is taken"}}`, []string{"is taken"}},
	{"as the error", "application/json", `{"error":{"details":{"client_secret":["zq 1","zq"]},"code":7}}`, []string{"7"}},
	{"a list of errors", "application/json", `{"errors":[{"message":"no","extensions":{"argument":{"token":"zq"}}}]}`, []string{"no"}},
	{"numbers", "application/json", `{"error":"no","secret":4711471199,"a":{"passphrase":471147}}`, []string{"no"}},
	{"escaped names", "application/json", `{"error":"no","\u0070assword":"zq","a\"b":{"client-Secret":"zq"}}`, []string{"no"}},
	{"a name twice", "application/json", `{"error":"no","token":"zq1","token":"zq2"}`, []string{"no"}},
	{"JSON in text", "application/json", `{"error":"no","sent":"{\"login\": {\"password\": \"zq\", \"user\": \"joe\"}}"}`, []string{"joe"}},
	{"escaped JSON in text", "application/json", `{"error":"no","sent":"{\"p\\u0061ssword\": \"zq\", \"user\": \"joe\"}"}`, []string{"joe"}},
	{"JSON in JSON in text", "application/json", `{"error":"no","sent":"{\"a\":\"{\\\"api_key\\\":\\\"zq\\\",\\\"user\\\":\\\"joe\\\"}\"}"}`, []string{"joe"}},
	{"JSON behind text", "application/json", `{"message":"cannot log in with {\"password\": \"zq zq\", \"user\": \"joe\"}"}`, []string{"cannot log in", "joe"}},
	{"JSON that is cut", "application/json", `{"message":"sent {\"user\": \"joe\", \"tokens\": [\"zq\", \"zq`, nil},
	{"a form", "application/json", `{"message":"cannot read user=joe&password=zq+zq,zq&api_key=zq&user[token]=zq"}`, []string{"user=joe"}},
	{"YAML", "application/json", `{"message":"no","config":"user: joe\npassword: zq zq zq\ncredentials:\n  a: zq\n  b:\n  - zq\nlast: one"}`, []string{"joe"}},
	{"what a field was given, FastAPI", "application/json", `{"detail":[{"type":"string_too_short","loc":["body","password"],"msg":"String should have at least 8 characters","input":"zq"}]}`, []string{"body.password", "at least 8 characters"}},
	{"what a field was given, Spring", "application/json", `{"message":"no","errors":[{"field":"apiKey","rejectedValue":"zq","defaultMessage":"size must be between 10 and 20"}]}`, []string{"size must be"}},
	{"what a field was given, express-validator", "application/json", `{"errors":[{"type":"field","value":"zq","msg":"Invalid value","path":"password","location":"body"}]}`, []string{"Invalid value"}},
	{"a header and its value", "application/json", `{"error":"no","sent":[{"name":"Authorization","value":"Custom zq"},{"key":"Cookie","value":"zq"}]}`, []string{"no"}},
	{"what is wrong with a secret, Rails", "application/json", `{"errors":{"password":["is too short (minimum is 8 characters)","can't be blank"]}}`, []string{"is too short (minimum is 8 characters)", "can't be blank"}},
	{"what is wrong with a secret, Django", "application/json", `{"password":["This field may not be blank."],"token":"zq"}`, []string{"This field may not be blank."}},
	{"what is wrong with a secret, quoted", "application/json", `{"errors":{"password":["'zq' is too short"]}}`, nil},
	{"text", "text/plain", `login failed: password=zq api_key: zq9zq`, []string{"login failed"}},
	{"a page", "text/html", `<html><input name="token" value="x"><p>password: zq1zq</p></html>`, nil},
	{"XML", "application/xml", `<Error><Code>Bad</Code><Password>zq zq</Password></Error>`, []string{"Bad"}},
	{"a form as the answer", "application/x-www-form-urlencoded", `error=no&client_secret=zq&access_token=zq`, []string{"error=no"}},
	{"YAML as the answer", "application/yaml", "error: no\npassword: zq zq\nsecrets:\n- zq\n- zq\nuser: joe\n", []string{"error: no", "joe"}},
	{"JSON that is none", "application/json", `{"error": no, "password": "zq zq", "token": 471147114711`, []string{"error"}},
}

// TestSecretsInErrorsOfAPIsStayBehind for every way in which a client or a log gets the error of an API.
func TestSecretsInErrorsOfAPIsStayBehind(t *testing.T) {
	const text = "read:\n- {name: get_status, maps_to: GET /status, description: Get the status, response: {as: auto}}"
	graph := "read:\n- {name: get_status, maps_to: POST /graphql, description: Get the status, query: 'query { a }', result_path: data.a}"
	for _, c := range planted {
		for how, rt := range map[string]*Runtime{
			"as JSON":        one(t, Options{}, api(t, say(422, c.kind, c.body)).URL, status),
			"as text":        one(t, Options{}, api(t, say(500, c.kind, c.body)).URL, text),
			"for developers": one(t, Options{DevErrors: true}, api(t, say(400, c.kind, c.body)).URL, status),
			"without bodies": one(t, Options{NoErrorBody: true}, api(t, say(400, c.kind, c.body)).URL, status),
			"GraphQL":        start(t, Options{}, map[string]string{"test-api-adapter.md": strings.Replace(front(api(t, say(200, c.kind, c.body)).URL, graph), "protocol: rest", "protocol: graphql", 1)}),
		} {
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
			got := string(r.JSON())
			if !gjson.Valid(got) {
				t.Fatalf("%s, %s: %s", c.claim, how, got)
			}
			if how == "GraphQL" && r.Failure == nil {
				continue // it is the data of a success, which the client asked for
			}
			if all := fmt.Sprint(got, r.Call.Original, r.Call.Cause); strings.Contains(all, "zq") || strings.Contains(all, "4711") {
				t.Errorf("%s, %s: %s", c.claim, how, all)
			}
			if how != "as JSON" {
				continue
			}
			for _, words := range c.says {
				if !strings.Contains(got, words) {
					t.Errorf("%s: %q is not in %s", c.claim, words, got)
				}
			}
		}
	}
}
