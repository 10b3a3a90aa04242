package transform

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Data is [Engine.Apply] for a JSON value that will become a part of a result,
// such as the answer of an adapter's operation. It appends to dst what the
// call's rule and budget leave of it, or returns data itself. notice says what
// was cut and how to read more; it is "" if nothing was cut. Data ignores
// Method and Schema of the call, because these are about the result around the
// value.
func (e *Engine) Data(dst, data []byte, c *Call) (out []byte, notice string, report Report) {
	untouched := Report{BytesBefore: len(data), BytesAfter: len(data)}
	if e == nil || !e.config.Enabled || !wire.Valid(data) {
		return data, "", untouched
	}
	start := tree.SkipSpace(data, 0)
	if tree.Scalar(data[start:]) && data[start] != '"' {
		return data, "", untouched
	}
	call := *c
	call.Method, call.Schemas, call.Schema = "", None, nil
	r := e.rule(call.Server, call.Tool)
	budget, _, _ := e.terms(r, &call)
	if a := call.Around; !e.working(r, &call) && (budget == 0 || a == nil && e.short(data, budget) || a != nil && e.short(data, budget-a.Whole)) {
		return data, "", untouched
	}
	// A text becomes the text of a block, and anything else structured content,
	// so that neither needs another layer of quotes.
	before, after := `{"structuredContent":`, `}`
	if data[start] == '"' {
		before, after = `{"content":[{"type":"text","text":`, `}]}`
	}
	result := append(append(append(make([]byte, 0, len(data)+64), before...), data...), after...)
	changed, report := e.apply(nil, result, &call, r, budget, e.working(r, &call))
	report.BytesBefore, report.BytesAfter = len(data), len(data)
	if len(changed) == len(result) && &changed[0] == &result[0] {
		return data, "", report
	}
	if report.TokensBefore == 0 {
		report.TokensBefore, report.Estimated = e.roughly(data)
	}
	value, notice := valueOf(changed)
	report.BytesAfter = len(value)
	return append(dst, value...), notice, report
}

// Count returns the tokens of a text.
func (e *Engine) Count(text []byte) int {
	if e == nil {
		return 0
	}
	return e.encoding.Count(text)
}

// Budget returns how many tokens the result of a call may have, or 0 for any
// number.
func (e *Engine) Budget(c *Call) int {
	if e == nil || !e.config.Enabled {
		return 0
	}
	budget, _, _ := e.terms(e.rule(c.Server, c.Tool), c)
	return budget
}

// roughly returns the tokens of a text. For a long text it estimates them from
// the beginning.
func (e *Engine) roughly(text []byte) (n int, estimated bool) {
	const some = 64 << 10
	if len(text) <= some {
		return e.encoding.Count(text), false
	}
	return int(float64(e.encoding.Count(text[:some])) * float64(len(text)) / some), true
}

// GivenRule reads a rule that came with a tool: a JSON object with the keys of
// [Rule], except match, which the tool determines.
func GivenRule(match Match, block []byte) (Rule, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(block, &n); err != nil {
		return Rule{}, err
	}
	clearLines(&n)
	var r Rule
	if err := n.Decode(&r); err != nil {
		return Rule{}, errors.New(strings.ReplaceAll(err.Error(), "line 0: ", ""))
	}
	if r.Match != (Match{}) {
		return Rule{}, errors.New("match: remove it: the rule applies to the tool it came with")
	}
	r.Match = match
	var v faults
	v.rule("", &r)
	return r, errors.Join(v.all...)
}

// CheckGiven checks a rule that came with a tool, as [GivenRule] reads it and [New] uses it. Its error names the keys of block.
func CheckGiven(block []byte) error {
	r, err := GivenRule(Match{}, block)
	if err == nil {
		c := DefaultConfig()
		c.Rules = []Rule{r}
		err = c.Validate()
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var all []error
	for _, err := range joined.Unwrap() {
		if c, ok := errors.AsType[*ConfigError](err); ok {
			err = fmt.Errorf("%s: %w", strings.TrimPrefix(c.Path, "rules[0]."), c.Err)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// clearLines removes line numbers, because the rule was not read from a file.
func clearLines(n *yaml.Node) {
	n.Line = 0
	for _, c := range n.Content {
		clearLines(c)
	}
}
