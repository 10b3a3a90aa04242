package e2e

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// scene is one step of the scenario.
type scene struct {
	Step    string
	Method  string
	Params  json.RawMessage
	Any     []json.RawMessage // alternatives for Params: the first that the server has is taken, without one the step is left out
	Notify  string            // a notification to send, in place of a method
	Await   string            // a message of the server to wait for, in place of a method
	Seconds int               // how long

	Progress bool // ask for progress
	Cancel   bool // ask for progress, and cancel at the first report
}

//go:embed peers/scenario.json
var scenarioJSON []byte

var scenario = sync.OnceValue(func() (scenes []scene) {
	if err := json.Unmarshal(scenarioJSON, &scenes); err != nil {
		panic(err)
	}
	return scenes
})

// methodOf maps the steps of a transcript to their methods.
var methodOf = sync.OnceValue(func() map[string]string {
	methods := map[string]string{"initialize": "initialize", "asked": "asked"}
	for _, s := range scenario() {
		methods[s.Step] = s.Method
	}
	return methods
})

// entry is what a client recorded in one step: plain JSON values, with json.Number for numbers.
type entry struct {
	Step     string
	Result   any    // of lists: all pages; of the step "asked": the server's requests; of "heard": its notifications by method
	Error    any    // as the server sent it, or only a message if it is the client's own error
	Refused  string // why the client refused the result
	Progress any    // params of the progress notifications
}

type transcript []entry

func readTranscript(lines []byte) (t transcript, err error) {
	d := json.NewDecoder(bytes.NewReader(lines))
	d.UseNumber()
	for {
		var e entry
		if err := d.Decode(&e); err == io.EOF {
			return t, nil
		} else if err != nil {
			return nil, fmt.Errorf("transcript after %d steps: %w", len(t), err)
		}
		t = append(t, e)
	}
}

// arrived reports whether every message of the run arrived: published
// clients sometimes send on a connection that the server is just closing, and
// then abandon the call.
func (t transcript) arrived() bool {
	for _, e := range t {
		said := fmt.Sprint(at(e.Error, "message"))
		for _, lost := range []string{"fetch failed", "rejected by transport", "ECONNRESET", "socket hang up", "EOF"} {
			if strings.Contains(said, lost) {
				return false
			}
		}
	}
	return true
}

// era reports whether the client detected the expected era of the server: without a
// setting, clients take a slow server for an old one.
func (t transcript) era(c *client) bool {
	hello := t.step("initialize").Result
	modern, _ := at(hello, "supportedVersions").([]any)
	return c.revision != newest || at(hello, "protocolVersion") == newest || modern != nil
}

// step returns the entry of a step, or the zero entry if there is none.
func (t transcript) step(name string) entry {
	for _, e := range t {
		if e.Step == name {
			return e
		}
	}
	return entry{}
}

// comparable reduces a transcript to what is the same in every run.
func (t transcript) comparable() map[string]entry {
	steps := map[string]entry{}
	for _, e := range t {
		switch e.Step {
		case "exit", "heard": // exit is checked separately; the time and the number of notifications vary
			continue
		case "asked":
			e.Result = unique(steady(e.Result))
		default:
			e.Result, e.Error, e.Progress = steady(e.Result), steady(e.Error), steady(e.Progress)
		}
		steps[e.Step] = e
	}
	return steps
}

// unique sorts a list and removes duplicates: how often a server asks for the roots depends on the order in which
// clients connect.
func unique(list any) any {
	items, _ := list.([]any)
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(compact(a), compact(b)) })
	return slices.CompactFunc(items, func(a, b any) bool { return compact(a) == compact(b) })
}

var (
	clock     = regexp.MustCompile(`\d{1,2}:\d\d:\d\d( [AP]M)?`)
	session   = regexp.MustCompile(`session (undefined|[0-9a-f-]{36})`)
	rawResult = regexp.MustCompile(`(?s)Raw result: (\{.*\})`)
)

// steady replaces what differs from run to run: times, ids of sessions and of URL elicitations, progress
// tokens, and the order of members in a result that a server quotes.
func steady(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, member := range v {
			if blob, ok := member.(string); ok && k == "blob" {
				if b, err := base64.StdEncoding.DecodeString(blob); err == nil && clock.Match(b) {
					member = "base64 of " + string(b)
				}
			}
			member = steady(member)
			m, ok := member.(map[string]any)
			if empty := member == nil || ok && len(m) == 0; empty && (k == "_meta" || k == "params") {
				continue // it contained only a token
			}
			if k == "elicitationId" {
				member = "<id>"
			}
			if k != "progressToken" {
				out[k] = member
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = steady(item)
		}
		return out
	case string:
		v = clock.ReplaceAllString(v, "<clock>")
		v = session.ReplaceAllString(v, "session <id>")
		if strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") {
			if t, err := readValue([]byte(v)); err == nil {
				return compact(t)
			}
		}
		if quoted := rawResult.FindStringSubmatch(v); quoted != nil {
			if t, err := readValue([]byte(quoted[1])); err == nil {
				v = strings.Replace(v, quoted[1], compact(t), 1)
			}
		}
		return v
	}
	return v
}

// plain converts a value to the plain values of its JSON form.
func plain(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out, err := readValue(b)
	if err != nil {
		panic(err)
	}
	return out
}

func readValue(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// compact returns the JSON of a plain value, with sorted members and without unnecessary escapes.
func compact(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
