package translate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// schema is the official JSON Schema of one revision.
type schema struct {
	compiler *jsonschema.Compiler
	defs     string // where the definitions are: "#/$defs/"
	has      map[string]any
	compiled map[string]*jsonschema.Schema
}

func loadSchema(t testing.TB, revision string) *schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "schema", revision+".json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema{compiler: jsonschema.NewCompiler(), defs: "#/definitions/", compiled: map[string]*jsonschema.Schema{}}
	object := doc.(map[string]any)
	if _, ok := object["$defs"]; ok {
		s.defs = "#/$defs/"
	}
	s.has = object[strings.Trim(s.defs, "#/")].(map[string]any)
	if err := s.compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	return s
}

// check validates a JSON text as the named type of the schema.
func (s *schema) check(t testing.TB, name, text string) error {
	t.Helper()
	compiled := s.compiled[name]
	if compiled == nil {
		var err error
		if compiled, err = s.compiler.Compile("schema.json" + s.defs + name); err != nil {
			t.Fatalf("compile %s: %v", name, err)
		}
		s.compiled[name] = compiled
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return compiled.Validate(value)
}

// typeNames are the schemas' names for methods: the request is …Request, its
// result …Result, the notification …Notification.
var typeNames = map[wire.Method]string{
	wire.Initialize:             "Initialize",
	wire.Ping:                   "Ping",
	wire.ToolsList:              "ListTools",
	wire.ToolsCall:              "CallTool",
	wire.ResourcesList:          "ListResources",
	wire.ResourcesTemplatesList: "ListResourceTemplates",
	wire.ResourcesRead:          "ReadResource",
	wire.ResourcesSubscribe:     "Subscribe",
	wire.ResourcesUnsubscribe:   "Unsubscribe",
	wire.PromptsList:            "ListPrompts",
	wire.PromptsGet:             "GetPrompt",
	wire.CompletionComplete:     "Complete",
	wire.LoggingSetLevel:        "SetLevel",
	wire.SamplingCreateMessage:  "CreateMessage",
	wire.RootsList:              "ListRoots",
	wire.ElicitationCreate:      "Elicit",
	wire.TasksGet:               "GetTask",
	wire.TasksResult:            "GetTaskPayload",
	wire.TasksList:              "ListTasks",
	wire.TasksCancel:            "CancelTask",
	wire.Initialized:            "Initialized",
	wire.Cancelled:              "Cancelled",
	wire.Progress:               "Progress",
	wire.LogMessage:             "LoggingMessage",
	wire.ResourcesUpdated:       "ResourceUpdated",
	wire.ResourcesListChanged:   "ResourceListChanged",
	wire.ToolsListChanged:       "ToolListChanged",
	wire.PromptsListChanged:     "PromptListChanged",
	wire.RootsListChanged:       "RootsListChanged",
	wire.ElicitationCompleted:   "ElicitationComplete",
	wire.TasksStatus:            "TaskStatus",
	wire.ServerDiscover:         "Discover",
	wire.SubscriptionsListen:    "SubscriptionsListen",
}

// checkMessage validates a message of the given kind and method: its envelope,
// and what it carries where the revision has a type for it.
func (s *schema) checkMessage(t testing.TB, kind wire.Kind, method wire.Method, text string) error {
	t.Helper()
	name := typeNames[method]
	envelope, content := "", ""
	switch kind {
	case wire.Request:
		envelope, content = "JSONRPCRequest", name+"Request"
	case wire.Notification:
		envelope, content = "JSONRPCNotification", name+"Notification"
	case wire.Result:
		envelope, content = "JSONRPCResponse", name+"Result"
		if method == wire.ToolsCall || method == wire.SamplingCreateMessage || method == wire.ElicitationCreate {
			if strings.Contains(text, `"taskId"`) && s.has["CreateTaskResult"] != nil {
				content = "CreateTaskResult"
			}
		}
		if s.has["InputRequiredResult"] != nil && strings.Contains(text, `"resultType":"input_required"`) {
			content = "InputRequiredResult"
		}
		if _, ok := s.has["JSONRPCResultResponse"]; ok {
			envelope = "JSONRPCResultResponse"
		}
	case wire.Error:
		envelope = "JSONRPCError"
		if _, ok := s.has["JSONRPCErrorResponse"]; ok {
			envelope = "JSONRPCErrorResponse"
		}
	}
	if s.has["InputRequiredResult"] != nil && kind == wire.Result {
		switch method {
		case wire.SamplingCreateMessage, wire.RootsList, wire.ElicitationCreate:
			envelope = "" // its result becomes an entry of inputResponses in a request
		case wire.Initialize:
			return nil // the proxy makes the result of server/discover from it
		}
	}
	if envelope != "" {
		if err := s.check(t, envelope, text); err != nil {
			return err
		}
	}
	if kind == wire.Error || name == "" {
		return nil
	}
	if s.has[content] == nil {
		content = "EmptyResult"
		if kind != wire.Result {
			return nil // a method of another revision: only the envelope can be checked
		}
	}
	if kind == wire.Result {
		var m struct{ Result json.RawMessage }
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		text = string(m.Result)
	}
	return s.check(t, content, text)
}

// TestGoldenFitsSchema validates the result of each golden case by the schema of the target revision, if
// its input is valid by that of the source revision.
func TestGoldenFitsSchema(t *testing.T) {
	schemas := allSchemas(t)
	cases := goldens(t)
	all := byName(cases)
	checked := 0
	for _, g := range cases {
		var m wire.Message
		if err := m.Scan([]byte(g.in), nil); err != nil || g.verdict != "want" {
			continue
		}
		kind, method := m.Kind, m.Method
		if kind.Response() {
			method = g.method
		}
		if schemas[g.from].checkMessage(t, kind, method, g.in) != nil {
			continue
		}
		got := g.byEngine(t, all)
		switch {
		case got.verdict != "want": // TestGolden checks these
			continue
		case gjson.Get(got.text, "id").Type == gjson.Null && gjson.Get(got.text, "id").Exists(): // C24
			continue
		case gjson.Get(got.text, "result.resultType").String() == "task": // an extension, which the schema does not have
			continue
		case kind.Response():
			kind = answerKind(got.text)
		}
		checked++
		if err := schemas[g.to].checkMessage(t, kind, method, got.text); err != nil {
			t.Errorf("%s: %v\n in   %s\n out  %s", g.name, err, g.in, got.text)
		}
	}
	if checked < 300 {
		t.Errorf("only %d of %d cases fit the schema of their own revision", checked, len(cases))
	}
}
