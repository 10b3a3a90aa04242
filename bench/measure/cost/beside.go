package cost

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// tryTime is how long one client may take from its start to its answer. A proxy in Node.js starts within three seconds.
const tryTime = 10 * time.Second

// rival is a proxy as its own documentation starts it; nil for what it does not do.
type rival struct {
	name string
	// stdio is the command that connects a client on stdio to a server of this kind (http or sse).
	stdio func(kind, url string) []string
	// network is the command that listens on a port for clients of this kind (http or sse), in front of the command of a server.
	network func(kind, port string, server []string) []string
	// between and pipe are the same in front of a URL, and on stdio in front of a command.
	between func(port, url string) []string
	pipe    func(server []string) []string
	path    map[string]string // of the listener, by the kind of client
}

func (l launcher) rivals(n *installed) []*rival {
	paths := map[string]string{"http": "/mcp", "sse": "/sse"}
	all := []*rival{{
		name:  "dragoman",
		stdio: func(_, url string) []string { return []string{l.dragoman, "stdio", url} },
		network: func(_, port string, server []string) []string {
			return append([]string{l.dragoman, "serve", "--listen", "127.0.0.1:" + port, "--"}, server...)
		},
		between: func(port, url string) []string {
			return []string{l.dragoman, "serve", "--listen", "127.0.0.1:" + port, url}
		},
		pipe: func(server []string) []string { return append([]string{l.dragoman, "stdio", "--"}, server...) },
		path: paths,
	}}
	if file := n.files["mcp-remote"]; file != "" {
		all = append(all, &rival{name: "mcp-remote", stdio: func(_, url string) []string { return []string{n.node, file, url, "--allow-http"} }})
	}
	if file := n.files["supergateway"]; file != "" {
		flag := map[string]string{"http": "--streamableHttp", "sse": "--sse"}
		output := map[string][]string{"http": {"--outputTransport", "streamableHttp", "--stateful"}, "sse": {"--outputTransport", "sse"}}
		all = append(all, &rival{
			name:  "supergateway",
			stdio: func(kind, url string) []string { return []string{n.node, file, flag[kind], url} },
			network: func(kind, port string, server []string) []string {
				return append([]string{n.node, file, "--stdio", strings.Join(server, " "), "--port", port}, output[kind]...)
			},
			path: paths,
		})
	}
	if file := n.files["mcp-proxy"]; file != "" {
		all = append(all, &rival{
			name: "mcp-proxy",
			network: func(_, port string, server []string) []string {
				return append([]string{n.node, file, "--host", "127.0.0.1", "--port", port, "--"}, server...)
			},
			path: paths,
		})
	}
	return all
}

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
	row := func(what string, has func(*rival) bool, play func(*rival) (string, error)) error {
		out := besideRow{what: what}
		for _, r := range all {
			text := ""
			if has(r) {
				if text, err = play(r); err != nil {
					return fmt.Errorf("%s, %s: %w", what, r.name, err)
				}
			}
			out.does = append(out.does, text)
		}
		rows = append(rows, out)
		return nil
	}
	onStdio := func(r *rival) bool { return r.stdio != nil }
	onNetwork := func(r *rival) bool { return r.network != nil }
	for _, step := range []func() error{
		func() error {
			return row("pairs of revisions that work, of 25: client on stdio, server on the network", onStdio, func(r *rival) (string, error) { return l.pairsFromStdio(ctx, r) })
		},
		func() error {
			return row("the same: client on the network, server a command", onNetwork, func(r *rival) (string, error) { return l.pairsToStdio(ctx, r) })
		},
		func() error {
			return row("pairs of transports that work, of 9 (stdio, HTTP+SSE, Streamable HTTP)", func(*rival) bool { return true }, func(r *rival) (string, error) { return l.transports(ctx, r) })
		},
		func() error {
			return row("a server on the network restarts, and forgets its sessions: the client's next calls", onStdio, func(r *rival) (string, error) { return l.serverRestarts(ctx, r) })
		},
		func() error {
			return row("a server that is a command dies: the client's next calls", onNetwork, func(r *rival) (string, error) { return l.commandDies(ctx, r) })
		},
		func() error {
			return row("memory after 100 calls of a client on stdio, MB", onStdio, func(r *rival) (string, error) { return l.memory(ctx, r) })
		},
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
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

// pairsFromStdio counts the pairs of revisions with which a client on stdio gets an answer of a server on the network.
func (l launcher) pairsFromStdio(ctx context.Context, r *rival) (string, error) {
	good := 0
	for _, speaks := range translate.All() {
		server, err := l.server(ctx, roleOf(speaks), speaks, 50)
		if err != nil {
			return "", err
		}
		for _, client := range translate.All() {
			s, err := l.opened(ctx, client, r.stdio(roleOf(speaks), server.URL()))
			if err != nil {
				continue
			}
			if s.answers() {
				good++
			}
			s.close()
		}
		server.Stop()
	}
	return strconv.Itoa(good), ctx.Err()
}

// listening starts a proxy that listens for clients of this kind.
func (l launcher) listening(ctx context.Context, r *rival, kind string, command func(port string) []string) (*process.Process, error) {
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	args := command(port)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = l.env()
	return process.StartSilent(ctx, cmd, "http://"+addr+r.path[kind], addr)
}

// before is the command in front of a server that is a command.
func (l launcher) before(r *rival, kind string, speaks *translate.Revision) func(port string) []string {
	return func(port string) []string { return r.network(kind, port, l.serverCommand(speaks)) }
}

// pairsToStdio counts the pairs of revisions with which a client on the network gets an answer of a server that is a command.
func (l launcher) pairsToStdio(ctx context.Context, r *rival) (string, error) {
	good := 0
	for _, speaks := range translate.All() {
		for _, client := range translate.All() {
			p, err := l.listening(ctx, r, roleOf(client), l.before(r, roleOf(client), speaks))
			if err != nil {
				continue // it asks the server at its start, and ends if it does not like the answer
			}
			if s, err := dialer(p.URL(), client)(); err == nil {
				if s.answers() {
					good++
				}
				s.close()
			}
			p.Stop()
		}
	}
	return strconv.Itoa(good), ctx.Err()
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
