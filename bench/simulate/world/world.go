// Package world plays a script: the real proxy between the peers of the script, on a network in memory and the time of a bubble.
package world

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/bench/simulate/network"
	"github.com/dragoman-proxy/dragoman/bench/simulate/peers"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Mode is how the steps follow each other.
type Mode int

const (
	// InTurn waits after each step until all has come to rest, so that a script is played the same way again.
	InTurn Mode = iota
	// AtOnce does not wait, so that what happens inside a step is played too.
	AtOnce
)

// Ports of the hosts.
const (
	front      = 8000 // of all replicas
	serverPort = 9000
	apiPort    = 9100
)

// patience is how long what must end is waited for.
const patience = 5 * time.Minute

// world is what is there while a script is played.
type world struct {
	script  *script.Script
	trace   *trace.Trace
	network *network.Network
	server  *peers.Server
	api     *peers.API // nil unless there is an adapter for it
	adapter string     // the file of the adapter
	store   *engine    // nil for none
	keys    string     // the file with the key of the replicas
	log     *zap.Logger

	replicas map[string]*process // by name; of stdio clients too
	clients  map[string]*peers.Client
	choosing sync.Mutex
	sticky   map[string]int // under choosing: the number of the replica that a balancer with affinity has chosen for a client
	running  sync.WaitGroup // what ends in the background
}

// process is one run of dragoman.
type process struct {
	name string
	srv  *proxy.Server
	stop context.CancelFunc
	done chan struct{} // closed when it has ended
	dead bool          // it was killed: what it does is seen by none
	told bool          // it was told to stop

	drain time.Duration
}

// Play plays s in the bubble in which it is called, and returns what happened. dir is a folder for files.
func Play(t *testing.T, s *script.Script, dir string, mode Mode, log *zap.Logger) []trace.Event {
	w := &world{
		script: s, trace: trace.New(), network: network.New(s.Portable), log: log,
		replicas: map[string]*process{}, clients: map[string]*peers.Client{}, sticky: map[string]int{},
	}
	w.network.KeepAlive = 25 * time.Second // as the product asks of sockets
	if mode == InTurn {
		w.network.InTurn(s.Seed)
	}
	if err := w.open(dir); err != nil {
		panic(fmt.Sprintf("seed %d: %v", s.Seed, err)) // what was begun would keep the bubble from ending
	}
	for _, step := range s.Steps {
		w.do(step)
		if mode == InTurn || step.Verb == "wait" {
			w.network.Rest()
		}
	}
	w.calm()
	w.close()
	return w.trace.All()
}

// open makes the peers and begins the replicas.
func (w *world) open(dir string) error {
	w.keys = filepath.Join(dir, "key")
	if err := os.WriteFile(w.keys, []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		return err
	}
	if w.script.Store {
		w.store = newEngine(func(text string) { w.trace.Add(trace.Event{Who: "store", Kind: trace.Strange, Text: text}) })
	}
	w.server = peers.NewServer(peers.ServerOptions{
		Transport: w.script.Server.Transport, Revision: w.script.Server.Revision, Tasks: w.script.Server.Tasks, Wants: w.script.Server.Wants, Trace: w.trace,
		Turn:   func(what string) { w.network.Turn("server", "", []byte(what)) },
		Listen: func() (net.Listener, error) { return w.network.Listen("server", serverPort) },
	})
	if w.script.Server.Transport != "stdio" {
		if err := w.server.Run(); err != nil {
			return err
		}
	}
	if w.script.Has("adapters.") {
		w.adapter = filepath.Join(dir, "api-adapter.md")
		if err := os.WriteFile(w.adapter, []byte(peers.Adapter), 0o600); err != nil {
			return err
		}
		ln, err := w.network.Listen("api", apiPort)
		if err != nil {
			return err
		}
		w.api = peers.NewAPI(w.trace, ln)
	}
	var ports []int
	for i := range w.script.Replicas {
		ports = append(ports, front+1+i)
	}
	w.network.Balance(front, ports...)
	for i := range w.script.Replicas {
		if err := w.start(replica(i + 1)); err != nil {
			return err
		}
		w.network.Rest()
	}
	for _, c := range w.script.Clients {
		if err := w.join(c); err != nil {
			return err
		}
		w.network.Rest()
	}
	return nil
}

func replica(i int) string { return fmt.Sprintf("r%d", i) }

// config is that of a process.
func (w *world) config(name string, port int) (config.Config, error) {
	lines := []string{"inspect.enabled: false", `admin.listen: ""`, "log.level: error"}
	switch t := w.script.Server.Transport; t {
	case "stdio":
		lines = append(lines, "upstream.command: [server]")
	case "sse":
		lines = append(lines, fmt.Sprintf("upstream.url: http://10.0.0.9:%d/sse", serverPort))
	default:
		lines = append(lines, fmt.Sprintf("upstream.url: http://10.0.0.9:%d/mcp", serverPort))
	}
	if w.script.Server.Wants == "key" {
		lines = append(lines, fmt.Sprintf("upstream.headers: {%s: %s}", script.KeyHeader, script.Key))
	}
	if w.api != nil {
		lines = append(lines, "adapters.sources: ["+w.adapter+"]")
	}
	if w.script.Store {
		lines = append(lines, "session.key_file: "+w.keys, "store.url: redis://127.0.0.1:1", fmt.Sprintf("store.advertise: 127.0.0.1:%d", port))
	}
	return config.Sources{Flags: func(c *config.Config, layers *setting.Layers) {
		layers.Part("the world", []byte(document(append(lines, w.script.Settings...))))
	}}.Read()
}

// document turns lines with paths into a YAML document.
func document(lines []string) string {
	type node struct {
		value string
		below map[string]*node
		names []string
	}
	root := &node{below: map[string]*node{}}
	for _, line := range lines {
		path, value, _ := strings.Cut(line, ":")
		at := root
		for _, name := range strings.Split(strings.TrimSpace(path), ".") {
			next := at.below[name]
			if next == nil {
				next = &node{below: map[string]*node{}}
				at.below[name] = next
				at.names = append(at.names, name)
			}
			at = next
		}
		at.value = strings.TrimSpace(value)
	}
	var b strings.Builder
	var write func(n *node, indent string)
	write = func(n *node, indent string) {
		for _, name := range n.names {
			if below := n.below[name]; len(below.names) > 0 {
				fmt.Fprintf(&b, "%s%s:\n", indent, name)
				write(below, indent+"  ")
			} else {
				fmt.Fprintf(&b, "%s%s: %s\n", indent, name, below.value)
			}
		}
	}
	write(root, "")
	return b.String()
}

// outside is what the process of a name reaches.
func (w *world) outside(name string) origin.World {
	out := origin.World{Dial: w.network.Dial(name), Start: func(*upstream.Stdio) (*upstream.Process, error) { return w.startServer(name) }}
	if w.store != nil {
		out.Store = w.store.of(name)
	}
	return out
}

// startServer begins a process of the server for a process of dragoman.
func (w *world) startServer(of string) (*upstream.Process, error) {
	ours, theirs := w.network.Pipe("own", "server")
	errOurs, errTheirs := w.network.Pipe("own", "server")
	wait, end := w.server.Process(of, theirs, theirs, errTheirs)
	kill := func() { w.network.Behind(ours, end) } // what was written before comes first, as far as it comes
	return &upstream.Process{
		In: halfOf{ours}, Out: ours, Err: errOurs,
		Wait: wait, Terminate: func() bool { kill(); return true }, Kill: kill,
		Release: func() { ours.Close(); errOurs.Close() },
	}, nil
}

// halfOf closes only the way to the peer.
type halfOf struct{ net.Conn }

func (h halfOf) Close() error {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return h.Conn.Close()
}

// start begins a replica.
func (w *world) start(name string) error {
	cfg, err := w.config(name, port(name))
	if err != nil {
		return err
	}
	w.network.Revive(name)
	ln, err := w.network.Listen(name, port(name))
	if err != nil {
		return err
	}
	srv, err := proxy.NewIn(w.outside(name), cfg, w.log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{name: name, srv: srv, stop: stop, done: make(chan struct{}), drain: cfg.Shutdown.Drain}
	w.replicas[name] = p
	w.trace.Add(trace.Event{Who: name, Kind: trace.Started})
	go func() {
		defer close(p.done)
		err := srv.Serve(ctx, ln)
		w.ended(p, err)
	}()
	return nil
}

// ended notes the end of a process: it must hold nothing then.
func (w *world) ended(p *process, err error) {
	if p.dead {
		return
	}
	e := trace.Event{Who: p.name, Kind: trace.Died}
	if err != nil {
		e.Failed = err.Error()
	}
	w.trace.Add(e)
	w.counted(p)
	w.running.Go(func() { w.holds(p, "after its end") })
	if n := w.network.Open(p.name); n > 0 {
		w.trace.Add(trace.Event{Who: p.name, Kind: trace.Strange, Text: fmt.Sprint("has ", n, " connections after its end")})
	}
}

// join makes a client; one on stdio gets a process of dragoman for itself.
func (w *world) join(c script.Client) error {
	o := peers.ClientOptions{Name: c.Name, Transport: c.Transport, Revision: c.Revision, Lacks: c.Without, Trace: w.trace, Open: w.server.Open,
		Turn: func(what string) { w.network.Turn(c.Name, "", []byte(what)) }}
	if c.Transport != "stdio" {
		o.Dial, o.Token, o.User = w.network.Dial(c.Name), script.Token(c.User), c.User
		o.Address = func() string { return fmt.Sprintf("127.0.0.1:%d", front) }
		if c.Transport == "sse" {
			o.Address = func() string { return fmt.Sprintf("127.0.0.1:%d", w.affine(c.Name)) }
		}
		w.clients[c.Name] = peers.NewClient(o)
		return nil
	}
	name := "p" + c.Name[1:]
	cfg, err := w.config(name, port(name))
	if err != nil {
		return err
	}
	srv, err := proxy.NewIn(w.outside(name), cfg, w.log)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	theirs, ours := w.network.Pipe(c.Name, name)
	p := &process{name: name, srv: srv, stop: stop, done: make(chan struct{}), drain: cfg.Shutdown.Drain}
	w.replicas[name] = p
	w.trace.Add(trace.Event{Who: name, Kind: trace.Started})
	go func() {
		defer close(p.done)
		err := srv.ServePipe(ctx, ours, ours)
		ours.Close()
		w.ended(p, err)
	}()
	o.In, o.Out = theirs, halfOf{theirs}
	w.clients[c.Name] = peers.NewClient(o)
	return nil
}

// affine returns the port of the replica to which a balancer sends a client over HTTP+SSE, as such clients need: always the same one as
// long as that runs, also when others come back. See docs/replicas.md.
func (w *world) affine(client string) int {
	w.choosing.Lock()
	defer w.choosing.Unlock()
	first := int(client[1] - '0')
	if had, ok := w.sticky[client]; ok {
		first = had
	}
	for i := range w.script.Replicas {
		n := (first + i) % w.script.Replicas
		name := replica(n + 1)
		if p := w.replicas[name]; p != nil && !p.dead && !p.stopping() {
			w.sticky[client] = n
			return port(name)
		}
	}
	return front
}

// do carries out a step.
func (w *world) do(step script.Step) {
	w.trace.Add(trace.Event{Kind: trace.Step, Text: step.String()})
	switch step.Who {
	case "":
		d, _ := time.ParseDuration(step.Word(0))
		time.Sleep(d)
	case "server":
		w.server.Do(step)
	case "link":
		w.link(step)
	case "operator":
		w.operate(step)
	default:
		if c := w.clients[step.Who]; c != nil {
			if of := w.clients[step.Word(0)]; step.Verb == "steal" && of != nil {
				id, revision := of.Session()
				step.Values = []script.Value{{Name: "session", Text: id}, {Name: "revision", Text: revision}}
			}
			if step.Verb == "peek" {
				task := "unknown"
				if of := w.clients[step.Word(1)]; of != nil && (step.Word(0) != "cancel" || w.apart(step.Who, step.Word(1))) {
					task = of.LastTask()
				}
				step.Values = []script.Value{{Name: "task", Text: task}}
			}
			c.Do(step)
		}
	}
}

// apart reports whether two clients can never have a task in common: the server has sessions, and so have they.
func (w *world) apart(a, b string) bool {
	for _, c := range w.script.Clients {
		if (c.Name == a || c.Name == b) && c.Revision >= "2026" {
			return false
		}
	}
	return a != b && w.script.Server.Revision < "2026"
}

// link carries out a step on links: "link c1 r1 cut 120", "link server refuse 3s", "link heal". A * is any host.
func (w *world) link(step script.Step) {
	host := func(word string) string { return strings.TrimPrefix(word, "*") }
	d := func(i int) time.Duration { d, _ := time.ParseDuration(step.Word(i)); return d }
	a, b := host(step.Verb), host(step.Word(0))
	switch step.Word(1) {
	case "cut":
		after, _ := strconv.Atoi(step.Word(2))
		w.network.Cut(a, b, after)
	case "half":
		w.network.Half(a, b)
	case "stall":
		w.network.Stall(a, b, d(2))
	case "trickle":
		w.network.Trickle(a, b, d(2))
	case "vanish":
		w.network.Vanish(a, b)
	}
	switch step.Word(0) {
	case "refuse":
		w.network.Refuse(a, d(1))
	case "hang":
		w.network.Hang(a, d(1))
	}
	if step.Verb == "heal" {
		w.network.Heal()
	}
}

// operate carries out what an operator does.
func (w *world) operate(step script.Step) {
	name := step.Word(0)
	if c := w.clients[name]; c != nil { // the replica to which its stream is open
		name = c.Listens()
	}
	p := w.replicas[name]
	switch step.Verb {
	case "reload":
		for _, p := range w.replicas {
			if cfg, err := w.config(p.name, port(p.name)); err == nil && !p.stopping() && !p.dead {
				if err := p.srv.Reload(cfg); err != nil {
					w.trace.Add(trace.Event{Who: p.name, Kind: trace.Strange, Text: "reload fails", Failed: err.Error()})
				}
			}
		}
	case "stop":
		if p != nil {
			p.told = true
			p.stop()
			w.running.Go(func() { w.endsInTime(p) })
		}
	case "start":
		w.restart(name)
	case "kill":
		if p == nil || p.ended() || p.dead || name[0] != 'r' {
			return
		}
		p.dead = true
		w.network.Kill(name)
		if w.store != nil {
			w.store.kill(name)
		}
		p.stop() // what is left of it ends unseen
		w.trace.Add(trace.Event{Who: name, Kind: trace.Died, Text: "killed"})
	case "store":
		if w.store != nil {
			d, _ := time.ParseDuration(step.Word(1))
			w.store.fail(name, d)
		}
	}
}

func port(name string) int {
	if name[0] == 'r' {
		return front + int(name[1]-'0')
	}
	return front + 100 + int(name[1]-'0')
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// restart begins a replica that was stopped or killed.
func (w *world) restart(name string) {
	p := w.replicas[name]
	if p == nil || name[0] != 'r' || !p.dead && !p.stopping() {
		return
	}
	w.await(p, "does not end")
	w.network.Rest() // or it would depend on the last of its goroutines whether a client still finds it away
	if err := w.start(name); err != nil {
		w.trace.Add(trace.Event{Who: name, Kind: trace.Strange, Text: "does not start", Failed: err.Error()})
	}
}

// endsInTime checks that p ends soon enough after it was told to: it drains, what came meanwhile has as long again, and processes get 5 s.
func (w *world) endsInTime(p *process) {
	limit := 2*p.drain + 6*time.Second
	select {
	case <-p.done:
	case <-time.After(limit):
		if !p.dead {
			w.trace.Add(trace.Event{Who: p.name, Kind: trace.Strange, Text: fmt.Sprint("goes on ", limit, " after SIGTERM")})
		}
	}
}

// stopping reports whether the process ends, or has ended.
func (p *process) stopping() bool { return p.told || p.ended() }

// await waits for the end of p.
func (w *world) await(p *process, what string) {
	select {
	case <-p.done:
	case <-time.After(patience):
		panic(fmt.Sprintf("seed %d: %s %s within %v", w.script.Seed, p.name, what, patience))
	}
}
