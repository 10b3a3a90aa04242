package file

import (
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var cacheBlock = block{"operations.CATEGORY[].cache", "", []key{
	{"ttl", "duration up to 24h, as 30s", must, "How long an answer is fresh."},
	{"coalesce", "boolean", "false", "Identical calls at one time share one request."},
}}

func (c *checker) cacheRule(n *node, path string, op *Operation) {
	v := n.get("cache")
	if v == nil || v.kind == wire.Null {
		if f := c.get(n, path, "coalesce", wire.Boolean); f != nil {
			c.warn(SchemaInvalidValue, path+".coalesce", "coalesce needs cache", f.line)
		}
		return
	}
	r := &CacheRule{Coalesce: c.flag(n, path, "coalesce", false)}
	path += ".cache"
	switch {
	case v.kind == wire.String && v.text == "headers":
	case v.kind == wire.Object:
		c.known(v, path, &cacheBlock)
		ttl, at := c.need(v, path, "ttl", "ttl")
		if at == nil {
			return
		}
		d, err := time.ParseDuration(ttl)
		if err != nil || d <= 0 || d > 24*time.Hour {
			c.wrong(SchemaInvalidValue, path+".ttl", "ttl is not valid", "duration up to 24h, as 30s", at, 0)
		}
		r.TTL = d
		r.Coalesce = c.flag(v, path, "coalesce", r.Coalesce)
	default:
		c.wrong(SchemaInvalidValue, path, "cache is not valid", "{ttl: 30s} or headers", v, 0)
		return
	}
	switch {
	case op.Category != Read || op.Mapping != nil && op.Mapping.Method != "GET":
		c.wrong(SchemaInvalidValue, path, "only read operations by GET are cached", "category read, method GET", v, 0)
	case op.Mapping == nil: // this problem is reported already
	case !op.Repeatable:
		c.wrong(SchemaInvalidValue, path, "non-idempotent operations must not be cached", "no non_idempotent", v, 0)
	default:
		op.Cache = r
	}
}
