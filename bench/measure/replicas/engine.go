package replicas

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

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

// Usage reads what the engine's process uses of the system.
func (e *Engine) Usage() (process.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return process.Usage{}, errors.New("the engine is stopped")
	}
	return e.process.Usage()
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

// keys returns the names of the keys in the engine.
func (e *Engine) keys(ctx context.Context) ([]string, error) {
	said, err := e.say(ctx, "KEYS *")
	if err != nil {
		return nil, err
	}
	keys, _ := said.([]string)
	return keys, nil
}

// Calls returns how many commands the engine has processed since it was started.
func (e *Engine) Calls(ctx context.Context) (int64, error) {
	said, err := e.say(ctx, "INFO stats")
	if err != nil {
		return 0, err
	}
	text, _ := said.(string)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, errors.New("INFO stats has no total_commands_processed")
}

const engineTime = 5 * time.Second

// say sends one inline command and reads its answer: a string, an int64, or a list of strings.
func (e *Engine) say(ctx context.Context, command string) (any, error) {
	d := net.Dialer{Timeout: engineTime}
	conn, err := d.DialContext(ctx, "tcp", e.addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(engineTime)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return nil, err
	}
	answer, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return nil, fmt.Errorf("%s of the engine: %w", command, err)
	}
	return answer, nil
}

// readReply reads a reply of the protocol's version 2.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty reply")
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
	default:
		return nil, fmt.Errorf("reply %q", line)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < -1 || n > maxBody {
		return nil, fmt.Errorf("length %q of a reply", rest)
	}
	if line[0] == '$' {
		text := make([]byte, max(n, 0)+2)
		if n < 0 {
			return "", nil
		}
		_, err := io.ReadFull(r, text)
		return string(text[:n]), err
	}
	list := []string{}
	for range max(n, 0) {
		one, err := readReply(r)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprint(one))
	}
	return list, nil
}

// span is a time; the zero end means now.
type span struct{ from, to time.Time }
