package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
)

const (
	loopback  = "127.0.0.1"
	outOfTime = "the time was over"
)

// A runner runs servers with clients, directly and through a dragoman command.
type runner struct {
	cache    cache
	dragoman string
	kinds    []kind // one is of newestHandshake
	drivers  *nodetest.Drivers
	pace     pace
	show     func(s *server, transport string, k kind, through bool, t transcript)
}

// A result is what was found about a server.
type result struct {
	server     *server
	failed     string   // why not all was run, "" if it was
	revision   string   // the newest with a handshake that it agreed to, "" if none
	modern     bool     // it speaks the revision without a handshake
	transports []string // those that were tried
	tried      map[string]int
	promised   map[string]int // differences, by the rule that promises them
	known      []string       // reasons for differences that the data file names
	fresh      []finding      // differences that nothing names
	took       time.Duration
}

// A finding is a difference that a client saw on a transport.
type finding struct {
	transport, client string
	difference
}

func (f finding) String() string {
	return fmt.Sprintf("%s, client %s: %s", f.transport, f.client, f.difference)
}

// key is the same for the same finding in another run.
func (f finding) key() string {
	return f.transport + " " + f.client + " " + f.place + " " + f.what
}

// A way is a transport of a server.
type way struct {
	transport  string // stdio, HTTP or SSE
	run        []string
	host, path string // of the URL
	env        map[string]string
}

func (s *server) ways() (all []way) {
	if len(s.Run) > 0 {
		all = append(all, way{transport: "stdio", run: s.Run, env: s.Env})
	}
	for _, e := range []struct {
		transport string
		*endpoint
	}{{"HTTP", s.HTTP}, {"SSE", s.SSE}} {
		if e.endpoint == nil {
			continue
		}
		env := map[string]string{}
		maps.Copy(env, s.Env)
		maps.Copy(env, e.Env)
		all = append(all, way{e.transport, e.Run, cmp.Or(e.Host, loopback), e.Path, env})
	}
	return all
}

// only returns the server with one of its transports.
func (s *server) only(transport string) *server {
	one := *s
	if transport != "stdio" {
		one.Run = nil
	}
	if transport != "HTTP" {
		one.HTTP = nil
	}
	if transport != "SSE" {
		one.SSE = nil
	}
	return &one
}

func (r *runner) run(ctx context.Context, s *server) *result {
	began := time.Now()
	res := &result{server: s, tried: map[string]int{}, promised: map[string]int{}}
	for _, w := range s.ways() {
		if err := r.runWay(ctx, s, w, res); err != nil {
			if ctx.Err() != nil {
				err = errors.New(outOfTime)
			}
			res.failed = fmt.Sprintf("%s: %v", w.transport, err)
			break
		}
		res.transports = append(res.transports, w.transport)
	}
	slices.Sort(res.known)
	res.known = slices.Compact(res.known)
	res.took = time.Since(began)
	return res
}

// runWay runs a server on one transport, directly and through dragoman. What differs is looked at again: directly, to know what
// differs from run to run, and then once more both ways, because it may be chance.
func (r *runner) runWay(ctx context.Context, s *server, w way, res *result) error {
	t := trial{kinds: r.kinds, direct: map[string]transcript{}, again: map[string]transcript{}, through: map[string]transcript{}}
	if err := r.play(ctx, s, w, r.kinds, t.direct, t.through); err != nil {
		return err
	}
	newest, modern := t.direct[newestHandshake], t.direct[modernRevision]
	switch {
	case newest.broken != "" && greeted(newest):
		return fmt.Errorf("the session does not last: %s", newest.broken)
	case greeted(newest):
		res.revision = revisionOf(newest)
		res.count(newest)
	case greeted(modern):
		res.count(modern)
	default:
		return fmt.Errorf("no session begins: %s %s", short(newest.answers[hello]), newest.broken)
	}
	res.modern = res.modern || greeted(modern)
	found := t.differences(w, res.promised)
	if len(found) == 0 {
		return nil
	}
	if err := r.play(ctx, s, w, t.concerned(w, found), t.again, nil); err != nil {
		return err
	}
	fresh, known := s.known(t.differences(w, nil))
	res.known = append(res.known, known...)
	if len(fresh) == 0 {
		return nil
	}
	some := t.concerned(w, fresh)
	if err := r.play(ctx, s, w, some, t.direct, t.through); err != nil {
		return err
	}
	if err := r.play(ctx, s, w, some, t.again, nil); err != nil {
		return err
	}
	again := t.differences(w, nil)
	res.fresh = append(res.fresh, slices.DeleteFunc(fresh, func(f finding) bool {
		return !slices.ContainsFunc(again, func(g finding) bool { return f.key() == g.key() })
	})...)
	return nil
}

// play plays the sessions of some clients: directly, and unless through is nil, through dragoman.
func (r *runner) play(ctx context.Context, s *server, w way, some []kind, direct, through map[string]transcript) error {
	err := r.sessions(ctx, s, w, some, false, direct)
	if err == nil && through != nil {
		err = r.sessions(ctx, s, w, some, true, through)
	}
	return err
}

// A trial is a server's sessions on one transport, by the client's name.
type trial struct {
	kinds                  []kind
	direct, again, through map[string]transcript
}

// differences returns what the documentation does not promise, and counts by rule what it does. What also differs between the direct
// sessions is left out, where there are two.
func (t trial) differences(w way, counts map[string]int) (found []finding) {
	for _, k := range t.kinds {
		of, eras := t.comparedWith(k)
		through, ok := t.through[k.name]
		if of == "" || !ok {
			continue
		}
		before, after := t.direct[of].json(), through.json()
		var unsteady []difference
		if again, ok := t.again[of]; ok {
			unsteady = compare(before, again.json())
		}
		if eras {
			keepCommon(before, after)
		}
		for _, d := range steady(compare(before, after), unsteady) {
			rule, ok := promised(sight{d, k.revisionOf(through), eras, stepOf(d.at, before)})
			if !ok {
				found = append(found, finding{w.transport, k.name, d})
			} else if counts != nil {
				counts[rule]++
			}
		}
	}
	return found
}

// concerned returns the clients that saw something, with those that they are compared with. Clients on HTTP have one server after
// another, and what one sees may depend on those before it: so all are.
func (t trial) concerned(w way, found []finding) []kind {
	if w.transport != "stdio" {
		return t.kinds
	}
	names := map[string]bool{}
	for _, f := range found {
		i := slices.IndexFunc(t.kinds, func(k kind) bool { return k.name == f.client })
		of, _ := t.comparedWith(t.kinds[i])
		names[f.client], names[of] = true, true
	}
	return slices.DeleteFunc(slices.Clone(t.kinds), func(k kind) bool { return !names[k.name] })
}

// known returns the differences that the data file does not name, and the reasons for the others.
func (s *server) known(found []finding) (fresh []finding, reasons []string) {
	for _, f := range found {
		if i := slices.IndexFunc(s.Differs, func(k known) bool { return k.At.MatchString(f.key()) }); i >= 0 {
			reasons = append(reasons, s.Differs[i].Why)
		} else {
			fresh = append(fresh, f)
		}
	}
	return fresh, reasons
}

// revisionOf returns the revision of a client's session.
func (k kind) revisionOf(t transcript) string {
	if k.published != nil && !t.modern {
		return newestHandshake
	}
	return k.revision
}

// stepOf returns the answer in a transcript that a place is in.
func stepOf(at string, transcript map[string]any) map[string]any {
	for step, answer := range transcript {
		if within(at, step) {
			answer, _ := answer.(map[string]any)
			return answer
		}
	}
	return nil
}

// comparedWith returns the name of the client whose direct session a client's session through dragoman is compared with: its own,
// or if the server does not have its revision's era, that of the server's newest revision of the other era. A published client that
// cannot begin a session directly is compared with none.
func (t trial) comparedWith(k kind) (of string, eras bool) {
	direct := t.direct[k.name]
	switch {
	case k.published != nil && direct.answers[hello] != nil && resultOf(direct.answers[hello].(map[string]any)) == nil:
		return "", false
	case k.published != nil:
		return k.name, direct.modern != t.through[k.name].modern
	case greeted(direct):
		return k.name, false
	case k.name != modernRevision && greeted(t.direct[newestHandshake]):
		return newestHandshake, false
	case k.name != modernRevision:
		return modernRevision, true
	}
	return newestHandshake, true
}

// keepCommon removes the steps that only one of two eras has. How a session ended is always compared.
func keepCommon(a, b map[string]any) {
	only := func(m, other map[string]any) {
		maps.DeleteFunc(m, func(step string, _ any) bool {
			_, ok := other[step]
			return !ok && step != sessionStep && step != leftStep
		})
	}
	only(a, b)
	only(b, a)
}

// greeted reports whether a client's session began in its revision's era.
func greeted(t transcript) bool {
	answer, _ := t.answers[hello].(map[string]any)
	result := resultOf(answer)
	if versions, ok := result["supportedVersions"].([]any); ok {
		return slices.Contains(versions, any(modernRevision))
	}
	return result["protocolVersion"] != nil
}

func revisionOf(t transcript) string {
	answer, _ := t.answers[hello].(map[string]any)
	revision, _ := resultOf(answer)["protocolVersion"].(string)
	return revision
}

// count notes what a session tried. What several transports have is counted once.
func (res *result) count(t transcript) {
	tried := map[string]int{}
	for step, answer := range t.answers {
		answer, _ := answer.(map[string]any)
		result, ok := answer["result"].(map[string]any)
		for method, list := range map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
			"resources/templates/list": "resourceTemplates"} {
			if entries, _ := result[list].([]any); step == method {
				tried[list] = len(entries)
			}
		}
		if kind, _, _ := strings.Cut(step, " "); ok {
			tried[kind]++
		} else if answer["error"] != nil {
			tried["errors"]++
		}
	}
	for method := range t.notifications {
		tried[method]++
	}
	for method := range t.requests {
		tried[method]++
	}
	for what, n := range tried {
		res.tried[what] = max(res.tried[what], n)
	}
}

// sessions plays the script with some clients, and adds what they noted.
func (r *runner) sessions(ctx context.Context, s *server, w way, some []kind, through bool, all map[string]transcript) error {
	if w.transport != "stdio" {
		return r.webSessions(ctx, s, w, some, through, all)
	}
	for _, k := range some {
		notes, err := r.pipeSession(ctx, s, w, k, through)
		if err != nil {
			return err
		}
		all[k.name] = *notes
	}
	return ctx.Err()
}

func (r *runner) pipeSession(ctx context.Context, s *server, w way, k kind, through bool) (*transcript, error) {
	f, err := newFolder()
	defer f.remove()
	if err != nil {
		return nil, err
	}
	command, err := r.cache.command(s, w.run, f)
	if err != nil {
		return nil, err
	}
	patience := time.Second // nothing is lost with a server that is killed
	if through {
		patience = stopTime
		command = append([]string{r.dragoman, "stdio", "--pass-env", "*", "--"}, command...)
	}
	notes := newTranscript()
	var conn connection
	said := func() string { return saidTo(f.stderr()) }
	if k.published != nil {
		conn = &published{ctx: ctx, drivers: r.drivers, config: k.starting(f, command, w.env), folder: f, pace: r.pace, patience: patience, notes: notes}
	} else {
		p, err := f.start(ctx, command, w.env)
		if err != nil {
			return nil, err
		}
		conn, said = r.raw(ctx, newPipe(p, patience), k, f, notes), p.said.String
	}
	r.playWith(conn, s, f, notes)
	if notes.broken != "" {
		notes.broken += ": " + string(f.normal([]byte(lastLine(said()))))
	}
	if through && !f.endsAlone() {
		notes.answers[leftStep] = map[string]any{"count": len(f.left())}
	}
	r.shown(s, w, k, through, notes)
	return notes, nil
}

func (r *runner) shown(s *server, w way, k kind, through bool, t *transcript) {
	if r.show != nil {
		r.show(s, w.transport, k, through, *t)
	}
}

func (r *runner) raw(ctx context.Context, w wire, k kind, f folder, notes *transcript) *raw {
	return &raw{ctx: ctx, wire: w, revision: k.revision, modern: k.revision >= modernRevision, folder: f, quiet: r.pace.quiet, notes: notes}
}

// playWith plays the script on a connection, and closes it.
func (r *runner) playWith(conn connection, s *server, f folder, notes *transcript) {
	c := &client{connection: conn, folder: f, pace: r.pace, notes: notes}
	c.play(s.Calls, s.Slow)
	c.close()
}

// webSessions starts the server, and before it a dragoman for all clients, the modern one first.
func (r *runner) webSessions(ctx context.Context, s *server, w way, some []kind, through bool, all map[string]transcript) error {
	f, err := newFolder()
	defer f.remove()
	if err != nil {
		return err
	}
	command, err := r.cache.command(s, w.run, f)
	if err != nil {
		return err
	}
	p, err := f.start(ctx, command, w.env)
	if err != nil {
		return err
	}
	defer p.stop(time.Second)
	if err := listens(ctx, p, w.host, f.port); err != nil {
		return err
	}
	url := "http://" + net.JoinHostPort(w.host, strconv.Itoa(f.port)) + w.path
	modernURL, sse := url, w.transport == "SSE"
	if through {
		port, err := freePort()
		if err != nil {
			return err
		}
		address := net.JoinHostPort(loopback, strconv.Itoa(port))
		d, err := f.start(ctx, []string{r.dragoman, "serve", "--listen", address, url}, nil)
		if err != nil {
			return err
		}
		defer d.stop(stopTime)
		if err := listens(ctx, d, loopback, port); err != nil {
			return err
		}
		modernURL = "http://" + address + "/mcp"
		if url = modernURL; sse {
			url = "http://" + address + "/sse"
		}
	}
	for _, k := range slices.Backward(some) {
		notes := newTranscript()
		var conn connection
		if k.published != nil {
			conn = &published{ctx: ctx, drivers: r.drivers, config: k.at(url, sse), folder: f, pace: r.pace, notes: notes}
		} else {
			to, began := url, ""
			if k.name == modernRevision {
				if sse && !through { // no revision without a handshake has this transport
					continue
				}
				to, began = modernURL, modernRevision
			}
			web, err := newWeb(ctx, to, began, sse && began == "")
			if err != nil {
				return err
			}
			conn = r.raw(ctx, web, k, f, notes)
		}
		r.playWith(conn, s, f, notes)
		r.shown(s, w, k, through, notes)
		all[k.name] = *notes
	}
	return ctx.Err()
}

// listens waits until a process listens on the port.
func listens(ctx context.Context, p *child, host string, port int) error {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	for began := time.Now(); time.Since(began) < usual.start; time.Sleep(50 * time.Millisecond) {
		if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("ended: %s", lastLine(p.said.String()))
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
	return errors.New("does not listen")
}

func lastLine(text string) string {
	return text[strings.LastIndexByte(text, '\n')+1:]
}
