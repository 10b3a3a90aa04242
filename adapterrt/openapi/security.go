package openapi

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// awsRegion finds a region in a host.
var awsRegion = pattern.Later(`[./]((?:[a-z]+-){2,3}[0-9])\.(?:[a-z0-9-]+\.)?(?:amazonaws|api\.aws)`)

// sign adds the region to an auth block for a service of Amazon's. Services that are the same everywhere are signed for us-east-1.
func (t *target) sign() {
	if t.auth.kind != "aws-sig4" {
		return
	}
	region := "us-east-1"
	if m := awsRegion().FindStringSubmatch(t.url); m != nil {
		region = m[1]
	}
	t.auth.members = append(t.auth.members, pair{"region", region})
	t.auth.note("requests are signed for a service of AWS in "+region, "check auth.service and auth.region")
}

// otherwise returns the schemes of an operation that cannot be called with those of the file, or "".
func (t *target) otherwise(op *rawOperation) string {
	if len(t.auth.schemes) == 0 || !op.security.is(wire.Array) || len(op.security.kids) == 0 {
		return ""
	}
	var ways []string
	for _, a := range op.security.kids {
		if !a.is(wire.Object) || !slices.ContainsFunc(a.keys, func(s string) bool { return !slices.Contains(t.auth.schemes, s) }) {
			return ""
		}
		ways = append(ways, strings.Join(a.keys, " and "))
	}
	return strings.Join(ways, ", or ")
}
