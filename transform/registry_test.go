package transform_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/transform"
)

// weather is a source that package transform does not know.
type weather struct{}

func (weather) Name() string { return "weather" }

func (weather) Match(_, _ string, value []byte) int {
	if bytes.Contains(value, []byte(`"temperature"`)) {
		return 90
	}
	return 0
}

func (weather) Options() []transform.Option {
	return []transform.Option{
		{Name: "unit", Default: "C", Allowed: []string{"C", "F"}}, {Name: "digits", Default: 1, Max: 3}, {Name: "loud", Default: false},
	}
}

func (weather) Apply(dst, value []byte, opt transform.Values) ([]byte, transform.Kind, error) {
	if !bytes.Contains(value, []byte(`"temperature"`)) {
		return dst, transform.JSON, transform.ErrUnchanged
	}
	text := "fair, in " + opt.String("unit") + strings.Repeat("0", opt.Int("digits"))
	if opt.Bool("loud") {
		text = strings.ToUpper(text)
	}
	return append(dst, text...), transform.Text, nil
}

func newEngine(t *testing.T, text string) (*transform.Engine, error) {
	t.Helper()
	cfg := transform.DefaultConfig()
	if err := yaml.Unmarshal([]byte(text), &cfg); err != nil {
		t.Fatal(err)
	}
	return transform.New(cfg, transform.Options{Sources: []transform.Source{weather{}}})
}

func TestAnApplicationCanRegisterASource(t *testing.T) {
	const answer = `{"content":[{"type":"text","text":"{\"temperature\":21}"}],"structuredContent":{"temperature":21}}`
	const other = `{"content":[{"type":"text","text":"{\"humidity\":21}"}]}`
	for _, c := range []struct {
		config, want string
		detected     bool
	}{
		{`{}`, "", false},
		{`{rules: [{match: {tool: get_weather}, adapter: weather}]}`, "fair, in C0", false},
		{`{rules: [{match: {tool: get_weather}, adapter: weather, options: {unit: F, loud: true}}], adapters: {weather: {digits: 2, unit: C}}}`, "FAIR, IN F00", false},
		{`{adapters: {weather: {tools: ["get_*"], digits: 0}}}`, "fair, in C", false},
		{`{auto_detect: true}`, "fair, in C0", true},
		{`{auto_detect: true, adapters: {weather: {enabled: false}}}`, "", false},
		{`{adapters: {weather: {enabled: true}}}`, "fair, in C0", true},
		{`{adapters: {weather: {unit: F}}}`, "fair, in F0", true},
		{`{adapters: {weather: {enabled: true}}, rules: [{match: {tool: get_weather}, page_size: 5}]}`, "fair, in C0", true},
		{`{auto_detect: false, adapters: {weather: {enabled: true}}}`, "", false},
		{`{adapters: {weather: {enabled: true, tools: [other]}}}`, "", false},
		{`{adapters: {weather: {enabled: true}}, rules: [{match: {tool: other}, adapter: weather}]}`, "", false},
		{`{adapters: {weather: {enabled: true}}, rules: [{match: {tool: get_weather}, adapter: fields}]}`, "", false},
		{`{adapters: {weather: {enabled: false, tools: ["*"]}}, rules: [{adapter: weather}]}`, "", false},
	} {
		e, err := newEngine(t, c.config)
		if err != nil {
			t.Errorf("%s: %v", c.config, err)
			continue
		}
		out, r := e.Apply(nil, []byte(answer), &transform.Call{Tool: "get_weather", Schemas: transform.None})
		if want := `{"content":[{"type":"text","text":"` + c.want + `"}]}`; c.want == "" && string(out) != answer || c.want != "" && string(out) != want ||
			r.Detected != c.detected || c.want != "" && (r.Source != "weather" || r.Outcome != transform.Transformed) {
			t.Errorf("%s: %s, %+v", c.config, out, r)
		}
		if out, r := e.Apply(nil, []byte(other), &transform.Call{Tool: "get_weather", Schemas: transform.None}); string(out) != other || r.Err != nil {
			t.Errorf("%s: %s, %v", c.config, out, r.Err)
		}
	}
	for config, why := range map[string]string{
		`{adapters: {weather: {unit: K}}}`:                      `"K" is not one of C, F`,
		`{adapters: {weather: {digits: 4}}}`:                    "0 to 3",
		`{adapters: {weather: {wind: true}}}`:                   "no such option",
		`{rules: [{adapter: weather, options: {loud: "yes"}}]}`: "true or false",
		`{rules: [{adapter: weather, output_schema: derive}]}`:  "strip",
	} {
		if _, err := newEngine(t, config); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

func TestASourceOnOneToolWithASchemaStripsIt(t *testing.T) {
	e, err := newEngine(t, `{rules: [{match: {tool: w}, adapter: weather}]}`)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := e.ListTool(nil, "", []byte(`{"name":"w","outputSchema":{"type":"object"}}`))
	if string(listed) != `{"name":"w"}` || err != nil {
		t.Errorf("%s, %v", listed, err)
	}
	out, _ := e.Apply(nil, []byte(`{"content":[],"structuredContent":{"temperature":1}}`), &transform.Call{Tool: "w", Schemas: transform.Seen, Schema: []byte(`{"type":"object"}`)})
	if string(out) != `{"content":[{"type":"text","text":"fair, in C0"}]}` {
		t.Errorf("%s", out)
	}
}

func TestAnEngineIsSafeForConcurrentUse(t *testing.T) {
	e, err := newEngine(t, `{rules: [{page_size: 3}]}`)
	if err != nil {
		t.Fatal(err)
	}
	in := []byte(`{"content":[{"type":"text","text":"[` + strings.Repeat(`\"some text\",`, 5000) + `1]"}],"structuredContent":{"a":[1,2,3,4]}}`)
	before := bytes.Clone(in)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				_, r := e.Apply(nil, in, &transform.Call{Tool: "x", Session: "s", Schemas: transform.Seen, Schema: []byte(`{"properties":{"a":{"minItems":2}}}`), MaxTokens: 200})
				if out := e.More(context.Background(), "s", "", []byte(`{"cursor":"`+r.Cursor+`"}`)); bytes.Contains(out, []byte(`"isError"`)) {
					t.Errorf("%s", out)
				}
			}
		})
	}
	all.Wait()
	if !bytes.Equal(in, before) {
		t.Error("the result was changed")
	}
}
