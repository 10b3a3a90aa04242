package file

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ErrorRule assigns an error to answers of the API, where their status is not enough.
type ErrorRule struct {
	Status  int      // 0 for any
	Path    []string // of a value in the body, nil for none
	Is      []byte   // JSON: the rule applies if the value is equal to this one
	Code    string   // "" for the code of the status
	Message string   // "" for the API's own message
	Hint    string
}

// errorCodes are the error codes that a rule may assign.
var errorCodes = []string{"VALIDATION_INVALID_TYPE", "VALIDATION_INVALID_VALUE", "VALIDATION_MISSING_PARAM", "VALIDATION_PAYLOAD_TOO_LARGE", "NOT_FOUND_RESOURCE",
	"PERMISSION_DENIED", "CONFLICT_ALREADY_EXISTS", "CONFLICT_VERSION_MISMATCH", "RATE_LIMIT_EXCEEDED", "TRANSPORT_TIMEOUT", "INTERNAL_ERROR"}

// maxErrorRules is the largest number of rules in an error_mapping.
const maxErrorRules = 200

var errorBlock = block{"error_mapping[]", "At the top, or in an operation, whose rules come first. The first rule that matches counts.", []key{
	{"status", "integer 200–599", "", "The status of the answer. Without it, any; then `when` is required."},
	{"when", "map", "", "What the body of the answer must hold; required for a status below 300."},
	{"code", strings.Join(errorCodes, ", "), "", "The code of the error. Without it, that of the status."},
	{"message", "string", "", "The error's message. Without it, the API's own."},
	{"hint", "string", "", "What to do, for the model."},
}}

var whenBlock = block{"error_mapping[].when", "", []key{
	{"path", "dotted path", must, "The place of a value in the body."},
	{"is", "any", must, "The value that it must have."},
}}

// errorRules reads the error_mapping of a file, or of the operation at path.
func (c *checker) errorRules(in *node, path string) (rules []ErrorRule) {
	n := in.get("error_mapping")
	if n == nil || n.kind == wire.Null {
		return nil
	}
	if n.kind != wire.Array {
		c.later(in, path, "error_mapping") // in files for other runtimes it is a map
		return nil
	}
	whole := join(path, "error_mapping")
	if len(n.list) > maxErrorRules {
		c.wrong(SchemaInvalidValue, whole, "too many rules", "up to 200", n, 0)
		return nil
	}
	for at, e := range c.maps(n, whole, "a rule") {
		c.only(e, at, &errorBlock)
		r := ErrorRule{Status: c.whole(e, at, "status", 0, 200, 599), Code: c.str(e, at, "code")}
		r.Message, r.Hint = clean.Text(c.str(e, at, "message"), 500), clean.Text(c.str(e, at, "hint"), 500)
		if r.Code != "" && !slices.Contains(errorCodes, r.Code) {
			c.wrong(SchemaInvalidValue, at+".code", "code is not an error code of adapters", strings.Join(errorCodes, ", "), e.get("code"), 0)
		}
		if w := c.get(e, at, "when", wire.Object); w != nil {
			c.only(w, at+".when", &whenBlock)
			path, p := c.need(w, at+".when", "path", "Path")
			is := w.get("is")
			if is == nil {
				c.missing(w, at+".when", "is", "Value", nil)
			}
			if p != nil && is != nil {
				r.Path, r.Is = splitPath(path), is.JSON(nil)
			}
			if slices.Contains(r.Path, "") {
				c.wrong(SchemaInvalidValue, at+".when.path", "path is not valid", "names joined by dots", p, 0)
			}
		}
		if r.Path == nil && r.Status < 300 {
			c.wrong(SchemaMissingField, at+".when", "a rule needs the status of a failure, or when", "status or when", e.get("when"), e.line)
		}
		rules = append(rules, r)
	}
	return rules
}
