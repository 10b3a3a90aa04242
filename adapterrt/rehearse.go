package adapterrt

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Rehearsal is the outcome of one example in an adapter's documentation.
type Rehearsal struct {
	Operation string
	Line      int    // of the example in the path
	Fault     string // what differs; "" if nothing does
}

// Rehearse runs the examples in an adapter file's documentation, offline. Each example
// is a fenced code block with the info string golden:
//
//	```golden
//	{"operation":"get_item","params":{"id":"7"}}
//	-- sends --
//	GET https://api.example.com/items/7
//	-- receives --
//	200 application/json
//	{"id":7}
//	-- want --
//	{"success":true,"data":{"id":7}}
//	```
//
// The body of the request may follow the line with method and URL. Headers and the body
// of the response may follow the line with the status. An example of a request that is
// refused before anything is sent has neither part. JSON is compared without its white
// space. Examples run without credentials, trust levels and confirmations, at midnight
// of 2026-01-01 UTC, and with a fixed key for cursors.
func Rehearse(path string, data []byte, opt *Options) ([]Rehearsal, []file.Problem) {
	rt, a, problems := offline(path, data, opt)
	if rt == nil {
		return nil, problems
	}
	first := bytes.Count(data[:len(data)-len(a.Documentation)], []byte("\n")) + 1
	examples, problem := file.Examples(a.Documentation, first)
	if problem != nil {
		problem.File = path
		return nil, append(problems, *problem)
	}
	var out []Rehearsal
	for i := range examples {
		e := &examples[i]
		out = append(out, Rehearsal{Operation: batchName(e.Request), Line: e.Line, Fault: rt.rehearse(e)})
	}
	return out, problems
}

// offline returns a runtime that serves the adapter in data without its credentials, its limits and its
// protections. The caller sets how it sends. It returns nil if the file has errors.
func offline(path string, data []byte, opt *Options) (*Runtime, *file.Adapter, []file.Problem) {
	wrong := func(err error) file.Problem {
		return file.Problem{Message: err.Error(), Code: file.SchemaParseError, Severity: file.Error, File: path}
	}
	rt, err := rehearsing(opt)
	if err != nil {
		return nil, nil, []file.Problem{wrong(err)}
	}
	a, problems := file.Parse(path, data, rt.opt.files())
	if a == nil {
		return nil, nil, problems
	}
	if err := rt.stage(a); err != nil {
		return nil, nil, append(problems, wrong(err))
	}
	return rt, a, problems
}

// rehearsing returns a runtime for [Rehearse], which serves nothing yet.
func rehearsing(opt *Options) (*Runtime, error) {
	o := *opt
	o.Getenv = nil
	o.TrustEnforcement, o.TrustOverrides, o.PerAdapter, o.ToolPrefix = guard.TrustOff, nil, false, ""
	o.Now = func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
	o.CursorKey = make([]byte, 32) // a fixed key, so that examples can contain cursors; no other process accepts them
	rt, err := New(o)
	if err == nil {
		rt.hasty, rt.live.Load().how.Later = true, true
	}
	return rt, err
}

// stage serves an adapter without its credentials, its limits and its protections, which it takes from it.
func (rt *Runtime) stage(a *file.Adapter) error {
	served := rt.prepare(a)
	a.Auth, a.Limits, a.Breaker = file.Auth{}, nil, nil
	for _, op := range a.Operations {
		op.Danger, op.Limits, op.Cache = file.Danger{}, nil, nil
	}
	served.guard = guard.New(a, rt.opt.policy(), &rt.sharing)
	s, err := rt.snapshot([]*adapter{served}, rt.live.Load())
	if err == nil {
		rt.live.Store(s)
	}
	return err
}

// rehearse runs one example. It returns what differs, or "" if nothing does.
func (rt *Runtime) rehearse(e *file.Example) string {
	next, fault := 0, ""
	rt.send = func(_ context.Context, _ *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		sent := o.Method + " " + string(o.URL.Text)
		if o.HasBody {
			sent += "\n" + string(o.Body.Text)
		}
		if next == len(e.Exchanges) {
			fault = "sends a request that the example does not have: " + sent
			return nil, &failure.Failure{Code: failure.TransportNetwork, Message: "Network error: not rehearsed"}
		}
		x := e.Exchanges[next]
		next++
		if compactLines(sent) != compactLines(x.Sends) && fault == "" {
			fault = fmt.Sprintf("sends\n%s\nwant\n%s", sent, x.Sends)
		}
		return rehearsed(x.Receives)
	}
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: e.Request})
	if fault != "" {
		return fault
	}
	if next < len(e.Exchanges) {
		return fmt.Sprintf("does not send\n%s\nbut answers\n%s", e.Exchanges[next].Sends, r.JSON()) // which says why
	}
	got := r.JSON()
	if !bytes.Equal(wire.AppendCompact(nil, got), wire.AppendCompact(nil, e.Want)) {
		return fmt.Sprintf("answers\n%s\nwant\n%s", got, e.Want)
	}
	return ""
}

// compactLines returns s with the rest after its first line in compact form if that rest
// is JSON, so that the layout of JSON does not matter.
func compactLines(s string) string {
	first, rest, _ := strings.Cut(s, "\n")
	body := wire.Trim([]byte(rest))
	if wire.Valid(body) {
		body = wire.AppendCompact(nil, body)
	}
	return strings.TrimSpace(first) + "\n" + string(body)
}

// rehearsed parses the response of an example.
func rehearsed(s string) (*httpcall.Reply, *failure.Failure) {
	line, rest, _ := strings.Cut(s, "\n")
	word, kind, _ := strings.Cut(line, " ")
	status, err := strconv.Atoi(word)
	if err != nil || status < 100 || status > 999 {
		return nil, &failure.Failure{Code: failure.TransportNetwork, Message: "Network error: the example has no status"}
	}
	r := &httpcall.Reply{Status: status, ContentType: strings.TrimSpace(kind), Header: http.Header{}}
	for {
		line, after, _ := strings.Cut(rest, "\n")
		name, v, ok := strings.Cut(line, ": ")
		if !ok || !file.IsToken(name) {
			break
		}
		r.Header.Add(name, strings.TrimSpace(v))
		rest = after
	}
	r.Body = []byte(rest)
	return r, nil
}
