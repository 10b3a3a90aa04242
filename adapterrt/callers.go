package adapterrt

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// identify finds the credential of the caller, if the adapter's API gets one. It sets c.own and
// c.Caller, which is a hash of the credential and stands for the caller.
func (c *call) identify(rt *Runtime, a *adapter, req *Request) *failure.Failure {
	c.own, c.Caller = nil, ""
	rule, ok := rt.opt.Callers[a.Name]
	if !ok || req.Local {
		return nil
	}
	d := httpcall.NewDigest()
	d.Add(a.Name)
	var missing []string
	for _, to := range slices.Sorted(maps.Keys(rule.Headers)) {
		value := valueOf(req.Headers, rule.Headers[to])
		if strings.TrimSpace(value) == "" {
			missing = append(missing, rule.Headers[to])
			continue
		}
		d.Add(strings.ToLower(to), value)
		c.own = append(c.own, file.Header{Name: to, Value: value})
	}
	switch {
	case missing == nil:
		c.Caller = string(d.Sum(nil))
		return nil
	case len(missing) == len(rule.Headers) && rule.Fallback:
		c.own = nil
		return nil
	}
	c.own = nil
	return &failure.Failure{
		Code: failure.AuthCredentialMissing, Message: "The API of adapter '" + a.Name + "' needs your own credential: send it in the header " + strings.Join(missing, " and "),
		Details: wire.Members(nil).Str("adapter", a.Name).Strs("headers", missing).End(), Caller: true,
	}
}

// valueOf returns the value of a header, or "" if there is none.
func valueOf(headers []file.Header, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}
