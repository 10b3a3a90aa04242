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
	g := &group{name: "HTTP to HTTP", ways: []*way{{name: "direct", dial: dialer(url, speaks)}}}
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

// fromStdio has commands that connect a client on stdio to a server that speaks HTTP.
func (l launcher) fromStdio(ctx context.Context, url string, speaks *translate.Revision, n *installed) (*group, error) {
	g := &group{name: "stdio to HTTP", ways: []*way{{name: "direct", dial: dialer(url, speaks)}}}
	commands := map[string][]string{
		"dragoman":     {l.dragoman, "stdio", url},
		"mcp-remote":   {n.node, n.files["mcp-remote"], url, "--transport", "http-only", "--allow-http"},
		"supergateway": {n.node, n.files["supergateway"], "--streamableHttp", url, "--logLevel", "none"},
	}
	for _, name := range []string{"dragoman", "mcp-remote", "supergateway"} {
		if name != "dragoman" && n.files[name] == "" {
			continue
		}
		w, err := l.pipe(ctx, name, speaks, commands[name])
		switch {
		case err == nil:
			g.ways = append(g.ways, w)
		case name == "dragoman":
			return g, err
		default:
			n.skip(name+", "+g.name, fmt.Sprintf("failed: %.120s", err))
		}
	}
	return g, nil
}

// toStdio has servers that start a command for a client that speaks HTTP.
func (l launcher) toStdio(ctx context.Context, _ string, speaks *translate.Revision, n *installed) (*group, error) {
	g := &group{name: "HTTP to stdio"}
	command := l.serverCommand(speaks)
	w, err := l.pipe(ctx, "direct", speaks, command)
	if err != nil {
		return g, err
	}
	w.pid = 0
	g.ways = append(g.ways, w)
	d, err := l.serve(ctx, append([]string{"--"}, command...)...)
	if err != nil {
		return g, err
	}
	g.add("dragoman", d, speaks)
	for _, name := range []string{"supergateway", "mcp-proxy"} {
		if n.files[name] == "" {
			continue
		}
		addr, err := process.FreeAddress()
		if err != nil {
			return g, err
		}
		_, port, _ := net.SplitHostPort(addr)
		args := []string{n.files[name], "--stdio", strings.Join(command, " "), "--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none"}
		if name == "mcp-proxy" {
			args = append([]string{n.files[name], "--host", "127.0.0.1", "--port", port, "--server", "stream", "--"}, command...)
		}
		cmd := exec.Command(n.node, args...)
		cmd.Env = l.env()
		p, err := process.StartSilent(ctx, cmd, "http://"+addr+"/mcp", addr)
		if err != nil {
			n.skip(name+", "+g.name, fmt.Sprintf("failed: %.120s", err))
			continue
		}
		g.add(name, p, speaks)
	}
	return g, nil
}
