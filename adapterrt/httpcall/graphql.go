package httpcall

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// variables writes the body of a GraphQL request.
func (c *Call) variables() {
	op, o := c.Op, &c.Out
	body := append(o.Body.Text, op.GraphQL.Head...)
	for _, i := range op.Placed[file.InVariables] {
		v := c.Values[i]
		if v.Kind == wire.Absent {
			continue
		}
		body = wire.Comma(body)
		body = append(append(body, op.Params[i].BodyKey...), v.Raw...)
	}
	o.Body.Text = append(body, "}}"...)
	o.HasBody, o.ContentType = true, "application/json"
}

// graphqlCodes are error codes that servers send in extensions.code.
var graphqlCodes = map[string]StatusRow{
	"UNAUTHENTICATED":      {failure.PermissionDenied, "Authentication required: "},
	"AUTHENTICATION_ERROR": {failure.PermissionDenied, "Authentication required: "},
	"FORBIDDEN":            {failure.PermissionDenied, "Permission denied: "},
	"RATELIMITED":          {failure.RateLimitExceeded, "Rate limit exceeded: "},
}

// graphqlRow returns the row for the first error in errs whose code is in graphqlCodes.
func graphqlRow(errs []byte) (row StatusRow, ok bool) {
	if errs == nil || wire.KindOf(errs) != wire.Array {
		return row, false
	}
	wire.Each(errs, func(_, e []byte) bool {
		if code := wire.Member(wire.Member(e, "extensions"), "code"); code != nil && wire.KindOf(code) == wire.String {
			row, ok = graphqlCodes[string(wire.Unquoted(code))]
		}
		return !ok
	})
	return row, ok
}

// graph returns the result in a GraphQL response, or a failure. The status of a GraphQL
// response is 200 even if it reports errors.
func (c *Call) graph(body []byte, how Reading) ([]byte, *failure.Failure) {
	data := wire.Lookup(body, c.Op.GraphQL.Result)
	there := data != nil && wire.KindOf(data) != wire.Null
	errs := wire.Member(body, "errors")
	if errs == nil || wire.KindOf(errs) != wire.Array || len(wire.Trim(errs[1:len(errs)-1])) == 0 {
		if !there {
			data = []byte("null")
		}
		return data, nil
	}
	z := how.sanitizer(c.Op)
	said := z.Clean(joinedErrors(clean.Members(errs)), messageRunes, c.Out.Secrets)
	details := wire.Members(nil).Str("upstream_error", said).Str("operation", c.Op.Name)
	if there {
		c.Warn(failure.Notice{Code: "UPSTREAM_PARTIAL_ERROR", Message: "The answer is not complete", Details: details.End(), Severity: "high"})
		return data, nil
	}
	row, ok := graphqlRow(errs)
	if !ok {
		row = StatusRow{failure.ValidationInvalidType, "Invalid request: "}
	}
	return nil, &failure.Failure{Code: row.Code, Message: row.Prefix + said, Details: details.Int("http_status", 200).End()}
}
