package adapterrt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// Runtime serves the operations of adapters. All its methods are safe for
// concurrent use; a call runs to its end on the adapters it began with.
type Runtime struct {
	opt     Options
	live    atomic.Pointer[snapshot]
	loading sync.Mutex
	calls   sync.Pool
	keeper  *credential.Keeper
	cache   *guard.Cache

	confirmations guard.Confirmations
	shows         *present.Presenter
	gates         guard.Gates
	reading       httpcall.Reading
	cursors       httpcall.Cursors
	send          func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure)
}

// New makes a runtime without adapters.
func New(opt Options) (*Runtime, error) {
	if err := opt.setDefaults(); err != nil {
		return nil, err
	}
	rt := &Runtime{opt: opt}
	rt.calls.New = func() any { return new(call) }
	rt.send = func(ctx context.Context, a *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		return a.client.Exchange(ctx, &a.Target, o)
	}
	rt.reading = httpcall.Reading{Dev: opt.DevErrors, KeepAddresses: opt.KeepAddresses, NoBody: opt.NoErrorBody, Now: opt.Now}
	rt.confirmations.Via = opt.ConfirmVia
	rt.keeper = credential.NewKeeper(opt.Tokens)
	rt.keeper.Getenv, rt.keeper.Now, rt.keeper.UserAgent, rt.keeper.Commands = opt.Getenv, opt.Now, opt.UserAgent, opt.TokenCommands
	rt.cache = guard.NewCache(opt.Now)
	rt.gates = guard.Gates{Cache: rt.cache, Reading: rt.reading}
	rt.cursors = httpcall.Cursors{Key: opt.CursorKey}
	rt.shows = rt.opt.presentation()
	s, err := rt.snapshot(nil, nil)
	if err != nil {
		return nil, err
	}
	rt.live.Store(s)
	return rt, nil
}

// Load replaces the adapters by those of files, in one step. The problems are of
// all files, warnings included. With an error among them nothing changes and the
// error is a *LoadError, unless the options say to skip such files.
func (rt *Runtime) Load(files []string) ([]file.Problem, error) {
	return rt.load(files, false)
}

// Reload is Load for adapters that are in use: a file that is wrong now keeps the
// version that was right, and the others change. changed says whether any did.
func (rt *Runtime) Reload(files []string) (problems []file.Problem, changed bool, err error) {
	before := rt.live.Load()
	problems, err = rt.load(files, true)
	return problems, rt.live.Load() != before, err
}

// Refresh is Reload for what sources hold now. One that cannot be read keeps what it
// held before: only a file that is gone from a directory takes its operations along.
func (rt *Runtime) Refresh(sources []file.Source) (problems []file.Problem, changed bool, err error) {
	var files []string
	for _, s := range sources {
		found, wrong := file.Find([]file.Source{s})
		if files = append(files, found...); len(wrong) == 0 {
			continue
		}
		problems = append(problems, wrong...)
		for _, a := range rt.live.Load().adapters {
			if within(a.File, s.Path) && !slices.Contains(found, a.File) {
				files = append(files, a.File)
			}
		}
	}
	more, changed, err := rt.Reload(files)
	// Of what a source held before, enough was said.
	more = slices.DeleteFunc(more, func(p file.Problem) bool {
		return slices.ContainsFunc(problems, func(q file.Problem) bool { return within(p.File, q.File) })
	})
	return append(problems, more...), changed, err
}

// within reports whether file is path, or in the directory of that path.
func within(file, path string) bool {
	rest, err := filepath.Rel(path, file)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

func (rt *Runtime) load(files []string, keep bool) ([]file.Problem, error) {
	rt.loading.Lock()
	defer rt.loading.Unlock()
	before := rt.live.Load()
	old := map[string]*adapter{}
	for _, a := range before.adapters {
		old[a.File] = a
	}
	var problems []file.Problem
	var adapters []*adapter
	named := map[string]*adapter{}
	for i, l := range rt.loadAll(files, old) {
		a := l.adapter
		if a == nil && keep {
			a = old[files[i]]
		}
		if a != nil && named[a.Name] != nil {
			l.problems = append(l.problems, file.Problem{
				Path: "name", Message: "Duplicate adapter name: " + a.Name + ", already in " + named[a.Name].File,
				Expected: "a name unique among all adapters", Received: a.Name,
				Code: file.SchemaDuplicateName, Severity: file.Error, File: files[i],
			})
			a = nil
		}
		problems = append(problems, l.problems...)
		if a != nil {
			named[a.Name] = a
			adapters = append(adapters, a)
		}
	}
	if file.HasError(problems) && !keep && !rt.opt.SkipInvalid {
		return problems, &file.LoadError{Problems: problems}
	}
	if slices.Equal(adapters, before.adapters) {
		return problems, nil
	}
	s, err := rt.snapshot(adapters, before)
	if err != nil {
		return problems, err
	}
	rt.connect(adapters, before.byName)
	rt.live.Store(s)
	for _, a := range before.adapters {
		if next := named[a.Name]; next == nil || next.client != a.client {
			a.client.Retire()
		}
		if named[a.Name] != a {
			rt.cache.Forget(a.Adapter)
			rt.confirmations.Forget(a.Adapter)
		}
	}
	return problems, nil
}

// connect gives adapters their clients; a new version goes on with the old one's.
func (rt *Runtime) connect(adapters []*adapter, before map[string]*adapter) {
	for _, a := range adapters {
		if a.client != nil {
			continue
		}
		old := before[a.Name]
		if old != nil && old.Auth.Mutual == nil && a.Auth.Mutual == nil {
			a.client = old.client
		} else {
			a.client = rt.newClient(a)
		}
		a.signer.UseClient(rt.tokenClient(a))
		if old != nil {
			a.guard.Carry(old.guard)
			a.signer.Carry(old.signer)
		}
	}
}

// newClient makes the client of an adapter.
func (rt *Runtime) newClient(a *adapter) *httpcall.Client {
	o := httpcall.Options{
		UserAgent: rt.opt.UserAgent, MaxResponse: rt.opt.MaxResponseBytes, Now: rt.opt.Now, PublicOnly: rt.opt.PublicOnly,
		SameOriginRedirects: rt.opt.SameOriginRedirects, Proxy: rt.opt.Proxy, RootCAs: rt.opt.RootCAs,
	}
	if m := a.Auth.Mutual; m != nil {
		o.Configure = func(t *tls.Config) { credential.PresentCertificate(m, t) }
	}
	return httpcall.NewClient(o)
}

// tokenClient is what an adapter asks for tokens with: a connection for each request. One
// that the server closes while it is used again would leave open what became of the request.
func (rt *Runtime) tokenClient(a *adapter) *httpcall.Client {
	c := rt.newClient(a)
	c.Transport.(*http.Transport).DisableKeepAlives = true
	return c
}

// Close waits for tokens that are being fetched, which may take a minute, and lets go of
// idle connections. Calls must have ended.
func (rt *Runtime) Close() {
	rt.keeper.Wait()
	rt.loading.Lock()
	defer rt.loading.Unlock()
	for _, a := range rt.live.Load().adapters {
		a.client.Retire()
	}
}

// Endpoint is where a request came in: which adapter and which category it is
// for. The zero one takes everything.
type Endpoint struct {
	Adapter  string
	Category file.Category
}

// Request is one request to an operation.
type Request struct {
	Body    []byte // {"operation":…,"params":{…}}; the caller's, not kept
	ID      string // for _meta and logs; "" for none
	Session string // what confirmations are bound to
	Caller  string // in place of a session
	// Ask asks the user to agree to an operation that has to be confirmed; nil where the
	// user cannot be asked. An error says that there was no answer.
	Ask func(ctx context.Context, question string) (agreed bool, err error)
	// Send sends the user to the page of a login that an adapter needs, which is stored for
	// all callers; nil where they are not one person, and where no page can be shown.
	Send credential.Send
	// Progress is told of an answer that comes item by item, and is called before Dispatch
	// returns; nil where no client asked for progress. A batch tells nothing.
	Progress httpcall.Progress
	// Trace holds the headers of the trace that the request belongs to:
	// https://www.w3.org/TR/trace-context/. No others are sent along, and no baggage:
	// it may hold what other callers must not see.
	Trace []Header
	// Shape, unless nil, makes the result of an operation of an adapter that went
	// well what the caller shall have of it: it may put other Data in, and Warnings.
	// Of a batch it gets each request's.
	Shape func(r *Result)
}

// Dispatch runs one request to its result. It does not panic and returns soon
// after ctx ends.
func (rt *Runtime) Dispatch(ctx context.Context, at Endpoint, req *Request) Result {
	return rt.dispatch(ctx, at, req, false)
}

// dispatch is Dispatch; inner says that the request is one of a batch.
func (rt *Runtime) dispatch(ctx context.Context, at Endpoint, req *Request, inner bool) (r Result) {
	start := rt.opt.Now()
	c := rt.calls.Get().(*call)
	r.Call.RequestID = req.ID
	defer func() {
		start = start.Add(c.asked)
		if p := recover(); p != nil {
			// The call is not put back: its state is unknown.
			r = Result{Call: r.Call, Failure: failure.Ours(req.ID, fmt.Errorf("panic: %s", clean.MaskSecrets(clean.MaskKnown(fmt.Sprint(p), c.Out.Secrets))))}
		} else {
			c.release(&rt.calls)
		}
		rt.finish(&r, req, start)
	}()
	c.inner, c.trace, c.progress, c.send = inner, req.Trace, req.Progress, req.Send
	c.run(ctx, rt, at, req, &r)
	return r
}

// finish completes a result with what is known only at the end.
func (rt *Runtime) finish(r *Result, req *Request, start time.Time) {
	r.Call.Duration = rt.opt.Now().Sub(start)
	if f := r.Failure; f != nil {
		r.Data, r.Warnings, r.Meta, r.Media, r.whole = nil, nil, nil, nil, nil
		r.Call.Outcome, r.Call.Cause, r.Call.Original = f.Code, f.Cause, f.Original
		r.Cancelled = errors.Is(f.Cause, failure.ErrCancelled)
	}
}

// release gives the call back, but for buffers that grew beyond what most need.
func (c *call) release(pool *sync.Pool) {
	if !c.Reuse() || cap(c.env.params)+cap(c.env.top) > 1024 {
		return
	}
	clear(c.env.top[:cap(c.env.top)]) // they point into the request
	clear(c.env.params[:cap(c.env.params)])
	c.Out.Progress = nil
	*c = call{
		Call:    c.Call,
		env:     envelope{top: c.env.top[:0], params: c.env.params[:0]},
		unknown: c.unknown[:0],
	}
	pool.Put(c)
}

// Login is the login of the adapter called name, which must be there.
func (rt *Runtime) Login(name string) (*credential.Login, error) {
	return rt.live.Load().byName[name].signer.Login()
}

// Logout ends the login of the adapter called name, which must be there, as
// [credential.Signer.Forget] does.
func (rt *Runtime) Logout(ctx context.Context, name string) (revoked bool, why, err error) {
	return rt.live.Load().byName[name].signer.Forget(ctx)
}

// Stored looks at the login of the adapter called name, which must be there.
func (rt *Runtime) Stored(ctx context.Context, name string) (credential.Stored, error) {
	return rt.live.Load().byName[name].signer.Stored(ctx)
}

// EndSession forgets what was kept for a session.
func (rt *Runtime) EndSession(id string) { rt.confirmations.EndSession(id) }

// Instructions is what a model should know of all the tools together, for the
// answer to initialize. Its first 512 characters stand alone; it is ASCII, and at
// most 2,048 bytes. It is "" without adapters.
func (rt *Runtime) Instructions() string {
	var names []string
	for _, a := range rt.live.Load().adapters {
		names = append(names, a.Name)
	}
	return present.Instructions(names)
}
