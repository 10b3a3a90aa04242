package adapterrt

import (
	"crypto/sha256"
	"runtime"
	"sync"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// adapter is a compiled adapter file together with the state that the runtime keeps for
// it while it is served: limits and counters, its presentation, tokens and connections.
type adapter struct {
	*file.Adapter
	guard  *guard.Adapter
	signer *credential.Signer
	login  chan struct{}    // full while a caller is asked to log in
	client *httpcall.Client // set when the adapter goes live; its next version may use the same one
	tokens *httpcall.Client // the signer's
}

// Parse checks and compiles one adapter file. path is the file name that the problems
// name. The adapter is nil if one of the problems is an error.
func Parse(path string, data []byte, opt *Options) (*file.Adapter, []file.Problem) {
	o := *opt
	if err := o.setDefaults(); err != nil {
		return nil, []file.Problem{{Message: err.Error(), Code: file.SchemaParseError, Severity: file.Error, File: path}}
	}
	return file.Parse(path, data, o.files())
}

// prepare computes everything that does not depend on a request.
func (rt *Runtime) prepare(a *file.Adapter) *adapter {
	return &adapter{Adapter: a, guard: guard.New(a, rt.opt.policy(), &rt.sharing), signer: credential.NewSigner(rt.keeper, a), login: make(chan struct{}, 1)}
}

// loaded is the outcome of loading one file. adapter is nil if the file has an error.
type loaded struct {
	adapter  *adapter
	problems []file.Problem
}

// loadAll reads and compiles files. For a file that has not changed since old was
// loaded, it returns the adapter from old.
func (rt *Runtime) loadAll(files []string, old map[string]*adapter) []loaded {
	out := make([]loaded, len(files))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			for i := range next {
				out[i] = rt.loadFile(files[i], old[files[i]])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wg.Wait()
	return out
}

func (rt *Runtime) loadFile(path string, old *adapter) loaded {
	data, err := file.ReadFile(path)
	if err != nil {
		return loaded{problems: []file.Problem{{Message: file.ReadProblem(err), Code: file.SchemaParseError, Severity: file.Error, File: path}}}
	}
	if old != nil && old.Digest == sha256.Sum256(data) && !old.Target.Outside {
		return loaded{adapter: old}
	}
	a, problems := file.Parse(path, data, rt.opt.files())
	if a == nil {
		return loaded{problems: problems}
	}
	if rt.opt.TokenCommands[a.Name] != nil && (a.Auth.Header == "" || a.Auth.Kind == file.AuthBasic || a.Auth.Kind == file.AuthAWS) {
		return loaded{problems: append(problems, file.Problem{
			Message: "adapters.token_commands names this adapter, and its requests carry no token in a header", Expected: "auth of type bearer, oauth, or api_key with header_name",
			Code: file.AuthConfigInvalid, Severity: file.Error, File: path, Path: "auth.type",
		})}
	}
	if _, ok := rt.opt.Callers[a.Name]; ok && a.Auth.Kind == file.AuthAWS {
		return loaded{problems: append(problems, file.Problem{
			Message: "adapters.callers names this adapter, and its requests are signed: a header of a caller is no signature", Expected: "no entry of adapters.callers",
			Code: file.AuthConfigInvalid, Severity: file.Error, File: path, Path: "auth.type",
		})}
	}
	return loaded{rt.prepare(a), problems}
}
