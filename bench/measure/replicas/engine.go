package replicas

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
)

// engineCommand is the command of the engine.
const engineCommand = "redis-server"

// ErrNoEngine is the error for a system without the engine.
var ErrNoEngine = errors.New(engineCommand + " is not installed")

// Engine is a process of redis-server at a loopback address, which keeps nothing on disk.
type Engine struct {
	dir  string
	addr string
	args []string

	mu      sync.Mutex
	process *process.Process
	outages []span
}

// StartEngine starts an engine, with args added to its command line. The error is ErrNoEngine if there is none on this system.
func StartEngine(ctx context.Context, dir string, args ...string) (*Engine, error) {
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	return StartEngineAt(ctx, addr, dir, args...)
}

// StartEngineAt is StartEngine at an address of the caller.
func StartEngineAt(ctx context.Context, addr, dir string, args ...string) (*Engine, error) {
	if _, err := exec.LookPath(engineCommand); err != nil {
		return nil, ErrNoEngine
	}
	e := &Engine{dir: dir, addr: addr, args: args}
	return e, e.Start(ctx)
}

// URL returns the engine's URL, as store.url has it.
func (e *Engine) URL() string { return "redis://" + e.addr }

// Start starts the engine, with nothing in it.
func (e *Engine) Start(ctx context.Context) error {
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		return err
	}
	cmd := exec.Command(engineCommand, append([]string{"--bind", host, "--port", port, "--dir", e.dir, "--save", "", "--appendonly", "no"}, e.args...)...)
	p, err := process.StartSilent(ctx, cmd, e.URL(), e.addr)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process = p
	if n := len(e.outages); err == nil && n > 0 {
		e.outages[n-1].to = time.Now()
	}
	return err
}

// Stop ends the engine. What was in it is lost.
func (e *Engine) Stop() {
	e.mu.Lock()
	p := e.process
	e.process = nil
	e.outages = append(e.outages, span{from: time.Now()})
	e.mu.Unlock()
	if p != nil {
		p.Stop()
	}
}

// out reports whether the engine was down at some time between from and now, or came back empty less than after before.
func (e *Engine) out(from time.Time, after time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.outages {
		if o.to.IsZero() || o.to.Add(after).After(from) {
			return true
		}
	}
	return false
}

const engineTime = 5 * time.Second

// do carries out one command.
func (e *Engine) do(ctx context.Context, command ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{e.addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	defer client.Close()
	answer, err := client.Do(ctx, client.B().Arbitrary(command...).Build()).ToMessage()
	if err != nil {
		err = fmt.Errorf("%s of the engine: %w", command, err)
	}
	return answer, err
}

// keys returns the names of the keys in the engine.
func (e *Engine) keys(ctx context.Context) ([]string, error) {
	said, err := e.do(ctx, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	return said.AsStrSlice()
}

// Spent returns how many commands the engine has carried out for others since it was started, those of scripts included, and its
// processor time.
func (e *Engine) Spent(ctx context.Context) (calls int64, busy time.Duration, err error) {
	used, err := e.process.Usage()
	if err != nil {
		return 0, 0, err
	}
	said, err := e.do(ctx, "INFO", "commandstats")
	if err != nil {
		return 0, 0, err
	}
	text, err := said.ToString()
	for line := range strings.Lines(text) {
		name, counts, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if name == "info" || name == "hello" || strings.HasPrefix(name, "client") { // of this function
			continue
		}
		number, _, _ := strings.Cut(counts, ",")
		n, _ := strconv.ParseInt(number, 10, 64) // 0 for a line that is no command
		calls += n
	}
	return calls, used.CPU, err
}

// span is a time; the zero end means now.
type span struct{ from, to time.Time }
