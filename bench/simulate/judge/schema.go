package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dragoman-proxy/dragoman/translate/testdata/schema"
)

// schemaURL names the schema of a revision in its compiler. It is absolute: else it would be one in the folder that is current.
const schemaURL = "schema:///schema.json"

// modern is the revision without a handshake.
const modern = "2026-07-28"

// schemaNames are the schemas' names for methods: the request is …Request, its result …Result, the notification …Notification.
var schemaNames = map[string]string{
	"initialize":                               "Initialize",
	"ping":                                     "Ping",
	"tools/list":                               "ListTools",
	"tools/call":                               "CallTool",
	"resources/list":                           "ListResources",
	"resources/templates/list":                 "ListResourceTemplates",
	"resources/read":                           "ReadResource",
	"resources/subscribe":                      "Subscribe",
	"resources/unsubscribe":                    "Unsubscribe",
	"prompts/list":                             "ListPrompts",
	"prompts/get":                              "GetPrompt",
	"completion/complete":                      "Complete",
	"logging/setLevel":                         "SetLevel",
	"sampling/createMessage":                   "CreateMessage",
	"roots/list":                               "ListRoots",
	"elicitation/create":                       "Elicit",
	"tasks/get":                                "GetTask",
	"tasks/result":                             "GetTaskPayload",
	"tasks/list":                               "ListTasks",
	"tasks/cancel":                             "CancelTask",
	"notifications/initialized":                "Initialized",
	"notifications/cancelled":                  "Cancelled",
	"notifications/progress":                   "Progress",
	"notifications/message":                    "LoggingMessage",
	"notifications/resources/updated":          "ResourceUpdated",
	"notifications/resources/list_changed":     "ResourceListChanged",
	"notifications/tools/list_changed":         "ToolListChanged",
	"notifications/prompts/list_changed":       "PromptListChanged",
	"notifications/roots/list_changed":         "RootsListChanged",
	"notifications/elicitation/complete":       "ElicitationComplete",
	"notifications/tasks/status":               "TaskStatus",
	"notifications/subscriptions/acknowledged": "SubscriptionsAcknowledged",
	"server/discover":                          "Discover",
	"subscriptions/listen":                     "SubscriptionsListen",
}

// errorNames are the schemas' names for errors whose data has a shape.
var errorNames = map[json.Number]string{
	"-32020": "HeaderMismatchError",
	"-32021": "MissingRequiredClientCapabilityError",
	"-32022": "UnsupportedProtocolVersionError",
	"-32042": "URLElicitationRequiredError",
}

// mayAsk are the methods whose result may be questions to the user, since the revision without a handshake.
var mayAsk = []string{"tools/call", "resources/read", "prompts/get"}

// revisionSchema is the official schema of a revision. Its parts are compiled when they are first needed.
type revisionSchema struct {
	name     string
	compiler *jsonschema.Compiler
	defs     string // where the definitions are: "#/$defs/"
	has      map[string]any
	compiled map[string]*jsonschema.Schema
}

var schemas struct {
	mu    sync.Mutex
	of    map[string]*revisionSchema
	read  map[string]map[string]any // by revision, as they are in their files
	valid map[uint64]struct{}       // the looks of messages that were valid
}

var looksSeed = maphash.MakeSeed()

// mostLooks bounds what is remembered of messages that were valid.
const mostLooks = 1 << 16

// fits says what is wrong with raw as a message of a revision; method is that of the request if raw is a response. An unknown revision is
// an error of the caller's.
func fits(revision, method string, raw []byte) error {
	schemas.mu.Lock()
	defer schemas.mu.Unlock()
	look := looksOf(revision, method, raw)
	if _, known := schemas.valid[look]; known {
		return nil
	}
	s, err := schemaOf(revision)
	if err == nil {
		err = s.check(method, raw)
	}
	if err == nil {
		if len(schemas.valid) >= mostLooks || schemas.valid == nil {
			schemas.valid = map[uint64]struct{}{}
		}
		schemas.valid[look] = struct{}{}
	}
	return err
}

// looksOf is the same for messages that differ only in how many of which digits follow each other, and how many x, which fill long texts. No
// definition tells such apart, but for the version of JSON-RPC, codes of errors, and the priorities of annotations and models, which are
// from 0 to 1.
func looksOf(revision, method string, raw []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(looksSeed)
	h.WriteString(revision)
	h.WriteByte(0)
	h.WriteString(method)
	h.WriteByte(0)
	if bytes.Contains(raw, []byte(`"error"`)) || bytes.Contains(raw, []byte(`riority"`)) || !bytes.Contains(raw, []byte(`"jsonrpc":"2.0"`)) {
		h.Write(raw)
		return h.Sum64()
	}
	from, before := 0, byte(0)
	for i, c := range raw {
		if '0' <= c && c <= '9' {
			c = '0'
		}
		if c == '0' || c == 'x' && c == before {
			h.Write(raw[from:i])
			if c != before {
				h.WriteByte(c)
			}
			from = i + 1
		}
		before = c
	}
	h.Write(raw[from:])
	return h.Sum64()
}

func schemaOf(revision string) (*revisionSchema, error) {
	if s := schemas.of[revision]; s != nil {
		return s, nil
	}
	doc, err := readSchema(revision)
	if err != nil {
		return nil, err
	}
	mend(doc)
	for _, other := range revisionNames {
		if other != revision {
			of := schemas.read[other]
			if of == nil {
				if of, err = readSchema(other); err != nil {
					return nil, err
				}
				if schemas.read == nil {
					schemas.read = map[string]map[string]any{}
				}
				schemas.read[other] = of
			}
			for name, theirs := range definitions(of) {
				if ours, ok := definitions(doc)[name].(map[string]any); ok {
					forbid(name, ours, theirs, of)
				}
			}
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiler.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: uriTemplate})
	s := &revisionSchema{name: revision, compiler: compiler, defs: "#/definitions/", compiled: map[string]*jsonschema.Schema{}}
	if doc["$defs"] != nil {
		s.defs = "#/$defs/"
	}
	s.has = definitions(doc)
	if err := s.compiler.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	if schemas.of == nil {
		schemas.of = map[string]*revisionSchema{}
	}
	schemas.of[revision] = s
	return s, nil
}

// revisionNames are those that have a schema.
var revisionNames = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", modern}

func readSchema(revision string) (map[string]any, error) {
	text, err := schema.Files.ReadFile(revision + ".json")
	if err != nil {
		return nil, fmt.Errorf("revision %q has no schema", revision)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return doc.(map[string]any), nil
}

func definitions(doc map[string]any) map[string]any {
	for _, name := range []string{"$defs", "definitions"} {
		if defs, ok := doc[name].(map[string]any); ok {
			return defs
		}
	}
	return nil
}

var hasMeta = regexp.MustCompile(`params$|Params$|Result$`)

// forbid has ours refuse the members that theirs, the same thing in another revision, has and ours does not: the schemas allow all members
// that they do not know, but dragoman takes out what is of another revision only. doc is the whole of the other schema. Parameters and
// results have _meta in all revisions, though not all schemas say so everywhere; and what a tool wants is the server's to say.
func forbid(what string, ours map[string]any, theirs any, doc map[string]any) {
	their, _ := theirs.(map[string]any)
	if ref, ok := their["$ref"].(string); ok {
		their, _ = definitions(doc)[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
	}
	own, _ := ours["properties"].(map[string]any)
	members, _ := their["properties"].(map[string]any)
	if own == nil {
		return
	}
	for name, member := range members {
		switch mine := own[name].(type) {
		case nil:
			switch name {
			case "jsonrpc", "id": // only some schemas repeat them
			case "_meta":
				if !hasMeta.MatchString(what) { // what dragoman says there of its own work is for all
					own[name] = map[string]any{"propertyNames": map[string]any{"pattern": "^dragoman/"}}
				}
			default:
				own[name] = false
			}
		case map[string]any:
			if name != "inputSchema" && name != "outputSchema" {
				forbid(what+"."+name, mine, member, doc)
			}
		}
	}
}

// mend corrects what the generator of the schemas writes for a number or nothing at all, `number | null` in their source: "integer" among
// the types of a value that may be of several, but for ids and tokens; and null is a value of JSON.
func mend(node any) {
	switch node := node.(type) {
	case []any:
		for _, n := range node {
			mend(n)
		}
	case map[string]any:
		types, several := node["type"].([]any)
		if several && slices.Contains(types, any("boolean")) {
			node["type"] = []any{"string", "number", "boolean"}
		}
		if defs, _ := node["$defs"].(map[string]any); defs != nil {
			if value, _ := defs["JSONValue"].(map[string]any); value != nil {
				value["anyOf"] = append(value["anyOf"].([]any), map[string]any{"type": "null"})
			}
		}
		for _, n := range node {
			mend(n)
		}
	}
}

// uriTemplate: the library's own wants a URI where the expressions are left out, and refuses note://{n}.
func uriTemplate(v any) error {
	if text, ok := v.(string); ok && strings.Count(text, "{") != strings.Count(text, "}") {
		return errors.New("an expression without end")
	}
	return nil
}

// as says what is wrong with value as what the schema calls name. What the schema does not know is right: a method of an extension.
func (s *revisionSchema) as(name string, value any) error {
	if s.has[name] == nil {
		return nil
	}
	compiled := s.compiled[name]
	if compiled == nil {
		var err error
		if compiled, err = s.compiler.Compile(schemaURL + s.defs + name); err != nil {
			return fmt.Errorf("%s of %s: %w", name, s.name, err)
		}
		s.compiled[name] = compiled
	}
	if err := compiled.Validate(value); err != nil {
		// Its first line names the file; the rest says what is wrong where, a line each.
		_, where, _ := strings.Cut(err.Error(), "\n")
		return fmt.Errorf("no %s: %s", name, strings.ReplaceAll(where, "\n", ";"))
	}
	return nil
}

func (s *revisionSchema) check(method string, raw []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	m, ok := value.(map[string]any)
	if !ok {
		return errors.New("no object")
	}
	id, hasID := m["id"]
	_, hasResult := m["result"]
	_, hasError := m["error"]
	_, hasMethod := m["method"]
	if m["jsonrpc"] == nil && hasMethod && !hasID && s.name == modern {
		return s.asks("Request", m) // a question within a result
	}
	if m["jsonrpc"] != "2.0" {
		return errors.New(`jsonrpc is not "2.0"`)
	}
	switch {
	case hasMethod && (hasResult || hasError) || hasResult && hasError:
		return errors.New("more than one of method, result and error")
	case hasID && !isID(id) && !(hasError && id == nil && s.wantsErrorID()):
		return fmt.Errorf("the id is neither text nor an integer: %v", id)
	case hasMethod && hasID:
		return s.asks("Request", m)
	case hasMethod:
		return s.asks("Notification", m)
	case hasResult && !hasID:
		return errors.New("a result without id")
	case hasResult:
		return s.result(method, m["result"])
	case hasError && !hasID && s.wantsErrorID():
		return errors.New("an error without id")
	case hasError:
		return s.failure(m)
	}
	return errors.New("none of method, result and error")
}

// wantsErrorID reports whether an error of the revision has an id in any case: null if the request's is not known.
func (s *revisionSchema) wantsErrorID() bool { return s.has["JSONRPCErrorResponse"] == nil }

func isID(id any) bool {
	switch id := id.(type) {
	case string:
		return true
	case json.Number:
		return !strings.ContainsAny(string(id), ".eE")
	}
	return false
}

func (s *revisionSchema) asks(kind string, m map[string]any) error {
	method, ok := m["method"].(string)
	if !ok {
		return errors.New("the method is no text")
	}
	if params, ok := m["params"]; ok {
		if _, ok := params.(map[string]any); !ok {
			return errors.New("the params are no object")
		}
	}
	name, known := schemaNames[method]
	if known && s.has[name+kind] == nil && method != "server/discover" && !(s.name == modern && strings.HasPrefix(method, "tasks/")) { // by which dragoman finds out what the server speaks
		return fmt.Errorf("%s has no %s", s.name, method)
	}
	return s.as(name+kind, m)
}

func (s *revisionSchema) result(method string, result any) error {
	members, ok := result.(map[string]any)
	if !ok {
		return errors.New("the result is no object")
	}
	name := schemaNames[method] + "Result"
	kind, _ := members["resultType"].(string)
	switch {
	case s.name == modern && kind == "input_required":
		if !slices.Contains(mayAsk, method) {
			return fmt.Errorf("a result of %s with questions", method)
		}
		name = "InputRequiredResult"
	case s.name == modern && kind != "complete":
		name = "EmptyResult" // of an extension, that no schema has
	case members["task"] != nil && s.has["CreateTaskResult"] != nil:
		name = "CreateTaskResult"
	}
	if s.has[name] == nil {
		name = "EmptyResult"
	}
	return s.as(name, result)
}

func (s *revisionSchema) failure(m map[string]any) error {
	e, ok := m["error"].(map[string]any)
	if !ok {
		return errors.New("the error is no object")
	}
	code, ok := e["code"].(json.Number)
	if !ok || !isID(code) {
		return errors.New("the error's code is no integer")
	}
	if _, ok := e["message"].(string); !ok {
		return errors.New("the error's message is no text")
	}
	return s.as(errorNames[code], m)
}
