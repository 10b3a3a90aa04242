package adapterrt

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// vendors are error bodies of well-known APIs, and the words in them that say what is wrong with the request. Without
// these words, the caller cannot correct the request.
var vendors = []struct {
	api    string
	status int
	body   string
	says   []string
}{
	{"GitHub, validation", 422, `{"message":"Validation Failed","errors":[{"resource":"Issue","field":"title","code":"missing_field"}],"documentation_url":"https://docs.github.com/rest/issues/issues#create-an-issue","status":"422"}`, []string{"Validation Failed", "title", "missing_field"}},
	{"GitHub, search", 422, `{"message":"Validation Failed","errors":[{"message":"The listed users cannot be searched either because the users do not exist or you do not have permission to view the users.","resource":"Search","field":"q","code":"invalid"}],"documentation_url":"https://docs.github.com/v3/search/"}`, []string{"The listed users cannot be searched", `"field":"q"`}},
	{"Stripe", 400, `{"error":{"code":"parameter_missing","doc_url":"https://stripe.com/docs/error-codes/parameter-missing","message":"Missing required param: amount.","param":"amount","type":"invalid_request_error"}}`, []string{"Missing required param: amount."}},
	{"Notion", 400, `{"object":"error","status":400,"code":"validation_error","message":"body failed validation: body.parent.page_id should be a valid uuid, instead was \"x\".","request_id":"c2a7"}`, []string{"body.parent.page_id should be a valid uuid"}},
	{"Linear", 400, `{"errors":[{"message":"Argument Validation Error","path":["issueCreate"],"extensions":{"type":"invalid input","code":"INVALID_INPUT","userError":true,"userPresentableMessage":"title should not be empty"}}],"data":null}`, []string{"Argument Validation Error", "title should not be empty"}},
	{"Slack", 400, `{"ok":false,"error":"invalid_arguments","response_metadata":{"messages":["[ERROR] missing required field: channel"]}}`, []string{"missing required field: channel"}},
	{"Jira", 400, `{"errorMessages":[],"errors":{"summary":"You must specify a summary of the issue.","priority":"Field 'priority' cannot be set."}}`, []string{"summary: You must specify a summary", "priority: Field 'priority' cannot be set."}},
	{"Jira, messages", 404, `{"errorMessages":["Issue does not exist or you do not have permission to see it."],"errors":{}}`, []string{"Issue does not exist"}},
	{"GitLab", 400, `{"message":{"title":["can't be blank","is too short (minimum is 1 character)"]}}`, []string{"title", "can't be blank"}},
	{"GitLab, one word", 400, `{"error":"scope does not have a valid value"}`, []string{"scope does not have a valid value"}},
	{"FastAPI", 422, `{"detail":[{"type":"missing","loc":["body","item","price"],"msg":"Field required","input":{"name":"x"}}]}`, []string{"body.item.price: Field required"}},
	{"Django REST framework", 400, `{"email":["Enter a valid email address."],"age":["A valid integer is required."]}`, []string{"email", "Enter a valid email address.", "age"}},
	{"Django REST framework, detail", 404, `{"detail":"No Snippet matches the given query."}`, []string{"No Snippet matches the given query."}},
	{"Rails", 422, `{"errors":{"name":["has already been taken"]}}`, []string{"name", "has already been taken"}},
	{"Laravel", 422, `{"message":"The email field is required.","errors":{"email":["The email field is required."],"password":["The password must be at least 8 characters."]}}`, []string{"The email field is required.", "The password must be at least 8 characters."}},
	{"Spring Boot", 400, `{"timestamp":"2026-01-02T03:04:05.678+00:00","status":400,"error":"Bad Request","message":"Validation failed for object='order'. Error count: 1","errors":[{"codes":["NotBlank.order.sku"],"defaultMessage":"must not be blank","objectName":"order","field":"sku","rejectedValue":""}],"path":"/orders"}`, []string{"sku", "must not be blank"}},
	{"ASP.NET Core, RFC 9457", 400, `{"type":"https://tools.ietf.org/html/rfc9110#section-15.5.1","title":"One or more validation errors occurred.","status":400,"errors":{"Quantity":["The field Quantity must be between 1 and 10."]},"traceId":"00-1"}`, []string{"The field Quantity must be between 1 and 10."}},
	{"RFC 9457", 403, `{"type":"https://example.com/probs/out-of-credit","title":"You do not have enough credit.","detail":"Your current balance is 30, but that costs 50.","instance":"x"}`, []string{"You do not have enough credit.", "Your current balance is 30, but that costs 50."}},
	{"JSON:API", 422, `{"errors":[{"status":"422","source":{"pointer":"/data/attributes/firstName"},"title":"Invalid Attribute","detail":"First name must contain at least two characters."}]}`, []string{"/data/attributes/firstName", "First name must contain at least two characters."}},
	{"Google", 400, `{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"tittle\" at 'task': Cannot find field.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"task","description":"Invalid JSON payload received. Unknown name \"tittle\" at 'task': Cannot find field."}]}]}}`, []string{`Unknown name \"tittle\" at 'task'`}},
	{"Azure", 400, `{"error":{"code":"BadArgument","message":"Multiple errors in ContactInfo data","target":"ContactInfo","details":[{"code":"NullValue","target":"PhoneNumber","message":"Phone number must not be null"}]}}`, []string{"Multiple errors in ContactInfo data", "Phone number must not be null"}},
	{"AWS", 400, `{"__type":"com.amazon.coral.validate#ValidationException","message":"1 validation error detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null"}`, []string{"Value null at 'tableName' failed"}},
	{"AWS, capital", 400, `{"Message":"The parameter InstanceId is not valid","Code":"InvalidParameter"}`, []string{"The parameter InstanceId is not valid"}},
	{"Twilio", 400, `{"code":21211,"message":"The 'To' number +1555 is not a valid phone number.","more_info":"https://www.twilio.com/docs/errors/21211","status":400}`, []string{"The 'To' number +1555 is not a valid phone number."}},
	{"Shopify", 422, `{"errors":{"title":["can't be blank"],"base":["Options are not unique"]}}`, []string{"title", "can't be blank", "Options are not unique"}},
	{"HubSpot", 400, `{"status":"error","message":"Property values were not valid: [{\"isValid\":false,\"message\":\"Property \\\"fisrtname\\\" does not exist\",\"error\":\"PROPERTY_DOESNT_EXIST\"}]","correlationId":"1","category":"VALIDATION_ERROR"}`, []string{"fisrtname", "does not exist"}},
	{"Salesforce", 400, `[{"message":"Required fields are missing: [LastName]","errorCode":"REQUIRED_FIELD_MISSING","fields":["LastName"]}]`, []string{"Required fields are missing: [LastName]"}},
	{"Zendesk", 422, `{"error":"RecordInvalid","description":"Record validation errors","details":{"value":[{"type":"blank","description":"can't be blank","error":"BlankValue","field_key":"subject"}]}}`, []string{"Record validation errors", "can't be blank", "subject"}},
	{"Discord", 400, `{"code":50035,"errors":{"content":{"_errors":[{"code":"BASE_TYPE_REQUIRED","message":"This field is required"}]}},"message":"Invalid Form Body"}`, []string{"Invalid Form Body", "content", "This field is required"}},
	{"Asana", 400, `{"errors":[{"message":"project: Missing input","help":"For more information on API status codes and how to handle them, read the docs on errors."}]}`, []string{"project: Missing input"}},
	{"Cloudflare", 400, `{"success":false,"errors":[{"code":1004,"message":"DNS Validation Error","error_chain":[{"code":9005,"message":"Content for A record must be a valid IPv4 address."}]}],"messages":[],"result":null}`, []string{"DNS Validation Error", "Content for A record must be a valid IPv4 address."}},
	{"SendGrid", 400, `{"errors":[{"message":"The from email does not contain a valid address.","field":"from.email","help":"http://sendgrid.com/docs"}]}`, []string{"The from email does not contain a valid address.", `"field":"from.email"`}},
	{"Kubernetes", 422, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Service \"x\" is invalid: spec.ports: Required value","reason":"Invalid","details":{"causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.ports"}]},"code":422}`, []string{"spec.ports: Required value"}},
	{"Elasticsearch", 400, `{"error":{"root_cause":[{"type":"parsing_exception","reason":"unknown query [mach]","line":1,"col":20}],"type":"parsing_exception","reason":"unknown query [mach] did you mean [match]?","line":1,"col":20},"status":400}`, []string{"unknown query [mach] did you mean [match]?"}},
	{"OpenAI", 400, `{"error":{"message":"'temperature' must be at most 2","type":"invalid_request_error","param":"temperature","code":null}}`, []string{"'temperature' must be at most 2"}},
	{"PagerDuty", 400, `{"error":{"message":"Invalid Input Provided","code":2001,"errors":["Service cannot be empty."]}}`, []string{"Invalid Input Provided", "Service cannot be empty."}},
	{"Trello, text", 400, `invalid value for idList`, []string{"invalid value for idList"}},
	{"Apigee", 401, `{"fault":{"faultstring":"Invalid ApiKey for given resource","detail":{"errorcode":"oauth.v2.InvalidApiKeyForGivenResource"}}}`, []string{"Invalid ApiKey for given resource"}},
	{"Prism", 422, `{"type":"https://stoplight.io/prism/errors#UNPROCESSABLE_ENTITY","title":"Invalid request","status":422,"detail":"Your request is not valid and no HTTP validation response was found in the spec, so Prism is generating this error for you.","validation":[{"location":["body","labels","0"],"severity":"Error","code":"type","message":"Request body property labels.0 must be string"}]}`, []string{"labels.0 must be string"}},
	{"DigitalOcean", 422, `{"id":"unprocessable_entity","message":"Name is already in use","request_id":"4"}`, []string{"Name is already in use"}},
}

// TestVendorErrorTextsReachTheClient shows that the client receives these words, in the message or in the details.
func TestVendorErrorTextsReachTheClient(t *testing.T) {
	for _, v := range vendors {
		t.Run(v.api, func(t *testing.T) {
			kind := "application/json"
			ops := status
			if !strings.HasPrefix(v.body, "{") && !strings.HasPrefix(v.body, "[") {
				kind = "text/plain"
				ops = "read:\n- {name: get_status, maps_to: GET /status, description: Get the status, response: {as: auto}}"
			}
			rt := one(t, Options{}, api(t, say(v.status, kind, v.body)).URL, ops)
			got := ask(rt, Endpoint{}, `{"operation":"get_status"}`)
			failure := gjson.Get(got, "error")
			if !failure.Exists() || !gjson.Valid(got) {
				t.Fatal(got)
			}
			told := failure.Get("message").Raw + failure.Get("details").Raw
			for _, words := range v.says {
				if !strings.Contains(told, words) {
					t.Errorf("%q is not in %s", words, got)
				}
			}
			if n := len(got); n > 3500 {
				t.Errorf("%d bytes: %s", n, got)
			}
		})
	}
}

// TestAnErrorHasNoCredentialOfOthers: an API may repeat what it got in another call, of another adapter or client, or from dragoman itself.
func TestAnErrorHasNoCredentialOfOthers(t *testing.T) {
	sent := secret.Known{Configured: secret.NewSet("configured-canary"), Sent: new(secret.Kept), Clients: new(secret.Kept)}
	sent.Sent.Keep("sent-canary-1")
	sent.Clients.Keep("Bearer client-canary-1")
	const others = `configured-canary sent-canary-1 client-canary-1 sent%2Dcanary%2D1 c2VudC1jYW5hcnktMQ==`
	for name, c := range map[string]struct {
		status     int
		kind, body string
	}{
		"a message":       {400, "application/json", `{"message":"seen ` + others + `"}`},
		"a text":          {500, "text/plain", "seen " + others},
		"further members": {422, "application/json", `{"message":"seen","more":{"a":["` + others + `"],"of sent-canary-1":1}}`},
		"a redirect":      {302, "text/plain", "seen"},
		"no JSON":         {200, "application/json", `{"seen":"` + others},
		"a content type":  {200, "text/x-sent-canary-1", "seen"},
	} {
		for _, dev := range []bool{false, true} {
			rt := one(t, Options{Sent: sent, DevErrors: dev}, api(t, say(c.status, c.kind, c.body)).URL, status)
			r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
			if got := string(r.JSON()) + r.Call.Original; r.Failure == nil || strings.Contains(got, "canary") || strings.Contains(got, "c2VudC1jYW5") || strings.Contains(got, "canary%2D") {
				t.Errorf("%s, for developers %v: %s", name, dev, got)
			}
		}
	}
}
