package translate_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// recorded is one message that was recorded between a published client and a
// published server.
type recorded struct {
	file     string
	line     int
	revision string
	fromUser bool // the client sent it
	text     string
	kind     wire.Kind
	method   wire.Method // of a response: the method that it answers
	facts    wire.Facts  // of its session
}

// recordings reads the recorded messages of every revision.
func recordings(t testing.TB) []recorded {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "traffic", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for _, file := range files {
		all = append(all, readRecording(t, file)...)
	}
	if len(all) < 1000 {
		t.Fatalf("only %d messages in %d files of recorded traffic", len(all), len(files))
	}
	return all
}

// examples reads the official examples of 2026-07-28: the JSON texts of each type by the type's name.
func examples(t testing.TB) map[string][]recorded {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "schema", "examples-2026-07-28", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]recorded{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(file))
		all[name] = append(all[name], recorded{file: filepath.Base(file), line: 1, revision: "2026-07-28", text: string(text)})
	}
	if len(all) < 80 {
		t.Fatalf("only %d types have an example", len(all))
	}
	return all
}

// exampleMessages returns the examples that are whole messages.
func exampleMessages(t testing.TB) (all []recorded) {
	t.Helper()
	for name, list := range examples(t) {
		name = strings.TrimSuffix(strings.TrimSuffix(name, "Response"), "Result")
		for _, r := range list {
			var m wire.Message
			if err := m.Scan([]byte(r.text), nil); err != nil {
				continue // a part of a message
			}
			r.kind, r.method = m.Kind, m.Method
			for method, of := range typeNames {
				if m.Kind == wire.Result && of == name {
					r.method = method
				}
			}
			r.fromUser = m.Kind == wire.Request || m.Method == wire.Cancelled
			if m.Kind == wire.Request {
				r.facts = declared(r.text)
			}
			all = append(all, r)
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d examples are messages", len(all))
	}
	return all
}

// TestExamplesAreValid checks the official examples by the official schema, so that what is checked with either means the same.
func TestExamplesAreValid(t *testing.T) {
	s := loadSchema(t, "2026-07-28")
	for name, list := range examples(t) {
		for _, r := range list {
			if err := s.check(t, name, r.text); err != nil {
				t.Errorf("%s/%s: %v", name, r.file, err)
			}
		}
	}
}

func readRecording(t testing.TB, file string) []recorded {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := filepath.Base(file)
	_, revision, _ := strings.Cut(name, "-")
	revision = revision[:len("2025-06-18")]
	type asked struct {
		fromUser bool
		id       string
	}
	open := map[asked]wire.Method{}
	var facts wire.Facts
	var all []recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var l struct {
			Dir     string
			Message json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s:%d: %v", name, n, err)
		}
		var m wire.Message
		if err := m.Scan(l.Message, nil); err != nil {
			t.Fatalf("%s:%d: %v", name, n, err)
		}
		r := recorded{file: name, line: n, revision: revision, fromUser: l.Dir == "c2s", text: string(l.Message), kind: m.Kind, method: m.Method}
		switch m.Kind {
		case wire.Request:
			open[asked{r.fromUser, string(m.ID())}] = m.Method
			if m.Method == wire.Initialize || r.fromUser && translate.Lookup(revision).Modern {
				facts = declared(r.text)
			}
		case wire.Result, wire.Error:
			r.method = open[asked{!r.fromUser, string(m.ID())}]
		}
		r.facts = facts
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all
}

// declared returns the facts of a request that declares its client's capabilities.
func declared(text string) (f wire.Facts) {
	for path, bits := range map[string]wire.Facts{
		"roots":            wire.ClientRoots,
		"sampling":         wire.ClientSampling,
		"sampling.tools":   wire.ClientSamplingTools,
		"sampling.context": wire.ClientSamplingContext,
		"elicitation":      wire.ClientElicitation,
		"elicitation.form": wire.ClientElicitationForm,
		"elicitation.url":  wire.ClientElicitationURL,
		"tasks":            wire.ClientTasks,
	} {
		if gjson.Get(text, "params.capabilities."+path).Exists() ||
			gjson.Get(text, `params._meta.io\.modelcontextprotocol/clientCapabilities.`+path).Exists() {
			f |= bits
		}
	}
	if f.Has(wire.ClientElicitation) && !f.Has(wire.ClientElicitationURL) {
		f |= wire.ClientElicitationForm
	}
	return f
}

// schemaFault is a place where an official schema refuses a value that the specification
// allows. got is the kind of that value.
type schemaFault struct {
	kind   wire.Kind
	method wire.Method // of any kind but an error
	at     string      // the place in the checked value; * is any name
	got    string
	why    string
}

var schemaFaults = []schemaFault{
	{wire.Result, wire.ElicitationCreate, "content.*", "number",
		"the schema was generated with integer where the protocol's TypeScript says number"},
	{wire.Error, wire.OtherMethod, "id", "null",
		"an error without a request: JSON-RPC wants a null id, the schemas before 2025-11-25 know none"},
}

// outOfItsExchange are values that a recorded message has only because its peer requested them,
// which a peer of an older revision would not have done.
var outOfItsExchange = []schemaFault{
	{wire.Result, wire.ElicitationCreate, "content.*", "array",
		"the answer to a multi-select, which a server before 2025-11-25 cannot ask for"},
}

// unexplained returns the parts of a validation error that are not known faults.
func unexplained(err error, kind wire.Kind, method wire.Method, faults ...schemaFault) []string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []string{err.Error()}
	}
	var left []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		wrong, isType := e.ErrorKind.(*schemakind.Type)
		for _, f := range faults {
			if f.kind != kind || kind != wire.Error && f.method != method || !isType || wrong.Got != f.got {
				continue
			}
			if at := place(e.InstanceLocation); len(at) == len(parsePlace(f.at)) && at.under([]place{parsePlace(f.at)}) {
				return
			}
		}
		left = append(left, e.Error())
	}
	walk(invalid)
	return left
}

// TestRecordedIsValid checks that the recordings are valid, except for the schemas' known
// faults.
func TestRecordedIsValid(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	all := recordings(t)
	schemas := allSchemas(t)
	for _, r := range all {
		err := schemas[r.revision].checkMessage(t, r.kind, r.method, r.text)
		if err == nil {
			continue
		}
		if left := unexplained(err, r.kind, r.method, schemaFaults...); len(left) > 0 {
			t.Errorf("%s: %s\n%.300s", r, strings.Join(left, "\n"), r.text)
		}
	}
}

func allSchemas(t testing.TB) map[string]*schema {
	t.Helper()
	schemas := map[string]*schema{}
	for _, r := range translate.All() {
		schemas[r.Name] = loadSchema(t, r.Name)
	}
	return schemas
}

func (r recorded) String() string {
	return fmt.Sprintf("%s:%d (%s)", r.file, r.line, r.method)
}

// translated translates the message for a peer of another revision.
func (r recorded) translated(t testing.TB, table *translate.Table, to string) outcome {
	t.Helper()
	return rewrite(t, table, r.revision, to, []byte(r.text), wire.Message{Method: r.method, Facts: r.facts}, r.kind)
}

// TestTrafficIsValid translates all recorded messages and the official examples to every other revision
// and validates them by the official schema of that revision.
func TestTrafficIsValid(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	all := append(recordings(t), exampleMessages(t)...)
	schemas := allSchemas(t)
	table := newTable(t, translate.Options{})
	for _, to := range translate.All() {
		t.Run(to.Name, func(t *testing.T) {
			forwarded, embedded := 0, 0
			for i, r := range all {
				if r.revision == to.Name || i%effort != 0 {
					continue
				}
				kind := r.kind
				got := r.translated(t, table, to.Name)
				switch got.verdict {
				case "drop":
					continue
				case "local":
					if kind == wire.Request && to.Modern && !r.fromUser { // it becomes an entry of inputRequests in a result
						if err := schemas[to.Name].check(t, typeNames[r.method]+"Request", got.text); err != nil {
							t.Errorf("%s: %v\n%s", r, err, got.text)
						}
						embedded++
					}
					continue
				case "answer": // goes back to the sender of the message
					if err := schemas[r.revision].checkMessage(t, answerKind(got.text), r.method, got.text); err != nil {
						t.Errorf("%s: the answer is invalid: %v\n%s", r, err, got.text)
					}
					continue
				case "error":
					// A call that became a task is the only message that has no translation.
					if !gjson.Get(r.text, "result.task.taskId").Exists() {
						t.Errorf("%s: %s", r, got.text)
					}
					continue
				}
				forwarded++
				if kind == wire.Error {
					kind = answerKind(got.text)
				}
				err := schemas[to.Name].checkMessage(t, kind, r.method, got.text)
				if err == nil {
					continue
				}
				if left := unexplained(err, kind, r.method, slices.Concat(schemaFaults, outOfItsExchange)...); len(left) > 0 {
					t.Errorf("%s: %s\n got %.300s", r, strings.Join(left, "\n"), got.text)
				}
			}
			if forwarded < 500/effort || to.Modern && embedded < 20/effort {
				t.Errorf("only %d messages were forwarded, and %d questions put into results", forwarded, embedded)
			}
		})
	}
}

func answerKind(text string) wire.Kind {
	if gjson.Get(text, "error").Exists() {
		return wire.Error
	}
	return wire.Result
}

// trip is a message that was translated to another revision and back.
type trip struct {
	recorded
	to       string
	back     string
	reported []place
}

// tripsOver translates every recorded message to every other revision and back. It omits messages
// that are not forwarded.
func tripsOver(t testing.TB, each func(trip)) {
	t.Helper()
	table := newTable(t, translate.Options{})
	n := 0
	for _, r := range recordings(t) {
		for _, to := range translate.All() {
			if n++; to.Name == r.revision || n%effort != 0 {
				continue
			}
			there := r.translated(t, table, to.Name)
			if there.verdict != "want" {
				continue
			}
			back := rewrite(t, table, to.Name, r.revision, []byte(there.text), wire.Message{Method: r.method, Facts: r.facts}, 0)
			if back.verdict != "want" {
				t.Errorf("%s: %s on its way back from %s: %s", r, back.verdict, to, back.text)
				continue
			}
			each(trip{r, to.Name, back.text, reported(there.losses, back.losses)})
		}
	}
}

// TestRoundTripKeepsAllButTheReported checks that the loss report names everything that a message
// loses when it is translated to another revision and back.
func TestRoundTripKeepsAllButTheReported(t *testing.T) {
	tripsOver(t, func(way trip) {
		for _, p := range missing(way.text, way.back, way.reported) {
			t.Errorf("%s to %s: lost %s unreported (reported: %v)\n in   %.300s\n back %.300s", way.recorded, way.to, p, way.reported, way.text, way.back)
		}
	})
}

// additions are the members that a translation to another revision and back may add.
var additions = []struct{ at, why string }{
	{"result.tools[0].annotations", "C01: the title of a tool"},
	{"result.contents[0].name", "C41"},
	{"result.capabilities.completions", "C15"},
	{"result.content[0]", "C04: the text of structuredContent"},
	{"params.requestedSchema.properties", "C19"},
}

// TestRoundTripAddsOnlyWhatRulesAdd checks that a translation to another revision and back adds only the members in
// additions.
func TestRoundTripAddsOnlyWhatRulesAdd(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	var may []place
	for _, a := range additions {
		may = append(may, parsePlace(a.at))
	}
	tripsOver(t, func(way trip) {
		for _, p := range missing(way.back, way.text, slices.Concat(may, way.reported)) {
			t.Errorf("%s to %s: gained %s\n in   %.300s\n back %.300s", way.recorded, way.to, p, way.text, way.back)
		}
	})
}

// TestComparisonFindsEachRemovedMember removes members that no loss names from translated messages, one at a time.
// The comparison of the two tests above must find each.
func TestComparisonFindsEachRemovedMember(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	mutants, n := 0, 0
	tripsOver(t, func(way trip) {
		if n++; n%7 != 0 {
			return
		}
		before := len(missing(way.text, way.back, way.reported))
		for i, p := range members(way.back) {
			if p.under(way.reported) || len(missing(way.back, way.text, nil)) > 0 {
				continue
			}
			mutants++
			if after := missing(way.text, without(way.back, i), way.reported); len(after) <= before {
				t.Errorf("%s to %s: the comparison did not find that %s is missing", way.recorded, way.to, p)
			}
		}
	})
	if mutants < 1000/effort {
		t.Errorf("only %d mutants", mutants)
	}
}
