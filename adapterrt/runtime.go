package adapterrt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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
	roots   *x509.CertPool // that connections to APIs trust; nil for the system's. loading guards it
	calls   sync.Pool
	keeper  *credential.Keeper
	cache   *guard.Cache

	sharing       guard.Sharing
	confirmations guard.Confirmations
	gates         guard.Gates
	reading       httpcall.Reading
	cursors       httpcall.Cursors
	hasty         bool // no call waits
	send          func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure)
}

// New makes a runtime without adapters.
func New(opt Options) (*Runtime, error) {
	if err := opt.setDefaults(); err != nil {
		return nil, err
	}
	rt := &Runtime{opt: opt, roots: opt.RootCAs}
	rt.calls.New = func() any { return new(call) }
	rt.send = func(ctx context.Context, a *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		return a.client.Exchange(ctx, o.Target, o)
	}
	rt.reading = httpcall.Reading{Dev: opt.DevErrors, KeepAddresses: opt.KeepAddresses, NoBody: opt.NoErrorBody, Now: opt.Now, Sent: opt.Sent}
	rt.sharing = guard.Sharing{Replicas: opt.Replicas, Key: opt.CursorKey}
	rt.confirmations.Via, rt.confirmations.Replicas = opt.ConfirmVia, opt.Replicas
	rt.keeper = credential.NewKeeper(opt.Tokens)
	rt.keeper.Getenv, rt.keeper.Now, rt.keeper.UserAgent, rt.keeper.Commands, rt.keeper.Sent = opt.Getenv, opt.Now, opt.UserAgent, opt.TokenCommands, opt.Sent
	rt.keeper.Run = opt.Run
	rt.cache = guard.NewCache(opt.Now)
	rt.cache.Memory = opt.Memory
	rt.gates = guard.Gates{Cache: rt.cache, Reading: rt.reading}
	rt.cursors = httpcall.Cursors{Key: opt.CursorKey}
	s, err := rt.snapshot(nil, &snapshot{shown: opt.Shown})
	if err != nil {
		return nil, err
	}
	rt.live.Store(s)
	return rt, nil
}

// Load replaces the adapters with those of files, in one step. It returns the problems
// of all files, including warnings. If one of them is an error, nothing changes and Load
// returns a *LoadError, unless Options.SkipInvalid is set.
func (rt *Runtime) Load(files []string) ([]file.Problem, error) {
	return rt.load(files, false)
}

// Reload is Load for adapters that are in use. If a file now has an error, its adapter
// stays as it was before; the others change. changed reports whether any adapter changed.
func (rt *Runtime) Reload(files []string) (problems []file.Problem, changed bool, err error) {
	before := rt.live.Load()
	problems, err = rt.load(files, true)
	return problems, rt.live.Load() != before, err
}

// Show changes which operations are shown to which callers, and how. It reports whether anything changed. If it
// returns an error, nothing did.
func (rt *Runtime) Show(shown Shown) (changed bool, err error) {
	rt.loading.Lock()
	defer rt.loading.Unlock()
	before := rt.live.Load()
	if reflect.DeepEqual(before.shown, shown) {
		return false, nil
	}
	o := rt.opt
	o.Shown = shown
	if err := o.setDefaults(); err != nil {
		return false, err
	}
	s, err := rt.snapshot(before.adapters, &snapshot{shown: shown})
	if err != nil {
		return false, err
	}
	rt.live.Store(s)
	return true, nil
}

// Refresh is Reload for the files that sources contain now. The adapters of a source that
// cannot be read stay loaded: an adapter is removed only if its file is gone from a
// directory that can be read.
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
	// The problem of the source is already in the list; leave out those of its files.
	more = slices.DeleteFunc(more, func(p file.Problem) bool {
		return slices.ContainsFunc(problems, func(q file.Problem) bool { return within(p.File, q.File) })
	})
	return append(problems, more...), changed, err
}

// Trust makes connections to APIs that are opened from now on trust roots, nil for the system's, or the ca_file of their adapter
// as it is now. If such a file is invalid, its adapter trusts what it did before.
func (rt *Runtime) Trust(roots *x509.CertPool) error {
	rt.loading.Lock()
	defer rt.loading.Unlock()
	rt.roots = roots
	var all []error
	for _, a := range rt.live.Load().adapters {
		for _, c := range []*httpcall.Client{a.client, a.tokens} {
			if err := c.Trust(rt.roots); err != nil {
				all = append(all, fmt.Errorf("%s: auth: ca_file: %w", a.File, err))
				break
			}
		}
	}
	return errors.Join(all...)
}

// Authorities returns the files with trusted certificates that the adapters name.
func (rt *Runtime) Authorities() (files []string) {
	for _, a := range rt.live.Load().adapters {
		if m := a.Auth.Mutual; m != nil && m.CA != "" {
			files = append(files, m.CA)
		}
	}
	return files
}

// within reports whether file is path or is in the directory path.
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
			rt.cache.Clear(a.Adapter)
			rt.confirmations.Forget(a.Adapter)
		}
	}
	return problems, nil
}

// connect gives adapters their HTTP clients. A new version of an adapter takes the client
// of the old version, unless one of them presents a client certificate.
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
		a.tokens = rt.tokenClient(a)
		a.signer.UseClient(a.tokens)
		if old != nil {
			a.guard.Carry(old.guard)
			a.signer.Carry(old.signer)
		}
	}
}

// newClient returns a new HTTP client for an adapter.
func (rt *Runtime) newClient(a *adapter) *httpcall.Client {
	o := httpcall.Options{
		UserAgent: rt.opt.UserAgent, MaxResponse: rt.opt.MaxResponseBytes, Memory: rt.opt.Memory, Now: rt.opt.Now, PublicOnly: rt.opt.PublicOnly,
		NameHosts: rt.opt.DevErrors || rt.opt.KeepAddresses, SameOriginRedirects: rt.opt.SameOriginRedirects, Proxy: rt.opt.Proxy, Dial: rt.opt.Dial, RootCAs: rt.roots,
	}
	if m := a.Auth.Mutual; m != nil {
		o.Configure = func(t *tls.Config) error { return credential.PresentCertificate(m, t) }
	}
	return httpcall.NewClient(o)
}

// tokenClient returns the client with which an adapter requests tokens. It opens a
// connection for each request: if the server closed a reused connection, it would be
// unknown whether it had processed the request.
func (rt *Runtime) tokenClient(a *adapter) *httpcall.Client {
	c := rt.newClient(a)
	c.WithoutKeepAlives()
	return c
}

// Close waits for token requests in flight, which may take a minute, and closes idle
// connections. All calls must have ended.
func (rt *Runtime) Close() {
	rt.keeper.Wait()
	rt.loading.Lock()
	defer rt.loading.Unlock()
	for _, a := range rt.live.Load().adapters {
		a.client.Retire()
	}
}

// Login returns the login of the adapter called name, which must be loaded.
func (rt *Runtime) Login(name string) (*credential.Login, error) {
	return rt.live.Load().byName[name].signer.Login()
}

// Logout ends the login of the adapter called name, which must be loaded, as
// [credential.Signer.Forget] does.
func (rt *Runtime) Logout(ctx context.Context, name string) (revoked bool, why, err error) {
	return rt.live.Load().byName[name].signer.Forget(ctx)
}

// Stored returns what is stored for the login of the adapter called name, which must be
// loaded.
func (rt *Runtime) Stored(ctx context.Context, name string) (credential.Stored, error) {
	return rt.live.Load().byName[name].signer.Stored(ctx)
}

// EndSession deletes the confirmations of a session.
func (rt *Runtime) EndSession(id string) { rt.confirmations.EndSession(id) }

// Instructions returns what a model should know about all the tools together, for the
// result of initialize. Its first line can be read alone: it has at most 512 characters and then the operator's
// words. All of it has at most 2,048 bytes. It is "" if the grant has no operations.
func (rt *Runtime) Instructions(grant string) string {
	live := rt.live.Load()
	v := live.view(grant)
	var names []string
	for _, a := range v.adapters {
		names = append(names, a.Name)
	}
	return present.Instructions(v.mode, names, live.shown.Words)
}
