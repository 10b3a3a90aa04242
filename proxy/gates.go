package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	defaultGateTime = 2 * time.Second
	maxAskedFor     = 20 // values that a refusal lists
)

// gate asks whether the server supports what a call of one of its tools asks for.
// refusal is the result for the client where it does not; the call then goes no
// further. Where nobody can say, the server may judge for itself.
func (x *exchange) gate(m *wire.Message) (refusal []byte) {
	gates := x.srv.now().cfg.Gates
	if len(gates) == 0 || m.Method != wire.ToolsCall || x.errand != nil {
		return nil
	}
	params := gjson.Parse(view(m.Params()))
	tool := params.Get("name").Str
	for i := range gates {
		g := gateRule{&gates[i]}
		if g.Tool != tool {
			continue
		}
		args := params.Get("arguments")
		requested := g.requested(args)
		if len(requested) == 0 {
			continue
		}
		row, err := x.row(g, args)
		verdict := "passed"
		switch {
		case err != nil && g.OnUnavailable != "deny":
			verdict = "open"
			x.log().Debug("gate is open: nobody can say", zap.String("tool", g.Tool), zap.Error(err))
		case err != nil || !g.supports(row, requested):
			verdict = "refused"
			refusal = g.refuse(args, requested, err == nil)
			if x.s.direct != nil {
				refusal = append([]byte(`{"resultType":"complete",`), refusal[1:]...)
			}
		}
		x.srv.metrics.gates.WithLabelValues(g.Tool, verdict).Inc()
		if refusal != nil {
			return refusal
		}
	}
	return nil
}

// gateRule is a gate as configured.
type gateRule struct{ *config.Gate }

// requested is what the gated parameters ask for; nothing where none is given, or
// all are empty.
func (g gateRule) requested(args gjson.Result) (all []string) {
	eachMember(args, func(name string, v gjson.Result) {
		if !slices.Contains(g.Params, name) {
			return
		}
		switch {
		case v.Type == gjson.Null, v.Type == gjson.String && v.Str == "":
		case v.IsArray():
			for _, e := range v.Array() {
				all = append(all, e.String())
			}
		case v.IsObject():
			eachMember(v, func(name string, _ gjson.Result) { all = append(all, name) })
		case v.Type == gjson.String:
			all = append(all, v.Str)
		default:
			all = append(all, name)
		}
	})
	return all
}

// eachMember calls do with each member of an object. Names are names here, and no paths.
func eachMember(object gjson.Result, do func(name string, v gjson.Result)) {
	if object.IsObject() {
		object.ForEach(func(key, v gjson.Result) bool {
			do(key.Str, v)
			return true
		})
	}
}

// memberOf is the last member of that name.
func memberOf(object gjson.Result, name string) (found gjson.Result) {
	eachMember(object, func(n string, v gjson.Result) {
		if n == name {
			found = v
		}
	})
	return found
}

// placeholder is the name in {name}, "" for a literal.
func placeholder(text string) string {
	if inner, ok := strings.CutPrefix(text, "{"); ok && strings.HasSuffix(inner, "}") {
		return strings.TrimSuffix(inner, "}")
	}
	return ""
}

var errNoRow = errors.New("the source does not speak of it")

// row is what the source says of that which the call is about.
func (x *exchange) row(g gateRule, args gjson.Result) (gjson.Result, error) {
	given := make(map[string]any)
	for name, v := range g.SourceParams {
		if text, ok := v.(string); ok && placeholder(text) != "" {
			value := memberOf(args, placeholder(text))
			if !value.Exists() || value.Type == gjson.Null {
				continue
			}
			v = json.RawMessage(value.Raw)
		}
		given[name] = v
	}
	call, err := json.Marshal(map[string]any{"name": g.Source, "arguments": given})
	if err != nil {
		return gjson.Result{}, err
	}
	timeout := g.Timeout
	if timeout == 0 {
		timeout = defaultGateTime
	}
	ctx, cancel := context.WithTimeout(x.ctx, timeout)
	defer cancel()
	answer, err := x.askServer(ctx, wire.ToolsCall, call)
	if err != nil {
		return gjson.Result{}, err
	}
	said := gjson.ParseBytes(answer)
	if said.Get("result.isError").Bool() || !said.Get("result").Exists() {
		return gjson.Result{}, errors.New("the source answers with an error")
	}
	rows := said.Get("result.structuredContent")
	if !rows.Exists() {
		text := said.Get("result.content.0.text").Str
		if !gjson.Valid(text) {
			return gjson.Result{}, errors.New("the source does not answer with JSON")
		}
		rows = gjson.Parse(text)
	}
	rows = walk(rows, g.List)
	for _, row := range rows.Array() {
		if g.matches(row, args) {
			return row, nil
		}
	}
	return gjson.Result{}, errNoRow
}

// walk follows a dotted path of member names.
func walk(v gjson.Result, path string) gjson.Result {
	for name := range strings.SplitSeq(path, ".") {
		if name != "" {
			v = memberOf(v, name)
		}
	}
	return v
}

func (g gateRule) matches(row, args gjson.Result) bool {
	for names, want := range g.Match {
		if p := placeholder(want); p != "" {
			v := memberOf(args, p)
			if !v.Exists() {
				return false
			}
			want = v.String()
		}
		found := false
		for name := range strings.SplitSeq(names, "|") {
			v := memberOf(row, name)
			found = found || v.Exists() && v.Type != gjson.Null && v.String() == want
		}
		if !found {
			return false
		}
	}
	return true
}

// supports reports whether the row has the capability, of the requested values where
// those must match.
func (g gateRule) supports(row gjson.Result, requested []string) bool {
	v := walk(row, g.Capability)
	var has []string
	switch {
	case v.IsArray():
		for _, e := range v.Array() {
			if n := memberOf(e, "name"); n.Exists() {
				e = n
			}
			has = append(has, e.String())
		}
	case v.IsObject():
		eachMember(v, func(name string, _ gjson.Result) { has = append(has, name) })
	default:
		return v.Type == gjson.True
	}
	if len(has) == 0 || !g.MatchValues {
		return len(has) > 0
	}
	return !slices.ContainsFunc(requested, func(r string) bool { return !slices.Contains(has, r) })
}

// refuse is the result of a call with parameters that are not supported, or of which
// nobody knows.
func (g gateRule) refuse(args gjson.Result, requested []string, known bool) []byte {
	verb, about := "not supported", "here"
	if !known {
		verb = "not known to be supported"
	}
	if v := memberOf(args, g.Subject); g.Subject != "" && v.Exists() {
		about = "for " + g.Subject + " '" + shortened([]byte(v.String())) + "'"
	}
	if len(requested) > maxAskedFor {
		requested = requested[:maxAskedFor]
	}
	message := fmt.Sprintf("%s %s %s. Requested: %s. Consult %s (%s).", strings.Join(g.Params, ", "), verb, about,
		shortened([]byte(strings.Join(requested, ", "))), g.Source, g.Capability)
	text := append([]byte(`{"code":`), mcp.AppendString(nil, g.ErrorCode)...)
	text = append(mcp.AppendString(append(text, `,"message":`...), message), '}')
	result := mcp.AppendString([]byte(`{"content":[{"type":"text","text":`), string(text))
	return append(result, `}],"isError":true}`...)
}

// askServer makes a request of our own on the client's session, with the client's
// credentials, and returns the answer. What else comes on its stream is passed over.
// ctx has a deadline.
func (x *exchange) askServer(ctx context.Context, method wire.Method, params []byte) ([]byte, error) {
	var b [12]byte
	rand.Read(b[:])
	id := []byte(`"dragoman-gate-` + hex.EncodeToString(b[:]) + `"`)
	c := newCall(id, wire.ToolsCall)
	c.here, c.answers = true, make(chan []byte, 1)
	if err := x.s.open.add(c); err != nil {
		return nil, err
	}
	defer x.s.open.end(c)
	body := mcp.Request(id, method, params)
	header := x.from
	if d := x.s.direct; d != nil { // each request says who sends it
		body = d.request(id, method, string(bytes.TrimSuffix(bytes.TrimPrefix(params, []byte{'{'}), []byte{'}'})))
		header = d.headers(x.from, method.String(), gjson.GetBytes(params, "name").String())
	}
	end, _ := ctx.Deadline()
	left := time.Until(end)
	st, err := x.s.conn.Send(ctx, &upstream.Outgoing{Body: body, Request: true, Header: header, FirstByte: left, Silence: left})
	switch {
	case err != nil:
		return nil, err
	case st == nil: // the answer comes with everything else that a server on a pipe says
		select {
		case answer := <-c.answers:
			return answer, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer st.Close()
	var m wire.Message
	for {
		e, err := st.Next()
		if err != nil {
			return nil, err
		}
		if m.Scan(e.Data, nil) != nil || !m.Kind.Response() {
			continue
		}
		if string(wire.AppendIDKey(nil, m.ID())) == c.key {
			return slices.Clone(m.Raw), nil
		}
	}
}
