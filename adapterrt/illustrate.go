package adapterrt

import (
	"context"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Draft is a request to an operation and an answer of its API, of which an example can be made.
type Draft struct {
	Request  string // JSON
	Receives string // as the receives section of an example has it
}

// Illustrated is an example made of a draft.
type Illustrated struct {
	Example string // a golden block, "" if the request does not succeed
	Fault   string // why it does not
}

// Illustrate sends the request of each draft to the adapter in data, offline, and returns examples
// with what it sends and what its result is. [Rehearse] finds nothing that differs in them.
func Illustrate(path string, data []byte, opt *Options, drafts []Draft) ([]Illustrated, []file.Problem) {
	rt, _, problems := offline(path, data, opt)
	if rt == nil {
		return nil, problems
	}
	return rt.illustrated(drafts), problems
}

// IllustrateAdapter is [Illustrate] for an adapter that is read already. It may not be used for anything else afterwards.
func IllustrateAdapter(a *file.Adapter, opt *Options, drafts []Draft) ([]Illustrated, error) {
	rt, err := rehearsing(opt)
	if err == nil {
		err = rt.stage(a)
	}
	if err != nil {
		return nil, err
	}
	return rt.illustrated(drafts), nil
}

func (rt *Runtime) illustrated(drafts []Draft) []Illustrated {
	out := make([]Illustrated, 0, len(drafts))
	for _, d := range drafts {
		out = append(out, rt.illustrate(&d))
	}
	return out
}

func (rt *Runtime) illustrate(d *Draft) Illustrated {
	var b strings.Builder
	b.WriteString("```golden\n" + d.Request + "\n")
	rt.send = func(_ context.Context, _ *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		b.WriteString("-- sends --\n" + o.Method + " " + string(o.URL.Text) + "\n")
		if o.HasBody {
			b.WriteString(string(o.Body.Text) + "\n")
		}
		b.WriteString("-- receives --\n" + d.Receives + "\n")
		return rehearsed(d.Receives)
	}
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(d.Request)})
	if r.Failure != nil {
		return Illustrated{Fault: r.Failure.Error()}
	}
	b.WriteString("-- want --\n" + string(r.JSON()) + "\n```\n")
	// A body may have a line that ends the block or begins a section of it.
	made, problem := file.Examples(b.String(), 1)
	if problem != nil || len(made) != 1 || rt.rehearse(&made[0]) != "" {
		return Illustrated{Fault: "a part of the request or of the answer would end the example"}
	}
	return Illustrated{Example: b.String()}
}
