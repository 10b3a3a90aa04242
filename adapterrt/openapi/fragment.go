package openapi

import (
	"net/url"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Some APIs have one path for all operations: a header or a parameter of the query says which one is meant. Documents then tell the paths
// apart by a fragment, which is never sent: /#Action=RunInstances, /#X-Amz-Target=DynamoDB_20120810.GetItem.

// fixed puts a required parameter that has only one value, which says which operation is meant, into the request of an operation
// whose path has a fragment. It reports whether raw is such a parameter.
func (m *mapper) fixed(raw *rawParam) bool {
	if !raw.required {
		return false
	}
	s := m.shape(raw.schema)
	if len(s.enum) != 1 || !s.enum[0].scalar() {
		return false
	}
	value := s.enum[0].text
	switch raw.in {
	case "query":
		sep := "?"
		if strings.Contains(m.op.mapsTo, "?") {
			sep = "&"
		}
		to := m.op.mapsTo + sep + strings.ReplaceAll(url.QueryEscape(raw.name)+"="+url.QueryEscape(value), "+", "%20")
		if file.CheckMapping(to) != nil {
			return false
		}
		m.op.mapsTo = to
		return true
	case "header":
		if !file.IsToken(raw.name) || file.IsForbiddenHeader(raw.name) || !file.IsHeaderValue(value) || m.base.sets(raw.name, "", "") {
			return false
		}
		m.op.request.fixed = append(m.op.request.fixed, pair{raw.name, value})
		return true
	}
	return false
}
