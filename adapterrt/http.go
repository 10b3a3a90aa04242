package adapterrt

import (
	"context"
	"mime"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// HTTPRequest is a request to the plain HTTP endpoints. The HTTP server has read it and
// has already checked that the caller may send it.
type HTTPRequest struct {
	Request
	Method      string
	Path        string // escaped, without the query
	ContentType string
}

// HTTPResponse is the answer to an HTTPRequest. Its body is always JSON.
type HTTPResponse struct {
	Status    int
	Header    []file.Header
	Body      []byte
	Call      Record
	Parts     []Record // of a batch, as in Result
	Cancelled bool     // the caller has left, so the response is not sent
}

// HTTP answers a request to the plain endpoints. Their paths all begin with
// Options.HTTPPrefix.
func (rt *Runtime) HTTP(ctx context.Context, req *HTTPRequest) HTTPResponse {
	path, ok := strings.CutPrefix(req.Path, rt.opt.HTTPPrefix)
	if !ok || path != "" && path[0] != '/' {
		return rt.fail(notFound("No such endpoint"))
	}
	var parts []string
	if path = strings.Trim(path, "/"); path != "" {
		parts = strings.Split(path, "/")
	}
	switch {
	case len(parts) == 0:
		if req.Method != "GET" {
			return rt.notAllowed("GET")
		}
		return rt.reply(ctx, &Result{Data: rt.live.Load().view(req.Grant).listing()})
	case parts[0] == "-":
		return rt.fail(notFound("No such endpoint"))
	}
	name := parts[0]
	v := rt.live.Load().view(req.Grant)
	if v.scopes[name] == nil {
		return rt.fail(v.unknownAdapter(name))
	}
	if len(parts) == 1 {
		switch req.Method {
		case "GET":
			return rt.ask(ctx, req, name, "adapter_info", nil)
		case "POST":
			return rt.operate(ctx, req, Endpoint{Adapter: name})
		}
		return rt.notAllowed("GET, POST")
	}
	if query := parts[1]; query == "operations" || query == "types" {
		if len(parts) > 3 {
			return rt.fail(notFound("No such endpoint"))
		}
		if req.Method != "GET" {
			return rt.notAllowed("GET")
		}
		return rt.ask(ctx, req, name, query, parts[2:])
	}
	word := strings.TrimPrefix(parts[1], v.how.Prefix(name))
	category, known := file.CategoryOf(strings.TrimPrefix(word, "mcp_aql_"))
	if len(parts) > 2 || !known && word != "mcp_aql" {
		return rt.fail(notFound("No such endpoint"))
	}
	if req.Method != "POST" {
		return rt.notAllowed("POST")
	}
	return rt.operate(ctx, req, Endpoint{Adapter: name, Category: category})
}

// operate answers a POST with an operation.
func (rt *Runtime) operate(ctx context.Context, req *HTTPRequest, at Endpoint) HTTPResponse {
	// An HTML form cannot send this content type, so that a form on another site cannot
	// start an operation.
	if kind, _, err := mime.ParseMediaType(req.ContentType); err != nil || kind != "application/json" {
		f := failure.InvalidValue("Content-Type", "must be application/json")
		res := rt.fail(f)
		res.Status = 415
		return res
	}
	r := rt.Dispatch(ctx, at, &req.Request)
	return rt.reply(ctx, &r)
}

// ask answers a GET with introspection.
func (rt *Runtime) ask(ctx context.Context, req *HTTPRequest, adapter, query string, name []string) HTTPResponse {
	params := wire.Members(nil).Str("query", query)
	switch {
	case len(name) == 1:
		params = params.Str("name", name[0])
	case query == "operations" && rt.opt.Introspection != present.Strict:
		params = params.Int("first", present.MostListed) // the clients of GET are programs, which do not page
	}
	inner := req.Request
	inner.Body = wire.Members(nil).Str("operation", rt.live.Load().how.Builtin.Name).Raw("params", params.End()).End()
	r := rt.Dispatch(ctx, Endpoint{Adapter: adapter, Category: file.Read}, &inner)
	return rt.reply(ctx, &r)
}

func (rt *Runtime) reply(ctx context.Context, r *Result) HTTPResponse {
	body, err := rt.opt.Memory.Copy(ctx, r.size())
	if err != nil {
		r = r.without(ctx, err)
	}
	return rt.response(r, r.AppendJSON(body))
}

func (rt *Runtime) response(r *Result, body []byte) HTTPResponse {
	res := HTTPResponse{Status: r.HTTPStatus(), Body: body, Call: r.Call, Parts: r.Parts, Cancelled: r.Cancelled}
	if after := r.RetryAfter(); after != "" {
		res.Header = append(res.Header, file.Header{Name: "Retry-After", Value: after})
	}
	if res.Status == 405 {
		res.Header = append(res.Header, file.Header{Name: "Allow", Value: "POST"})
	}
	return res
}

func (rt *Runtime) fail(f *failure.Failure) HTTPResponse {
	r := &Result{Failure: f}
	return rt.response(r, r.JSON())
}

// Refusal returns the JSON body of the response if the HTTP server itself refuses a request
// to the plain endpoints. status is the HTTP status of the response, why the reason.
func (rt *Runtime) Refusal(status int, why string) []byte {
	r := Result{Failure: &failure.Failure{Code: httpcall.MapStatus(status, nil).Code, Message: why}}
	return r.JSON()
}

func notFound(message string) *failure.Failure {
	return &failure.Failure{Code: failure.NotFoundResource, Message: message}
}

func (rt *Runtime) notAllowed(allow string) HTTPResponse {
	res := rt.fail(&failure.Failure{Code: failure.ValidationEndpointMismatch, Message: "Method not allowed. Use " + allow + "."})
	res.Header = []file.Header{{Name: "Allow", Value: allow}}
	return res
}

// listing returns the answer to GET on the prefix.
func (v *view) listing() []byte {
	dst := []byte(`{"adapters":[`)
	for _, a := range v.adapters {
		dst = wire.Comma(dst)
		dst = append(dst, wire.Members(nil).Str("name", a.Name).Str("version", a.Version).Str("description", a.Description).
			Strs("modes", []string{present.Semantic.String(), present.Single.String()}).Int("operation_count", int64(len(v.scopes[a.Name].shown.Adapters[0].Operations()))).End()...)
	}
	return append(dst, "]}"...)
}
