package cost

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// tryTime is how long one client may take from its start to its answer. A proxy in Node.js starts within three seconds.
const tryTime = 10 * time.Second

// besideRow is one row of the table: what each proxy does, "" for what it has no mode for.
type besideRow struct {
	what string
	does []string
}

// measureBeside plays the same small worlds with each proxy.
func (l launcher) measureBeside(ctx context.Context, slice time.Duration, n *installed) (names []string, rows []besideRow, err error) {
	all := l.rivals(n)
	for _, r := range all {
		names = append(names, r.name)
	}
	onStdio := func(r *rival) bool { return r.stdio != nil }
	onNetwork := func(r *rival) bool { return r.network != nil }
	for _, world := range []struct {
		what string
		has  func(*rival) bool
		play func(context.Context, *rival) (string, error)
	}{
		{"pairs of revisions that work, of 25: client on stdio, server on the network", onStdio, func(ctx context.Context, r *rival) (string, error) { return l.pairs(ctx, r, true) }},
		{"the same: client on the network, server a command", onNetwork, func(ctx context.Context, r *rival) (string, error) { return l.pairs(ctx, r, false) }},
		{"pairs of transports that work, of 9 (stdio, HTTP+SSE, Streamable HTTP)", func(*rival) bool { return true }, l.transports},
		{"a server on the network restarts, and forgets its sessions: the client's next calls", onStdio, l.serverRestarts},
		{"a server that is a command dies: the client's next calls", onNetwork, l.commandDies},
		{"memory after 100 calls of a client on stdio, MB", onStdio, l.memory},
	} {
		row := besideRow{what: world.what, does: make([]string, len(all))}
		for i, r := range all {
			if !world.has(r) {
				continue
			}
			if row.does[i], err = world.play(ctx, r); err != nil {
				return nil, nil, fmt.Errorf("%s, %s: %w", world.what, r.name, err)
			}
		}
		rows = append(rows, row)
	}
	groups, err := l.measureOthers(ctx, slice, n)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range groups[1:] {
		out := besideRow{what: "added to a small call, " + g.name + ", p50 in µs", does: make([]string, len(all))}
		for _, w := range g.kept[1:] {
			for i, r := range all {
				if r.name == w.name {
					out.does[i] = micros(difference(w, g.kept[0], small).p50)
				}
			}
		}
		rows = append(rows, out)
	}
	return names, rows, nil
}

// within calls do with a client's end: what takes longer than tryTime ends it.
func within(end func(), do func() error) error {
	timer := time.AfterFunc(tryTime, end)
	defer timer.Stop()
	return do()
}

// opened starts a client's command, and greets the server through it.
func (l launcher) opened(ctx context.Context, client *translate.Revision, command []string) (*session, error) {
	c, err := startStdio(ctx, command, l.env())
	if err != nil {
		return nil, err
	}
	var s *session
	err = within(func() { c.cmd.Process.Kill() }, func() (err error) { s, err = open(c, client); return })
	return s, err
}

// answers reports whether a client gets an answer to a small call.
func (s *session) answers() bool {
	return within(s.close, func() error { return s.do(s.request(small)) }) == nil
}

// pairs counts the pairs of revisions with which a client gets an answer. One of the two is on stdio, the other on the network.
func (l launcher) pairs(ctx context.Context, r *rival, clientOnStdio bool) (string, error) {
	good := 0
	for _, speaks := range translate.All() {
		for _, client := range translate.All() {
			kind, server := roleOf(client), "stdio"
			if clientOnStdio {
				kind, server = "stdio", roleOf(speaks)
			}
			answers, err := l.answersOver(ctx, r, kind, server, client, speaks)
			if err != nil {
				return "", err
			}
			if answers {
				good++
			}
		}
	}
	return strconv.Itoa(good), nil
}

// transports counts the pairs of transports on which a client gets an answer. Where HTTP+SSE is one of them, client and server speak the
// oldest revision, which is the only one with nothing else; but a server of Streamable HTTP, which it does not have.
func (l launcher) transports(ctx context.Context, r *rival) (string, error) {
	newer, good := translate.Handshake()[1], 0
	for _, server := range []string{"stdio", "sse", "http"} {
		for _, kind := range []string{"stdio", "sse", "http"} {
			client, speaks := newer, newer
			if kind == "sse" {
				client = translate.Oldest()
			}
			if server == "sse" || kind == "sse" && server == "stdio" {
				speaks = translate.Oldest()
			}
			answers, err := l.answersOver(ctx, r, kind, server, client, speaks)
			if err != nil {
				return "", err
			}
			if answers {
				good++
			}
		}
	}
	return strconv.Itoa(good), ctx.Err()
}

// answersOver reports whether a client on one transport gets an answer of a server on another one.
func (l launcher) answersOver(ctx context.Context, r *rival, kind, server string, client, speaks *translate.Revision) (bool, error) {
	url := ""
	if server != "stdio" {
		p, err := l.server(ctx, server, speaks, 50)
		if err != nil {
			return false, err
		}
		defer p.Stop()
		url = p.URL()
	}
	var s *session
	var err error
	switch {
	case kind == "stdio" && server == "stdio" && r.pipe != nil:
		s, err = l.opened(ctx, client, r.pipe(l.serverCommand(speaks)))
	case kind == "stdio" && server != "stdio" && r.stdio != nil:
		s, err = l.opened(ctx, client, r.stdio(server, url))
	case kind != "stdio" && server == "stdio" && r.network != nil, kind != "stdio" && server != "stdio" && r.between != nil:
		command := func(port string) []string { return r.between(port, url) }
		if server == "stdio" {
			command = l.before(r, kind, speaks)
		}
		p, failed := l.listening(ctx, r, kind, command)
		if failed != nil {
			return false, ctx.Err()
		}
		defer p.Stop()
		s, err = dialer(p.URL(), client)()
	default:
		return false, nil
	}
	if err != nil {
		return false, ctx.Err()
	}
	defer s.close()
	return s.answers(), nil
}

// retried makes up to five calls, and says how many it took until one was answered.
func retried(ctx context.Context, s *session) string {
	for n := 1; n <= 5 && ctx.Err() == nil; n++ {
		if s.answers() {
			return [...]string{"", "answered", "second answered", "third answered", "fourth answered", "fifth answered"}[n]
		}
		time.Sleep(time.Second)
	}
	return "five fail"
}

// serverRestarts restarts a server on the network that knows its sessions, at the same address.
func (l launcher) serverRestarts(ctx context.Context, r *rival) (string, error) {
	addr, err := process.FreeAddress()
	if err != nil {
		return "", err
	}
	speaks := translate.Handshake()[1]
	start := func() (*process.Process, error) {
		return process.Start(ctx, exec.Command(l.self, "serve", "sessions", "--revision", speaks.Name, addr))
	}
	server, err := start()
	if err != nil {
		return "", err
	}
	defer func() { server.Stop() }()
	s, err := l.opened(ctx, speaks, r.stdio("http", server.URL()))
	if err != nil {
		return "", err
	}
	defer s.close()
	if !s.answers() {
		return "", fmt.Errorf("no answer before the restart")
	}
	server.Kill()
	again, err := start()
	if err != nil {
		return "", err
	}
	server = again
	return retried(ctx, s), nil
}

// commandDies kills the server behind the proxy.
func (l launcher) commandDies(ctx context.Context, r *rival) (string, error) {
	speaks := translate.Handshake()[1]
	p, err := l.listening(ctx, r, "http", l.before(r, "http", speaks))
	if err != nil {
		return "", err
	}
	defer p.Stop()
	s, err := dialer(p.URL(), speaks)()
	if err != nil {
		return "", err
	}
	defer s.close()
	if !s.answers() {
		return "", fmt.Errorf("no answer before the death")
	}
	if err := exec.Command("pkill", "-KILL", "-f", "^"+l.self+" serve stdio").Run(); err != nil { // also behind a shell
		return "", fmt.Errorf("kill the server: %w", err)
	}
	return retried(ctx, s), nil
}

// memory is what the proxy's process holds after 100 calls and two quiet seconds.
func (l launcher) memory(ctx context.Context, r *rival) (string, error) {
	speaks := translate.Handshake()[1]
	server, err := l.server(ctx, "http", speaks, 50)
	if err != nil {
		return "", err
	}
	defer server.Stop()
	s, err := l.opened(ctx, speaks, r.stdio("http", server.URL()))
	if err != nil {
		return "", err
	}
	defer s.close()
	for range 100 {
		if !s.answers() {
			return "", fmt.Errorf("no answer")
		}
	}
	time.Sleep(3 * time.Second)
	u, err := process.UsageOf(s.carrier.(*overStdio).cmd.Process.Pid)
	return strconv.FormatInt(u.Resident/1e6, 10), err
}

func besideTable(began time.Time, names []string, rows []besideRow, skipped []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s, %s, by `go run ./bench/measure beside --write README.md`:\n\n|", began.UTC().Format(time.DateOnly), machine())
	for _, name := range names {
		version := ""
		for _, p := range packages {
			if p.name == name {
				version = " " + p.version
			}
		}
		fmt.Fprintf(&b, " | %s%s", name, version)
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---", len(names)) + "|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.what)
		for _, text := range r.does {
			fmt.Fprintf(&b, " %s |", cmp.Or(text, "–"))
		}
		b.WriteString("\n")
	}
	if len(skipped) > 0 {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", strings.Join(skipped, "; "))
	}
	return b.String()
}
