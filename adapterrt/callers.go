package adapterrt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Callers says that an API gets the credential of the caller, which comes in headers of the
// caller's request, in place of the adapter's own.
type Callers struct {
	Headers  map[string]string // the caller's header, by the header to the API
	Fallback bool              // a caller without these headers uses the adapter's own credential
}

// Validate returns an error if a header cannot be used.
func (c Callers) Validate() error {
	if len(c.Headers) == 0 {
		return errors.New("names no header; it must have the header to the API and the header of the client, as in Authorization: X-GitHub-Token")
	}
	seen := map[string]bool{}
	for _, to := range sortedKeys(c.Headers) {
		from := c.Headers[to]
		switch {
		case !file.IsCredentialHeader(to):
			return fmt.Errorf("%q cannot be sent to an API: it is not a header, or one of the connection's", to)
		case seen[strings.ToLower(to)]:
			return fmt.Errorf("%s is there twice", to)
		case !file.IsCredentialHeader(from) || strings.EqualFold(from, "X-Dragoman-Token"):
			return fmt.Errorf("%s: %q cannot be the header of a client's credential", to, from)
		}
		seen[strings.ToLower(to)] = true
	}
	return nil
}

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
func valueOf(headers []Header, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}
