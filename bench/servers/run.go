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
)

const (
	loopback  = "127.0.0.1"
	outOfTime = "the time was over"
)

// A runner runs servers, directly and through a dragoman command.
type runner struct {
	cache    cache
	dragoman string
	pace     pace
	show     func(s *server, transport, revision string, through bool, t transcript)
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

// A finding is a difference that a client of a revision saw on a transport.
type finding struct {
	transport, revision string
	difference
}

func (f finding) String() string {
	return fmt.Sprintf("%s, client of %s: %s", f.transport, f.revision, f.difference)
}

// key is the same for the same finding in another run.
func (f finding) key() string {
	return f.transport + " " + f.revision + " " + f.place + " " + f.what
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

// runWay runs a server on one transport: twice directly, to know what differs from run to run, and through dragoman.
func (r *runner) runWay(ctx context.Context, s *server, w way, res *result) error {
	t, err := r.try(ctx, s, w)
	if err != nil {
		return err
	}
	newest := t.direct[newestHandshake]
	switch {
	case newest.broken != "" && greeted(newest):
		return fmt.Errorf("the session does not last: %s", newest.broken)
	case greeted(newest):
		res.revision = revisionOf(newest)
		res.count(newest)
	case greeted(t.direct[modernRevision]):
		res.count(t.direct[modernRevision])
	default:
		return fmt.Errorf("no session begins: %s %s", short(newest.answers[hello]), newest.broken)
	}
	res.modern = res.modern || greeted(t.direct[modernRevision])
	fresh := t.judge(s, w, res)
	if len(fresh) > 0 { // may be chance
		if t, err = r.try(ctx, s, w); err != nil {
			return err
		}
		again := t.judge(s, w, res)
		fresh = slices.DeleteFunc(fresh, func(f finding) bool {
			return !slices.ContainsFunc(again, func(g finding) bool { return f.key() == g.key() })
		})
	}
	res.fresh = append(res.fresh, fresh...)
	return nil
}

// A trial is a server's sessions on one transport, by the client's revision.
type trial struct {
	direct, again, through map[string]transcript
}

func (r *runner) try(ctx context.Context, s *server, w way) (t trial, err error) {
	if t.direct, err = r.sessions(ctx, s, w, false); err != nil {
		return t, err
	}
	if t.again, err = r.sessions(ctx, s, w, false); err != nil {
		return t, err
	}
	t.through, err = r.sessions(ctx, s, w, true)
	return t, err
}

// judge returns the differences that neither the documentation nor the data file names, and counts the others.
func (t trial) judge(s *server, w way, res *result) (fresh []finding) {
	for _, revision := range revisions {
		of, eras := t.comparedWith(revision)
		direct, again, through := t.direct[of].json(), t.again[of].json(), t.through[revision].json()
		if eras {
			keepCommon(direct, through)
			keepCommon(again, through)
		}
		for _, d := range steady(compare(direct, through), compare(direct, again)) {
			f := finding{w.transport, revision, d}
			if rule, ok := promised(sight{d, revision, eras, stepOf(d.at, direct)}); ok {
				res.promised[rule]++
			} else if i := slices.IndexFunc(s.Differs, func(k known) bool { return k.At.MatchString(f.key()) }); i >= 0 {
				res.known = append(res.known, s.Differs[i].Why)
			} else {
				fresh = append(fresh, f)
			}
		}
	}
	return fresh
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

// comparedWith returns the revision of the direct session that a client's session through dragoman is compared with: the
// same one if the server speaks it, else the server's newest of the other era.
func (t trial) comparedWith(revision string) (of string, eras bool) {
	switch {
	case greeted(t.direct[revision]):
		return revision, false
	case revision != modernRevision && greeted(t.direct[newestHandshake]):
		return newestHandshake, false
	case revision != modernRevision:
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

// sessions plays the script with a client of each revision.
func (r *runner) sessions(ctx context.Context, s *server, w way, through bool) (map[string]transcript, error) {
	if w.transport != "stdio" {
		return r.webSessions(ctx, s, w, through)
	}
	all := map[string]transcript{}
	for _, revision := range revisions {
		t, err := r.pipeSession(ctx, s, w, through, revision)
		if err != nil {
			return nil, err
		}
		all[revision] = t
	}
	return all, ctx.Err()
}

func (r *runner) pipeSession(ctx context.Context, s *server, w way, through bool, revision string) (transcript, error) {
	f, err := newFolder()
	defer f.remove()
	if err != nil {
		return transcript{}, err
	}
	command, err := r.cache.command(s, w.run, f)
	if err != nil {
		return transcript{}, err
	}
	patience := time.Second // nothing is lost with a server that is killed
	if through {
		patience = stopTime
		command = append([]string{r.dragoman, "stdio", "--pass-env", "*", "--"}, command...)
	}
	p, err := f.start(ctx, command, w.env)
	if err != nil {
		return transcript{}, err
	}
	c := r.play(ctx, newPipe(p, patience), s, w, f, revision, through)
	c.wire.close()
	if c.notes.broken != "" {
		c.notes.broken += ": " + string(c.normal([]byte(lastLine(p.said.String()))))
	}
	if through && !f.endsAlone() {
		c.notes.answers[leftStep] = map[string]any{"count": len(f.left())}
	}
	r.shown(s, w, revision, through, c.notes)
	return c.notes, nil
}

func (r *runner) shown(s *server, w way, revision string, through bool, t transcript) {
	if r.show != nil {
		r.show(s, w.transport, revision, through, t)
	}
}

func (r *runner) play(ctx context.Context, conn wire, s *server, w way, f folder, revision string, through bool) *client {
	c := newClient(ctx, conn, revision, f, r.pace)
	c.play(s.Calls, s.Slow)
	return c
}

// webSessions starts the server, and before it a dragoman for all clients, the modern one first.
func (r *runner) webSessions(ctx context.Context, s *server, w way, through bool) (map[string]transcript, error) {
	f, err := newFolder()
	defer f.remove()
	if err != nil {
		return nil, err
	}
	command, err := r.cache.command(s, w.run, f)
	if err != nil {
		return nil, err
	}
	p, err := f.start(ctx, command, w.env)
	if err != nil {
		return nil, err
	}
	defer p.stop(time.Second)
	if err := listens(ctx, p, w.host, f.port); err != nil {
		return nil, err
	}
	url := "http://" + net.JoinHostPort(w.host, strconv.Itoa(f.port)) + w.path
	modernURL, sse := url, w.transport == "SSE"
	if through {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		address := net.JoinHostPort(loopback, strconv.Itoa(port))
		d, err := f.start(ctx, []string{r.dragoman, "serve", "--listen", address, url}, nil)
		if err != nil {
			return nil, err
		}
		defer d.stop(stopTime)
		if err := listens(ctx, d, loopback, port); err != nil {
			return nil, err
		}
		modernURL = "http://" + address + "/mcp"
		if url = modernURL; sse {
			url = "http://" + address + "/sse"
		}
	}
	all := map[string]transcript{}
	for _, revision := range slices.Backward(revisions) {
		var conn *web
		var err error
		switch {
		case revision != modernRevision:
			conn, err = newWeb(ctx, url, "", sse)
		case sse && !through: // no revision without a handshake has this transport
			continue
		default:
			conn, err = newWeb(ctx, modernURL, revision, false)
		}
		if err != nil {
			return nil, err
		}
		c := r.play(ctx, conn, s, w, f, revision, through)
		conn.close()
		r.shown(s, w, revision, through, c.notes)
		all[revision] = c.notes
	}
	return all, ctx.Err()
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
