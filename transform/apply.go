package transform

// Apply appends a result to dst, transformed by the rule for its tool and made
// to fit the budget. result is valid JSON, as wire.Scan takes it: a CallToolResult, or a
// result of Call.Method. If there is nothing to do, Apply returns result itself and leaves
// dst alone. It never changes or keeps result.
//
// If a transformer fails, the result stays as it came, but is still cut to the budget; the
// report says so.
func (e *Engine) Apply(dst, result []byte, c *Call) ([]byte, Report) {
	if e == nil || !e.config.Enabled || len(result) == 0 {
		return result, Report{BytesBefore: len(result), BytesAfter: len(result)}
	}
	r := e.rule(c.Server, c.Tool)
	budget, tool, ok := e.terms(r, c)
	works := tool && e.working(r, c)
	if !ok || !works && (budget == 0 || e.short(result, budget)) {
		return result, Report{BytesBefore: len(result), BytesAfter: len(result), Budget: budget, Rule: r.where}
	}
	return e.apply(dst, result, c, r, budget, works)
}

// apply does what Apply does, for a result that has to be read.
func (e *Engine) apply(dst, result []byte, c *Call, r *rule, budget int, works bool) (out []byte, report Report) {
	report.BytesBefore, report.BytesAfter = len(result), len(result)
	report.Budget, report.Rule = budget, r.where
	run := &run{engine: e, rule: r, call: c, original: result, report: &report, marker: r.marker}
	now := result
	if works {
		now = run.guardedly(result, func() []byte { return run.shape(result) })
	}
	fit := budget == 0 || e.short(now, budget)
	if !fit {
		run.guardedly(now, func() []byte {
			t := tally{encoding: e.encoding, left: budget}
			if c.Around != nil {
				t.left -= c.Around.Whole
				value, _ := valueOf(now)
				t.add(value)
			} else {
				t.result(now, c.Method)
			}
			if !t.over {
				fit = true
				report.TokensAfter = t.sum
			}
			return now
		})
	}
	run.shaped = len(now) != len(result) || &now[0] != &result[0]
	changed := run.shaped
	switch {
	case fit && !changed:
		report.TokensBefore = report.TokensAfter
		return result, report
	case fit:
		report.Outcome = max(report.Outcome, Transformed)
		run.weigh(now)
		out = append(dst, now...)
	default:
		out = run.guardedly(nil, func() []byte { return run.capTo(dst, now, budget) })
		switch {
		case out != nil:
			report.Outcome = max(report.Outcome, Capped)
		case !changed:
			return result, report
		default:
			out = append(dst, now...)
		}
	}
	run.close()
	report.BytesAfter = len(out) - len(dst)
	return out, report
}

// terms returns the budget of a call, and whether it is a call of a tool. ok is false for
// results that the engine does not change.
func (e *Engine) terms(r *rule, c *Call) (budget int, tool, ok bool) {
	budget = e.budget(r)
	if c.MaxTokens > 0 && e.config.Adapters.Capper.Enabled {
		if hint := max(c.MaxTokens, minTokens); budget == 0 || hint < budget {
			budget = hint
		}
	}
	switch c.Method {
	case "", "tools/call":
		return budget, true, true
	case "resources/read":
		return budget, false, e.config.CapResources
	case "prompts/get":
		return budget, false, e.config.CapPrompts
	}
	return budget, false, false
}

// short reports whether a result fits the budget by its length alone: a token has at least
// one byte, and each text has more than a byte of JSON around it.
func (e *Engine) short(result []byte, budget int) bool {
	return float64(len(result))*max(1, e.encoding.Factor()) <= float64(budget)
}

// working reports whether a step before the capper may change a tool's result.
func (e *Engine) working(r *rule, c *Call) bool {
	return !c.Full && !r.full && (r.works() || len(e.served)+len(e.detect) > 0)
}
