// Package adapters serves the operations of adapter files, which make tools of an HTTP API, as MCP
// tools ([owntools.Source]) and as plain HTTP endpoints. Package adapterrt, which knows no MCP, does
// the work; this package shapes what it returns, counts and logs the calls, and turns the
// configuration into its options.
package adapters

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/transform"
)

// Adapters is the runtime of a set of adapter files. Its methods but Refresh are safe for concurrent
// use.
type Adapters struct {
	runtime *adapterrt.Runtime
	sources []file.Source
	log     *zap.Logger
	given   []transform.Rule // the rules in the adapter files; srv.reloading guards changes
	roots   *x509.CertPool   // that connections to APIs trust; srv.reloading guards it
	metrics *metrics.Metrics
	shaping func() *shape.Shaping // returns the current shaping

	callerHeaders []string // names of the clients' headers with credentials for APIs
}

// New loads the adapters that cfg names, whose APIs are in w, and returns nil if there are none. key is a secret
// that all replicas share, or nil; tokens stores the adapters' OAuth tokens; replicas is
// the store that replicas share, or nil; memory counts their answers; shaping returns the current
// shaping of results, and is called for each request to the plain endpoints.
func New(w origin.World, cfg config.Adapters, key []byte, tokens *oauth.Store, replicas *store.Store, sent secret.Known, shaping func() *shape.Shaping, m *metrics.Metrics, memory *large.Memory, log *zap.Logger) (*Adapters, error) {
	if len(cfg.Sources) == 0 {
		return nil, nil
	}
	opt, err := Options(&cfg, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	opt.Tokens, opt.Listen, opt.Sent = tokens, callback, sent
	opt.Memory, opt.Dial, opt.Run = answers{memory}, httpcall.Dial(w.Dial), runIn(w)
	opt.Replicas = newShared(replicas, m, log)
	if key != nil {
		sum := sha256.Sum256(append([]byte("adapter cursors\x00"), key...))
		opt.CursorKey = sum[:]
	}
	a := &Adapters{sources: cfg.List(), roots: opt.RootCAs, shaping: shaping, metrics: m, log: log, callerHeaders: cfg.CallerHeaders()}
	rt, err := adapterrt.New(opt)
	if err != nil {
		return nil, err
	}
	a.runtime = rt
	files, wrong := file.Find(a.sources)
	problems, err := rt.Load(files)
	problems = append(wrong, problems...)
	a.logProblems(problems)
	if err == nil && len(wrong) > 0 && !cfg.SkipInvalid {
		err = &file.LoadError{Problems: wrong}
	}
	if err != nil {
		return nil, err
	}
	for _, info := range rt.Adapters() {
		log.Info("adapter loaded", zap.String("name", info.Name), zap.String("version", info.Version),
			zap.Int("operations", info.Operations), zap.String("file", info.File))
	}
	if len(files)+len(wrong) == 0 {
		log.Warn(file.NoFiles, zap.Strings("sources", cfg.Sources))
	}
	a.logUnused()
	a.logCallers(&cfg)
	return a, a.readRules()
}

// CallerHeaders returns the names of the clients' headers with credentials for APIs. a may be nil.
func (a *Adapters) CallerHeaders() []string {
	if a == nil {
		return nil
	}
	return a.callerHeaders
}

// Roots returns the certificates that adapters.network.ca_file has now; nil for the system's. a may be nil.
func (a *Adapters) Roots(cfg *config.Adapters) (*x509.CertPool, error) {
	if a == nil {
		return nil, nil
	}
	return rootsOf(cfg)
}

// Trust makes connections to APIs trust roots. Their adapters' own files with certificates are read again. a may be nil.
func (a *Adapters) Trust(roots *x509.CertPool) {
	if a == nil {
		return
	}
	a.roots = roots
	if err := a.runtime.Trust(roots); err != nil {
		a.log.Error("cannot read the certificates that an adapter trusts: it trusts those from before", zap.Error(err))
	}
}

// Authorities returns the files with certificates that adapters name, and trust. a may be nil.
func (a *Adapters) Authorities() []string {
	if a == nil {
		return nil
	}
	return a.runtime.Authorities()
}

// Show changes the mode, the pinned operations and the grants to those of cfg. It reports whether
// anything changed. a may be nil.
func (a *Adapters) Show(cfg *config.Adapters) (changed bool, err error) {
	if a == nil {
		return false, nil
	}
	opt, err := Options(cfg, os.LookupEnv)
	if err == nil {
		changed, err = a.runtime.Show(opt.Shown)
	}
	if changed {
		a.logUnused()
	}
	return changed, err
}

// logUnused logs names and patterns of the configuration that fit no operation.
func (a *Adapters) logUnused() {
	for _, name := range a.runtime.Unpinned() {
		a.log.Warn("adapters.pin names an operation that no adapter has", zap.String("operation", name))
	}
	for _, pattern := range a.runtime.Idle() {
		a.log.Warn("a pattern of adapters.tokens matches no operation", zap.String("pattern", pattern))
	}
}

// logCallers logs which APIs get credentials of clients.
func (a *Adapters) logCallers(cfg *config.Adapters) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Callers)) {
		c := cfg.Callers[name]
		if !slices.ContainsFunc(a.runtime.Adapters(), func(i adapterrt.Info) bool { return i.Name == name }) {
			a.log.Warn("adapters.callers names an adapter that is not loaded", zap.String("adapter", name))
		}
		for _, to := range slices.Sorted(maps.Keys(c.Headers)) {
			a.log.Info("the API of an adapter gets a credential of the client", zap.String("adapter", name),
				zap.String("header", to), zap.String("of_the_clients_header", c.Headers[to]), zap.Bool("fallback", c.Fallback))
		}
	}
	if name, passes := cfg.PassesAuthorization(); passes {
		a.log.Warn("the Authorization header of clients is sent to an API: clients must not send a token there that was issued for this MCP server, "+
			"and send a token of auth.tokens as X-Dragoman-Token", zap.String("adapter", name))
	}
}

// loginPage is the page on this machine to which the browser returns after a login.
type loginPage struct{ *oauth.Callback }

func (p loginPage) Address() string { return p.URL }

// callback is [oauth.Listen] for adapters.
func callback(redirect string) (credential.Callback, error) {
	c, err := oauth.Listen(redirect)
	if err != nil {
		return nil, err
	}
	return loginPage{c}, nil
}

// Close releases what ended calls have left in the runtime.
func (a *Adapters) Close() { a.runtime.Close() }

// Refresh reads the files and those of Authorities again, and calls apply if the adapters have changed. wrong reports that a file is
// invalid. err joins the errors of reading the files and of apply. Only one goroutine at a time may call
// Refresh.
func (a *Adapters) Refresh(apply func() error) (changed, wrong bool, err error) {
	problems, changed, err := a.runtime.Refresh(a.sources)
	a.logProblems(problems)
	a.Trust(a.roots)
	if err == nil && changed {
		err = errors.Join(a.readRules(), apply())
	}
	wrong = slices.ContainsFunc(problems, func(p file.Problem) bool { return p.Severity == file.Error })
	return changed, wrong, err
}

// Number returns the number of adapters.
func (a *Adapters) Number() int { return len(a.runtime.Adapters()) }

// logProblems logs the problems of adapter files.
func (a *Adapters) logProblems(problems []file.Problem) {
	for _, p := range problems {
		level := zapcore.WarnLevel
		if p.Severity == file.Error {
			level = zapcore.ErrorLevel
		}
		fields := []zap.Field{
			zap.String("file", p.File), zap.Int("line", p.Line), zap.String("path", p.Path), zap.String("problem", p.Message),
		}
		if p.Expected != "" || p.Received != "" {
			fields = append(fields, zap.String("expected", p.Expected), zap.String("received", p.Received))
		}
		a.log.Log(level, "problem in an adapter file", append(fields, zap.String("code", p.Code))...)
	}
}

// Grants returns the names in adapters.tokens.
func (a *Adapters) Grants() []string { return a.runtime.Grants() }

// Tools returns the tools that the adapter runtime serves in its configured mode to clients with a
// grant.
func (a *Adapters) Tools(grant string) (all []owntools.Tool) {
	for _, t := range a.runtime.Tools(grant) {
		all = append(all, owntools.Tool{Name: t.Name, JSON: t.JSON})
	}
	return all
}

// Call dispatches one request to an operation. The error is that of a [large.Memory].
func (a *Adapters) Call(ctx context.Context, c *owntools.Call) ([]byte, error) {
	req := adapterrt.Request{Body: c.Arguments, Grant: c.Grant, Headers: headersOf(&c.Sender), Local: c.Sender.Local, Session: c.Session, Caller: c.Caller, Ask: c.Ask, Send: c.Send, Progress: c.Progress}
	if req.Body == nil {
		req.Body = []byte("{}")
	}
	for _, h := range c.Header {
		req.Trace = append(req.Trace, file.Header{Name: h.Name, Value: h.Value})
	}
	d := a.reduceCall(c)
	if d != nil {
		req.Shape = d.shape
	}
	r, ok := a.runtime.CallTool(ctx, c.Tool, &req)
	if !ok { // removed since the client read the list
		return c.Answer(ctx, []byte(`{"content":[{"type":"text","text":"This tool no longer exists. List the tools again."}],"isError":true}`))
	}
	a.recordAll(&r.Call, r.Parts, r.Cancelled, &req)
	if d != nil && len(r.Parts) == 0 {
		c.Wanted.Settled = d.settled
	}
	if r.Failure != nil && r.Failure.Busy {
		return nil, r.Failure.Cause
	}
	room, err := c.Begin(ctx, r.ToolSize())
	if err != nil {
		lost, changed := r.Lost(err)
		if !changed {
			return nil, err
		}
		if r = lost; ctx.Err() == nil {
			room, err = c.Begin(ctx, r.ToolSize())
		}
		if err != nil {
			return nil, err
		}
	}
	return a.runtime.AppendToolResult(room, &r), nil
}

// headersOf returns the headers with credentials for APIs.
func headersOf(s *downstream.Sender) (list []file.Header) {
	for _, h := range s.Header {
		list = append(list, file.Header{Name: h.Name, Value: h.Value})
	}
	return list
}

// Instructions returns the runtime's instructions for clients with a grant.
func (a *Adapters) Instructions(grant string) string { return a.runtime.Instructions(grant) }

// EndSession drops the session's confirmation tokens.
func (a *Adapters) EndSession(session string) { a.runtime.EndSession(session) }

// ServeHTTP answers a request to the plain endpoints, whose client has this grant.
func (a *Adapters) ServeHTTP(req *downstream.Request, grant string, resp *downstream.Response) {
	sender := downstream.SenderOf(req.Guest, req.Header, a.callerHeaders)
	in := adapterrt.Request{
		Grant: grant, Headers: headersOf(&sender),
		Body: req.Body, ID: req.Header("X-Request-Id"),
		Caller: req.Guest + "/" + principal.Mark(req.Header("Authorization")),
	}
	for _, name := range trace.Headers {
		if v := req.Header(name); v != "" {
			in.Trace = append(in.Trace, file.Header{Name: name, Value: v})
		}
	}
	d := a.reduceHTTP(a.shaping(), req)
	if d != nil {
		in.Shape = d.shape
	}
	res := a.runtime.HTTP(req.Ctx, &adapterrt.HTTPRequest{
		Request: in,
		Method:  req.Method, Path: req.Path, ContentType: req.Header("Content-Type"),
	})
	a.recordAll(&res.Call, res.Parts, res.Cancelled, &in)
	resp.Status, resp.Body = res.Status, res.Body
	for _, h := range res.Header {
		resp.Header = append(resp.Header, mcp.Header{Name: h.Name, Value: h.Value})
	}
	d.setHeaders(resp)
}

// Refusal returns the response body of a plain endpoint for a request that the listener has
// refused.
func (a *Adapters) Refusal(status int, why string) []byte { return a.runtime.Refusal(status, why) }

// recordAll records the call that req asked for, and each part of a batch.
func (a *Adapters) recordAll(c *adapterrt.Record, parts []adapterrt.Record, gone bool, req *adapterrt.Request) {
	a.record(c, gone, req)
	for i := range parts {
		a.record(&parts[i], false, req)
	}
}

// record counts a call and logs it.
func (a *Adapters) record(c *adapterrt.Record, gone bool, req *adapterrt.Request) {
	if c.Operation == "" && c.Outcome == "" {
		return // nothing was called
	}
	outcome := string(c.Outcome)
	switch {
	case gone:
		outcome = string(metrics.Cancelled)
	case outcome == "":
		outcome = "success"
	}
	a.metrics.AdapterCall(c, outcome)
	level := zapcore.DebugLevel
	switch {
	case c.Danger != "":
		level = zapcore.InfoLevel // dangerous calls are logged for the audit
	case c.Cause != nil && !errors.Is(c.Cause, context.Canceled) && !gone:
		level = zapcore.WarnLevel
	}
	if entry := a.log.Check(level, "adapter call"); entry != nil {
		fields := []zap.Field{
			zap.String("adapter", c.Adapter), zap.String("version", c.Version), zap.String("operation", c.Operation),
			zap.Stringer("category", c.Category), zap.String("outcome", outcome), zap.Int("status", c.Status),
			zap.Int("bytes", c.Bytes), zap.Duration("upstream", c.Upstream), zap.Duration("duration", c.Duration),
		}
		if req.ID != "" {
			fields = append(fields, zap.String("request_id", req.ID[:min(len(req.ID), trace.MaxLogged)]))
		}
		for _, h := range req.Trace {
			fields = append(fields, zap.String(h.Name, h.Value[:min(len(h.Value), trace.MaxLogged)]))
		}
		if c.Danger != "" {
			fields = append(fields, zap.String("danger", c.Danger))
		}
		if c.Original != "" && level == zapcore.DebugLevel {
			fields = append(fields, zap.String("api_said", c.Original))
		}
		if c.Waited > 0 {
			fields = append(fields, zap.Duration("waited", c.Waited))
		}
		if c.Breaker != "" && c.Breaker != guard.BreakerClosed {
			fields = append(fields, zap.String("breaker", c.Breaker))
		}
		if c.Repeated {
			fields = append(fields, zap.Bool("repeated_member", true))
		}
		if c.Cause != nil {
			fields = append(fields, zap.Error(c.Cause))
		}
		if do := c.Outcome.Advice(); do != "" {
			fields = append(fields, zap.String("advice", do))
		}
		entry.Write(fields...)
	}
}

// Collisions returns the names that the server's tools and the adapters' tools have in common.
func (a *Adapters) Collisions(tools [][]byte) (both []string) {
	names := make(map[string]bool, len(tools))
	for _, t := range tools {
		names[gjson.GetBytes(t, "name").String()] = true
	}
	for _, t := range a.Tools("") {
		if names[t.Name] {
			both = append(both, t.Name)
		}
	}
	return both
}
