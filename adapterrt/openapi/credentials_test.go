package openapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestCredentialsAmongParameters: a credential that a document describes as a parameter is sent by auth, and no tool has it.
func TestCredentialsAmongParameters(t *testing.T) {
	const (
		key       = `{name: api_key, in: query, required: true, schema: {type: string}}`
		xkey      = `{name: X-API-Key, in: header, required: true, schema: {type: string}}`
		bearerArg = `{name: Authorization, in: header, required: true, description: 'Bearer {token}', schema: {type: string}}`
		id        = `{name: id, in: query, schema: {type: string}}`
	)
	for name, c := range map[string]struct {
		a, b, c, schemes string // the parameters of three operations
		auth             string // of the file
		left             string // parameters of the operations, beside id
	}{
		"a key in the query":          {key, key, key, "", "type: api_key, in: query, query_name: api_key, key_env: HOSTILE_KEY", ""},
		"a key in a header":           {xkey, xkey, xkey, "", "type: api_key, header_name: X-API-Key, key_env: HOSTILE_KEY", ""},
		"an optional one":             {strings.Replace(key, "true", "false", 1), strings.Replace(key, "true", "false", 1), "", "", "type: api_key, in: query, query_name: api_key, key_env: HOSTILE_KEY", ""},
		"Authorization, Bearer":       {bearerArg, bearerArg, "", "", "type: bearer, token_env: HOSTILE_TOKEN", ""},
		"Authorization, an example":   {`{name: Authorization, in: header, schema: {type: string, example: Bearer abc}}`, "", "", "", "type: bearer, token_env: HOSTILE_TOKEN", ""},
		"Authorization, Basic":        {`{name: authorization, in: header, description: Basic authentication, schema: {type: string}}`, id, id, "", "type: basic, username_env: HOSTILE_USERNAME, password_env: HOSTILE_PASSWORD", ""},
		"Authorization, unsaid":       {`{name: Authorization, in: header, schema: {type: string}}`, id, id, "", `type: bearer, token_env: HOSTILE_TOKEN, prefix: ""`, ""},
		"a cookie":                    {`{name: JSESSIONID, in: cookie, required: true, schema: {type: string}}`, "", "", "", "type: api_key, in: cookie, cookie_name: JSESSIONID, key_env: HOSTILE_KEY", ""},
		"access_token":                {`{name: access_token, in: query, schema: {type: string}}`, `{name: access_token, in: query, schema: {type: string}}`, "", "", "type: api_key, in: query, query_name: access_token, key_env: HOSTILE_KEY", ""},
		"header and query":            {key + ", " + xkey, key + ", " + xkey, key + ", " + xkey, "", "type: api_key, header_name: X-API-Key, key_env: HOSTILE_KEY; type: api_key, in: query, query_name: api_key, key_env: HOSTILE_API_KEY", ""},
		"header or query":             {strings.ReplaceAll(key+", "+xkey, "true", "false"), strings.ReplaceAll(key+", "+xkey, "true", "false"), "", "", "type: api_key, header_name: X-API-Key, key_env: HOSTILE_KEY", ""},
		"two keys":                    {`{name: DD-API-KEY, in: header, required: true, schema: {type: string}}, {name: DD-APPLICATION-KEY, in: header, required: true, schema: {type: string}}`, "", "", "", "type: api_key, header_name: DD-API-KEY, key_env: HOSTILE_KEY; type: api_key, header_name: DD-APPLICATION-KEY, key_env: HOSTILE_DD_APPLICATION_KEY", ""},
		"a described name":            {`{name: key, in: query, required: true, description: Your API key, schema: {type: string}}`, `{name: key, in: query, required: true, schema: {type: string}}`, `{name: key, in: query, required: true, description: API key, schema: {type: string}}`, "", "type: api_key, in: query, query_name: key, key_env: HOSTILE_KEY", ""},
		"a name that is none":         {`{name: key, in: query, required: true, description: The key of the issue, schema: {type: string}}`, "", "", "", "type: none", "key"},
		"the key of a few":            {id, `{name: key, in: query, required: true, description: The API key to look up, schema: {type: string}}`, id, "", "type: none", "key"},
		"a page token":                {`{name: page_token, in: query, schema: {type: string}}, {name: X-Page-Token, in: header, schema: {type: string}}, {name: X-CSRF-Token, in: header, schema: {type: string}}`, "", "", "", "type: none", "page_token x_page_token x_csrf_token"},
		"a number":                    {`{name: token, in: query, schema: {type: integer}, description: The token count of your API key}`, "", "", "", "type: none", "token"},
		"beside a token":              {`{name: access_token, in: query, required: true, schema: {type: string}}`, `{name: token, in: header, required: true, description: Authentication token, schema: {type: string}}`, "", "{o: {type: http, scheme: bearer}}", "type: bearer, token_env: HOSTILE_TOKEN", ""},
		"a key beside a token":        {`{name: Ocp-Apim-Subscription-Key, in: header, required: true, schema: {type: string}}`, `{name: Ocp-Apim-Subscription-Key, in: header, required: true, schema: {type: string}}`, "", "{o: {type: http, scheme: bearer}}", "type: bearer, token_env: HOSTILE_TOKEN; type: api_key, header_name: Ocp-Apim-Subscription-Key, key_env: HOSTILE_OCP_APIM_SUBSCRIPTION_KEY", ""},
		"the scheme's own":            {key, key, key, "{o: {type: apiKey, in: query, name: api_key}}", "type: api_key, in: query, query_name: api_key, key_env: HOSTILE_KEY", ""},
		"a key of few beside a token": {`{name: X-Admin-Key, in: header, required: true, schema: {type: string}}`, id, id, "{o: {type: http, scheme: bearer}}", "type: bearer, token_env: HOSTILE_TOKEN", "x_admin_key"},
		"schemes that nothing asks for": {`{name: key, in: query, required: true, schema: {type: string}}, {name: token, in: query, required: true, schema: {type: string}}`, `{name: key, in: query, required: true, schema: {type: string}}, {name: token, in: query, required: true, schema: {type: string}}`, id,
			"-{k: {type: apiKey, in: query, name: key}, t: {type: apiKey, in: query, name: token}}", "type: api_key, in: query, query_name: key, key_env: HOSTILE_KEY; type: api_key, in: query, query_name: token, key_env: HOSTILE_TOKEN", ""},
		"Amazon's signature": {`{name: X-Amz-Security-Token, in: header, schema: {type: string}}, {name: X-Amz-Signature, in: header, schema: {type: string}}`, "", "", "{o: {type: apiKey, in: header, name: Authorization}}", `type: bearer, token_env: HOSTILE_TOKEN, prefix: ""`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			op := func(path, params string) string {
				return path + ": {get: {operationId: get" + path[1:] + ", parameters: [" + params + "]}}"
			}
			text := document(op("/a", c.a)+", "+op("/b", c.b)+", "+op("/c", c.c), "")
			schemes, unused := strings.CutPrefix(c.schemes, "-")
			if c.schemes != "" {
				text = strings.Replace(text, "components: {", "components: {securitySchemes: "+schemes+", ", 1)
				if !unused {
					text = strings.Replace(text, "paths:", "security: [{o: []}]\npaths:", 1)
				}
			}
			in, _ := written(t, parse(t, "d", []byte(text), ""), openapi.Options{})
			front := string(in.Files[0].Front())
			if got := authOf(front); got != c.auth {
				t.Errorf("auth: %s\nwant  %s", got, c.auth)
			}
			a, problems := file.Parse("", []byte(front), &file.Options{})
			if a == nil {
				t.Fatal(problems)
			}
			var left []string
			for _, op := range a.Operations {
				for _, p := range op.Params {
					if p.Name != "id" && !p.Hidden {
						left = append(left, p.Name)
					}
				}
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("parameters: %s, want %s", got, c.left)
			}
		})
	}
}

// authOf returns the auth block on one line.
func authOf(front string) string {
	_, block, _ := strings.Cut(front, "auth:\n")
	block, _, _ = strings.Cut(block, "\n\n")
	var parts []string
	further := ""
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "- {"); ok {
			further += "; " + strings.TrimSuffix(rest, "}")
		} else if line != "also:" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, ", ") + further
}

// TestOnlySomeNeedTheKey: where fewer than half of the operations have the key, and no scheme names those that need it, the others are sent without.
func TestOnlySomeNeedTheKey(t *testing.T) {
	in := importOf(t, document(`/a: {get: {parameters: [{name: X-API-Key, in: header, required: true, schema: {type: string}}]}}, /b: {get: {}}, /c: {get: {}}`, ""))
	want := []string{"GET https://h.example.com/a", "GET https://h.example.com/b without credentials", "GET https://h.example.com/c without credentials"}
	if d := cmp.Diff(want, requests(t, in.Files[0])); d != "" {
		t.Error(d)
	}
}

// TestCredentialsOfForms: a document of Slack's kind has the token in the query, a header or the form of each operation, beside OAuth. One
// that an operation works on stays.
func TestCredentialsOfForms(t *testing.T) {
	const text = `{"swagger": "2.0", "info": {"title": "Slack", "version": "1"}, "host": "slack.com", "basePath": "/api", "schemes": ["https"],
		"securityDefinitions": {"o": {"type": "oauth2", "flow": "accessCode", "authorizationUrl": "https://slack.com/a", "tokenUrl": "https://slack.com/t", "scopes": {"chat:write": "x"}}},
		"security": [{"o": ["chat:write"]}],
		"paths": {
			"/chat.postMessage": {"post": {"operationId": "chat_postMessage", "consumes": ["application/x-www-form-urlencoded"], "parameters": [
				{"name": "token", "in": "header", "required": true, "type": "string", "description": "Authentication token. Requires scope: chat:write"},
				{"name": "text", "in": "formData", "required": true, "type": "string"}]}},
			"/dialog.open": {"get": {"operationId": "dialog_open", "parameters": [
				{"name": "token", "in": "query", "required": true, "type": "string", "description": "Authentication token. Requires scope: none"}]}},
			"/files.upload": {"post": {"operationId": "files_upload", "consumes": ["application/x-www-form-urlencoded"], "parameters": [
				{"name": "token", "in": "formData", "type": "string", "required": true, "description": "Authentication token. Requires scope: files:write:user"},
				{"name": "title", "in": "formData", "type": "string"}]}},
			"/oauth.access": {"get": {"operationId": "oauth_access", "parameters": [
				{"name": "client_secret", "in": "query", "required": true, "type": "string"}]}}}}`
	in := importOf(t, text)
	a, problems := file.Parse("", in.Files[0].Front(), &file.Options{})
	if a == nil {
		t.Fatal(problems)
	}
	var got []string
	for _, op := range a.Operations {
		got = append(got, op.Name+"("+strings.Join(op.Names(), ", ")+")")
	}
	if d := cmp.Diff([]string{"chat_post_message(text)", "files_upload(title)", "dialog_open()", "oauth_access(client_secret)"}, got); d != "" {
		t.Error(d)
	}
	if a.Auth.OAuth == nil || len(a.Auth.Also) > 0 {
		t.Errorf("%+v", a.Auth)
	}
}

// TestWhatOperationsWorkOnStays: a token that is the object of an operation is no credential of the API.
func TestWhatOperationsWorkOnStays(t *testing.T) {
	text := document(`/endpoints: {post: {operationId: addEndpoint, requestBody: {content: {application/json: {schema: {type: object, properties: {token: {type: string, description: The access token of the endpoint}, url: {type: string}}}}}}}},
		/guilds/members: {put: {operationId: addMember, requestBody: {content: {application/json: {schema: {type: object, properties: {access_token: {type: string}}}}}}}},
		/users/credentials: {post: {operationId: addCredentials, parameters: [{name: access_key, in: query, schema: {type: string}}, {name: secret_key, in: query, schema: {type: string}}]}},
		/oauth/revoke: {post: {operationId: revoke, parameters: [{name: access_token, in: query, schema: {type: string}}]}},
		/files: {get: {operationId: getFile, parameters: [{name: access_token, in: query, description: Instead of the header, schema: {type: string}}]}},
		/a: {get: {operationId: a}}, /b: {get: {operationId: b}}`, "")
	text = strings.Replace(text, "components: {", "security: [{b: []}]\ncomponents: {securitySchemes: {b: {type: http, scheme: bearer}}, ", 1)
	a, problems := file.Parse("", importOf(t, text).Files[0].Front(), &file.Options{})
	if a == nil {
		t.Fatal(problems)
	}
	var got []string
	for _, op := range a.Operations {
		got = append(got, op.Name+"("+strings.Join(op.Names(), ", ")+")")
	}
	if d := cmp.Diff([]string{"add_endpoint(token, url)", "add_credentials(access_key, secret_key)", "get_file()", "a()", "b()", "add_member(access_token)", "revoke(access_token)"}, got); d != "" {
		t.Error(d)
	}
}

// TestSignaturesOfAWS: a document of one of Amazon's services has its requests signed, for the region of its server.
func TestSignaturesOfAWS(t *testing.T) {
	const text = `{"openapi": "3.0.0", "info": {"title": "DynamoDB", "version": "1", "x-serviceName": "dynamodb"}, "security": [{"hmac": []}],
		"components": {"securitySchemes": {"hmac": {"type": "apiKey", "in": "header", "name": "Authorization", "x-amazon-apigateway-authtype": "awsSigv4"}}},
		"servers": [{"url": "https://dynamodb.{region}.amazonaws.com", "variables": {"region": {"default": "us-east-1", "enum": ["us-east-1", "us-gov-west-1", "eu-central-1"]}}}],
		"paths": {"/#X-Amz-Target=DynamoDB_20120810.ListTables": {"parameters": [{"name": "X-Amz-Signature", "in": "header", "schema": {"type": "string"}}], "post": {"operationId": "ListTables", "parameters": [
			{"name": "X-Amz-Target", "in": "header", "required": true, "schema": {"type": "string", "enum": ["DynamoDB_20120810.ListTables"]}}]}}}}`
	for region, want := range map[string]string{"": "us-east-1", "us-gov-west-1": "us-gov-west-1"} {
		opt := openapi.Options{}
		if region != "" {
			opt.ServerVars = map[string]string{"region": region}
		}
		in, _ := written(t, parse(t, "d", []byte(text), ""), opt)
		a, problems := file.Parse("", in.Files[0].Front(), &file.Options{})
		if a == nil {
			t.Fatal(problems)
		}
		if w := a.Auth.AWS; w == nil || w.Service != "dynamodb" || w.Region != want || len(a.Operations[0].Params) > 0 {
			t.Errorf("%+v %+v", a.Auth, a.Operations[0].Params)
		}
	}
}
