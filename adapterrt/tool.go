package adapterrt

import (
	"context"
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// CallTool calls the tool called name with the arguments that req.Body holds. It reports false
// if there is no such tool.
func (rt *Runtime) CallTool(ctx context.Context, name string, req *Request) (Result, bool) {
	v := rt.live.Load().view(req.Grant)
	u := v.byTool[name]
	if u == nil {
		return Result{}, false
	}
	if !u.calls {
		start := rt.opt.Now()
		r := Result{Call: Record{RequestID: req.ID, Operation: name, Category: file.Read}}
		r.Failure = rt.seek(v, u, req.Body, &r)
		rt.finish(&r, req, start)
		return r, true
	}
	at := u.at
	at.tool = name
	if u.operation == "" {
		return rt.Dispatch(ctx, at, req), true
	}
	refused := func(f *failure.Failure) Result {
		r := Result{Failure: f, alone: true, Call: Record{RequestID: req.ID, Adapter: at.Adapter, Operation: u.operation[len(at.Adapter)+1:]}}
		rt.finish(&r, req, rt.opt.Now())
		return r
	}
	if f := rt.opt.limits().check(req.Body); f != nil { // so that they cannot end the request below
		return refused(f), true
	}
	args := req.Body
	one, _ := v.scopes[at.Adapter].find([]byte(u.operation[len(at.Adapter)+1:]))
	if one.op != nil {
		own, twice := one.op.Own(args)
		if twice != "" {
			return refused(failure.InvalidValue(twice, "is given twice, under two names")), true
		}
		args = own
	}
	inner := *req
	inner.Body = wire.Members(make([]byte, 0, len(args)+len(u.operation)+32)).Str("operation", u.operation).Raw("params", args).End()
	at.single, at.lenient = true, v.mode == present.Discrete // 001 §11.4 binds the other modes
	r := rt.Dispatch(ctx, at, &inner)
	r.alone = true
	if one.op != nil {
		r.structured = one.op.Schema != nil
	}
	return r, true
}

// seek answers a call of one of the tools that find operations.
func (rt *Runtime) seek(v *view, u *use, body []byte, r *Result) *failure.Failure {
	var e envelope
	if f := e.parse(body, rt.opt.limits()); f != nil {
		return f
	}
	shown := v.all.shown
	if u.at.Adapter != "" {
		shown = v.scopes[u.at.Adapter].shown
	}
	if u.finds == present.DescribeOperations {
		names, f := e.names()
		if f == nil {
			r.Data, f = shown.Describe(names)
		}
		return f
	}
	q, f := e.query()
	if f == nil {
		r.text, f = shown.Search(q)
	}
	return f
}

// names returns the arguments of describe_operations. A single name may stand where a list is
// declared.
func (e *envelope) names() (names []string, f *failure.Failure) {
	for _, m := range e.top {
		if name := string(m.key); name != "operations" && name != "operation" {
			return nil, unknownArgument(name, "operations")
		}
		switch m.kind {
		case wire.String:
			names = append(names, string(wire.Unquoted(m.raw)))
		case wire.Array:
			wire.Each(m.raw, func(_, v []byte) bool {
				if wire.KindOf(v) != wire.String {
					f = failure.InvalidType("operations", "array of strings", "array with "+file.TypeOf(v))
					return false
				}
				names = append(names, string(wire.Unquoted(v)))
				return true
			})
		default:
			f = failure.InvalidType("operations", "array", file.TypeOf(m.raw))
		}
		if f != nil {
			return nil, f
		}
	}
	return names, nil
}

// query returns the arguments of search_operations.
func (e *envelope) query() (*present.Question, *failure.Failure) {
	q := &present.Question{}
	for _, m := range e.top {
		name := string(m.key)
		if m.kind == wire.Null {
			continue
		}
		if name == "limit" {
			digits, ok := wire.AppendInteger(nil, m.raw)
			if m.kind != wire.Number || !ok {
				return nil, failure.InvalidType(name, "integer", file.TypeOf(m.raw))
			}
			n, err := strconv.Atoi(string(digits))
			if err != nil || n > present.MostHits {
				n = present.MostHits // a larger limit means this one
			}
			if n < 1 {
				return nil, failure.InvalidValue(name, "must be >= 1")
			}
			q.First = n
			continue
		}
		into := map[string]*string{"query": &q.Match, "adapter": &q.Adapter, "category": &q.Category, "tag": &q.Tag}[name]
		if into == nil {
			return nil, unknownArgument(name, "query, limit, adapter, category, tag")
		}
		if m.kind != wire.String {
			return nil, failure.InvalidType(name, "string", file.TypeOf(m.raw))
		}
		*into = string(wire.Unquoted(m.raw))
	}
	if !slices.ContainsFunc(e.top, func(m entry) bool { return string(m.key) == "query" }) {
		f := failure.InvalidValue("query", "is missing: a few words for the task")
		f.Code = failure.ValidationMissingParam
		return nil, f
	}
	return q, nil
}

// unknownArgument returns the failure for an argument that a tool does not have.
func unknownArgument(name, has string) *failure.Failure {
	if len(name) > maxUnknownName {
		name = name[:maxUnknownName]
	}
	return failure.InvalidValue(name, "is not an argument of this tool, which has: "+has)
}
