package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
)

// SessionKey is the key that all replicas share.
const SessionKey = "c29hay1zb2FrLXNvYWstc29hay1zb2FrLXNvYWstMzI=\n"

// Plan says what a Service consists of.
type Plan struct {
	Binary   string  // the command
	Dir      string  // an empty folder for the files of the service
	Replicas int     // how many processes
	Server   string  // the revision of the server
	Engine   *Engine // of the store
	Nginx    bool    // the balancer is nginx, where it is installed
}

// Service is several replicas with one key behind a balancer, in front of one server and one API.
type Service struct {
	plan   Plan
	config string
	server *httptest.Server
	api    *api
	front  *httptest.Server
	nginx  *process.Process // in place of front

	mu       sync.Mutex
	replicas []*replica
	deaths   []span
}

// replica is one process at an address that it keeps.
type replica struct {
	addr    string
	process *process.Process // nil while it is down
}

// Start starts a service. The caller must call Close.
func Start(ctx context.Context, plan Plan) (_ *Service, err error) {
	s := &Service{plan: plan, config: filepath.Join(plan.Dir, "dragoman.yaml")}
	if s.server, err = startServer(plan.Server); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.api, err = startAPI(plan.Dir); err != nil {
		return nil, err
	}
	var addrs []string
	for range plan.Replicas {
		addr, err := process.FreeAddress()
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, addr)
		s.replicas = append(s.replicas, &replica{addr: addr})
	}
	if err := s.configure(); err != nil {
		return nil, err
	}
	for i := range s.replicas {
		if err := s.start(ctx, i); err != nil {
			return nil, err
		}
	}
	if plan.Nginx { // configured as in deploy/compose-replicas.yaml
		if s.nginx, err = process.NGINX(ctx, plan.Dir, "proxy_buffering off; proxy_request_buffering off; proxy_next_upstream error timeout;", addrs...); s.nginx != nil || err != nil {
			return s, err
		}
	}
	s.front = httptest.NewServer(newBalancer(addrs...))
	return s, nil
}

// configure writes the key and the configuration of all replicas.
func (s *Service) configure() error {
	key := filepath.Join(s.plan.Dir, "key")
	if err := os.WriteFile(key, []byte(SessionKey), 0o600); err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "admin: {listen: ''}\nsession: {key_file: %q}\nupstream: {url: %q}\n", key, s.server.URL+"/mcp")
	fmt.Fprintf(&text, "adapters: {sources: [%q], mode: discrete, confirm: {via: token}}\n", s.plan.Dir)
	fmt.Fprintf(&text, "transform: {rules: [{match: {tool: long}, max_tokens: 500}]}\n")
	// Several services may share an engine. The default of the timeout is short for a machine that tests keep busy.
	fmt.Fprintf(&text, "store: {url: %q, prefix: 'replicas-%s:', timeout: 1s}\n", s.plan.Engine.URL(), s.plan.Server)
	return os.WriteFile(s.config, []byte(text.String()), 0o600)
}

func (s *Service) start(ctx context.Context, i int) error {
	r := s.replicas[i]
	cmd := exec.Command(s.plan.Binary, "serve", "--config", s.config, "--listen", r.addr)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DRAGOMAN_") }), "GOMAXPROCS=2")
	log, err := os.OpenFile(s.log(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	p, err := process.StartWith(ctx, cmd, func(out io.Reader) {
		defer log.Close()
		io.Copy(log, out)
	})
	s.mu.Lock()
	r.process = p
	s.mu.Unlock()
	return err
}

// URL returns the URL of the service: the balancer's.
func (s *Service) URL() string {
	if s.nginx != nil {
		return s.nginx.URL()
	}
	return s.front.URL + "/mcp"
}

// Replica returns the URL of replica i.
func (s *Service) Replica(i int) string { return "http://" + s.replicas[i].addr + "/mcp" }

// noticed is how long a balancer may use connections to a replica that has died. On a busy machine it finds out late.
const noticed = 200 * time.Millisecond

// Kill kills a replica as a node that fails does, and starts it again after a pause.
func (s *Service) Kill(ctx context.Context, i int, pause time.Duration) error {
	s.mu.Lock()
	p := s.replicas[i].process
	s.replicas[i].process = nil
	s.deaths = append(s.deaths, span{from: time.Now()})
	s.mu.Unlock()
	if p != nil {
		p.Kill()
	}
	time.Sleep(noticed)
	s.mu.Lock()
	s.deaths[len(s.deaths)-1].to = time.Now() // until now, the balancer may have used connections that were closed
	s.mu.Unlock()
	time.Sleep(pause)
	return s.start(context.WithoutCancel(ctx), i)
}

// lost reports whether a replica has died since then.
func (s *Service) lost(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.deaths)
	return n > 0 && (s.deaths[n-1].to.IsZero() || s.deaths[n-1].to.After(since))
}

// ended returns the numbers of replicas that have ended although they were not killed.
func (s *Service) ended() (ended []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.replicas {
		if r.process == nil {
			continue
		}
		select {
		case <-r.process.Done():
			ended = append(ended, i)
		default:
		}
	}
	return ended
}

// panics returns an error if the log of a replica has a panic, whether the process survived it or not.
func (s *Service) panics() error {
	for i := range s.replicas {
		text, err := os.ReadFile(s.log(i))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if _, after, found := strings.Cut(string(text), "panic"); found {
			return fmt.Errorf("replica %d at %s logged: panic%.1000s", i, s.plan.Server, after)
		}
	}
	return nil
}

// log returns the file that replica i writes its log to.
func (s *Service) log(i int) string {
	return filepath.Join(s.plan.Dir, fmt.Sprintf("replica-%d.log", i))
}

// Close ends everything that Start has started.
func (s *Service) Close() {
	if s.front != nil {
		s.front.CloseClientConnections()
		s.front.Close()
	}
	if s.nginx != nil {
		s.nginx.Stop()
	}
	for _, r := range s.replicas {
		if r.process != nil {
			r.process.Stop()
		}
	}
	if s.api != nil {
		s.api.close()
	}
	_ = s.server.Config.Close()
}
