package cost

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// The packages of other proxies, and the file of each that node runs.
var packages = []struct{ name, version, file string }{
	{"mcp-remote", "0.15.1", "dist/proxy.js"},
	{"supergateway", "4.0.0", "dist/index.js"},
	{"mcp-proxy", "6.7.19", "dist/bin/mcp-proxy.mjs"},
}

const installTime = time.Minute

// installed are the other proxies that this machine has.
type installed struct {
	node    string
	files   map[string]string // by the package's name
	skipped []string          // what is not measured, and why
}

func (n *installed) skip(name, why string) { n.skipped = append(n.skipped, name+" ("+why+")") }

// install gets the packages by npm, into dir. Their install scripts do not run.
func (l launcher) install(ctx context.Context, dir string) *installed {
	n := &installed{files: map[string]string{}}
	if _, err := exec.LookPath("nginx"); err != nil {
		n.skip("nginx", "not installed")
	}
	why := ""
	node, err := exec.LookPath("node")
	if err != nil {
		why = "no node here"
	} else if dir == "none" {
		why = "left out"
	}
	if dir == "" {
		dir = l.dir
	}
	for _, p := range packages {
		if why != "" {
			n.skip(p.name, why)
			continue
		}
		at := filepath.Join(dir, p.name)
		bounded, cancel := context.WithTimeout(ctx, installTime)
		out, err := exec.CommandContext(bounded, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--prefix", at, p.name+"@"+p.version).CombinedOutput()
		cancel()
		if err != nil {
			n.skip(p.name, fmt.Sprintf("npm: %v: %.80q", err, out))
			continue
		}
		n.node, n.files[p.name] = node, filepath.Join(at, "node_modules", p.name, p.file)
	}
	return n
}

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
		name:  dragoman,
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
			stdio: func(kind, url string) []string { return []string{n.node, file, flag[kind], url, "--logLevel", "none"} },
			network: func(kind, port string, server []string) []string {
				return append([]string{n.node, file, "--stdio", strings.Join(server, " "), "--port", port, "--logLevel", "none"}, output[kind]...)
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

// group are ways to the same server, the first of which is direct.
type group struct {
	name string
	ways []*way
	kept []*way // those that worked
}

// measureOthers measures dragoman beside other proxies, at one connection, in front of servers of 2025-06-18. A proxy that
// fails is left out.
func (l launcher) measureOthers(ctx context.Context, slice time.Duration, n *installed) ([]*group, error) {
	speaks := translate.Handshake()[1]
	server, err := l.server(ctx, "http", speaks, 50)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	var all []*group
	for _, start := range []func(context.Context, string, *translate.Revision, *installed) (*group, error){l.betweenHTTP, l.fromStdio, l.toStdio} {
		g, err := start(ctx, server.URL(), speaks, n)
		if err == nil {
			err = g.measure(ctx, slice, n)
		}
		closeAll(g.ways)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// measure measures the ways that answer a call; it is an error if those that are not npm packages do not.
func (g *group) measure(ctx context.Context, slice time.Duration, n *installed) error {
	for _, w := range g.ways {
		_, err := w.ready(ctx, small, 1)
		if err == nil {
			_, err = w.ready(ctx, list, 1)
		}
		_, foreign := n.files[w.name]
		switch {
		case err == nil:
			g.kept = append(g.kept, w)
		case foreign:
			n.skip(w.name+", "+g.name, fmt.Sprintf("failed: %.120s", err))
		default:
			return err
		}
	}
	return inTurns(ctx, g.kept, slice)
}

// betweenHTTP has proxies between a client and a server that both speak HTTP.
func (l launcher) betweenHTTP(ctx context.Context, url string, speaks *translate.Revision, n *installed) (*group, error) {
	g := &group{name: "HTTP to HTTP", ways: []*way{{name: direct, dial: dialer(url, speaks)}}}
	b, err := l.role(ctx, bare, url)
	if err != nil {
		return g, err
	}
	g.add("bare fasthttp", b, speaks)
	x, err := l.nginx(ctx, url)
	if err != nil {
		n.skip("nginx", fmt.Sprintf("failed: %.120s", err))
	} else if x != nil {
		g.add("nginx", x, speaks)
	}
	for _, client := range []*translate.Revision{speaks, translate.All()[1], translate.Lookup(translate.Modern())} {
		d, err := l.serve(ctx, "--upstream", url)
		if err != nil {
			return g, err
		}
		name := "dragoman, one revision"
		if client != speaks {
			name = "dragoman, " + client.Name + " to " + speaks.Name
		}
		g.add(name, d, client)
	}
	return g, nil
}

func (g *group) add(name string, p *process.Process, client *translate.Revision) {
	g.ways = append(g.ways, through(name, p, dialer(p.URL(), client)))
}

// withRivals has the direct way and those that start begins. It begins none where a proxy has no mode for it.
func (l launcher) withRivals(name string, straight *way, n *installed, start func(*rival) (*way, error)) (*group, error) {
	g := &group{name: name, ways: []*way{straight}}
	for _, r := range l.rivals(n) {
		w, err := start(r)
		switch {
		case w != nil:
			g.ways = append(g.ways, w)
		case err != nil && r.name == dragoman:
			return g, err
		case err != nil:
			n.skip(r.name+", "+name, fmt.Sprintf("failed: %.120s", err))
		}
	}
	return g, nil
}

// fromStdio has commands that connect a client on stdio to a server that speaks HTTP.
func (l launcher) fromStdio(ctx context.Context, url string, speaks *translate.Revision, n *installed) (*group, error) {
	return l.withRivals("stdio to HTTP", &way{name: direct, dial: dialer(url, speaks)}, n, func(r *rival) (*way, error) {
		if r.stdio == nil {
			return nil, nil
		}
		return l.pipe(ctx, r.name, speaks, r.stdio("http", url))
	})
}

// toStdio has servers that start a command for a client that speaks HTTP.
func (l launcher) toStdio(ctx context.Context, _ string, speaks *translate.Revision, n *installed) (*group, error) {
	const name = "HTTP to stdio"
	straight, err := l.pipe(ctx, direct, speaks, l.serverCommand(speaks))
	if err != nil {
		return &group{name: name}, err
	}
	straight.pid = 0
	return l.withRivals(name, straight, n, func(r *rival) (*way, error) {
		if r.network == nil {
			return nil, nil
		}
		p, err := l.listening(ctx, r, "http", l.before(r, "http", speaks))
		if err != nil {
			return nil, err
		}
		return through(r.name, p, dialer(p.URL(), speaks)), nil
	})
}
