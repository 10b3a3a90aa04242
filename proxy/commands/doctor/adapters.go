package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/features/adapters"
)

func hasAdapters(e *exam) bool { return len(e.cfg.Adapters.Sources) > 0 }

// adapterFiles checks the adapter files, and what the configuration says of their operations and callers.
func adapterFiles(_ context.Context, e *exam) {
	a := &e.cfg.Adapters
	opt, err := adapters.Options(a, os.LookupEnv)
	if err != nil {
		e.fail(err.Error(), "adapters", "")
		return
	}
	opt.SkipInvalid = true // so that all files are looked at
	rt, err := adapterrt.New(opt)
	if err != nil {
		e.fail(err.Error(), "adapters", "")
		return
	}
	defer rt.Close()
	files, problems := file.Find(a.List())
	more, err := rt.Load(files)
	for _, p := range append(problems, more...) {
		where := p.File
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		switch {
		case p.Severity != file.Error:
		case a.SkipInvalid:
			e.warn(p.Message, where, "dragoman adapter validate "+p.File)
		default:
			e.fail(p.Message, where, "dragoman adapter validate "+p.File)
		}
	}
	if err != nil {
		e.fail(err.Error(), "adapters", "")
		return
	}
	operations := 0
	names := map[string]bool{}
	for _, info := range rt.Adapters() {
		operations += info.Operations
		names[info.Name] = true
	}
	if len(files)+len(problems) == 0 {
		e.warn(file.NoFiles, "adapters.sources: "+strings.Join(a.Sources, ", "), "correct the directory, or the names of the files")
		return
	}
	e.ok(fmt.Sprintf("adapters: %d; operations: %d; tools for clients: %d", len(names), operations, len(rt.Tools(""))), "adapters.mode: "+a.Mode)
	for _, name := range rt.Unpinned() {
		e.warn("no adapter has an operation "+name, "adapters.pin", "dragoman adapter show NAME lists operations")
	}
	for _, pattern := range rt.Idle() {
		e.warn("the pattern matches no operation: "+pattern, "adapters.tokens", "dragoman adapter show NAME lists operations")
	}
	for _, grant := range rt.Grants() {
		e.info(fmt.Sprintf("tools for clients: %d", len(rt.Tools(grant))), "adapters.tokens."+grant, "")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Callers)) {
		if !names[name] {
			e.warn("no adapter has this name", "adapters.callers."+name, "dragoman adapter list shows the names")
			continue
		}
		for _, to := range slices.Sorted(maps.Keys(a.Callers[name].Headers)) {
			e.info("the API gets "+to+" from the client's header "+a.Callers[name].Headers[to], "adapters.callers."+name, "")
		}
	}
}
