package main

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
	"github.com/dragoman-proxy/dragoman/translate"
)

// The names of the ways that others are compared with.
const (
	direct   = "direct"
	bare     = "fasthttp"
	standard = "httputil"
	nginx    = "nginx"
	dragoman = "dragoman"
)

// way is one way from the clients to the server.
type way struct {
	name   string
	url    string
	speaks *translate.Revision // the revision of its clients
	server string              // URL of the server at its end
	proxy  *process.Process    // nil for the direct one
	idle   process.Usage       // of the proxy, before the first call
	admin  string              // the address of its listener for operators; "" for none
}

// launcher starts the processes that are measured.
type launcher struct {
	dir      string // for files of a run
	self     string // this command
	dragoman string
}

func (l launcher) role(ctx context.Context, role, upstream string) (*process.Process, error) {
	return process.Start(ctx, exec.Command(l.self, "-serve", role, upstream))
}

// all starts every way to the server at url. After an error, the result has the ways that were
// started before.
func (l launcher) all(ctx context.Context, url string) ([]*way, error) {
	ways := []*way{{name: direct, url: url, speaks: translate.Oldest()}}
	for _, start := range []func(context.Context, string) (*way, error){l.bare, l.standard, l.nginx, l.ours} {
		w, err := start(ctx, url)
		if err != nil {
			return ways, err
		}
		if w != nil {
			ways = append(ways, w)
		}
	}
	return ways, nil
}

func (l launcher) bare(ctx context.Context, url string) (*way, error) {
	p, err := l.role(ctx, bare, url)
	return newWay(bare, p, err)
}

func (l launcher) standard(ctx context.Context, url string) (*way, error) {
	p, err := l.role(ctx, standard, url)
	return newWay(standard, p, err)
}

func (l launcher) ours(ctx context.Context, url string) (*way, error) {
	cmd := exec.Command(l.dragoman, "serve", "--upstream", url, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN=") // several run at the same time
	p, err := process.Start(ctx, cmd)
	return newWay(dragoman, p, err)
}

func newWay(name string, p *process.Process, err error) (*way, error) {
	if err != nil {
		return nil, err
	}
	return &way{name: name, url: p.URL(), speaks: translate.Oldest(), proxy: p}, nil
}

// nginx starts nginx. It returns nil if nginx is not installed.
func (l launcher) nginx(ctx context.Context, upstream string) (*way, error) {
	p, err := proxies.NGINX(ctx, l.dir, upstream)
	if p == nil && err == nil {
		return nil, nil
	}
	return newWay(nginx, p, err)
}

// rest is how long a process is left alone before its idle memory is measured: dragoman gives back what its start took when
// nothing has passed for two seconds.
const rest = 6 * time.Second

func readIdle(ctx context.Context, ways []*way) (err error) {
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, w := range ways {
		if w.proxy == nil {
			continue
		}
		if w.idle, err = w.proxy.Usage(); err != nil {
			return err
		}
	}
	return nil
}

func stopAll(ways []*way) {
	for _, w := range ways {
		if w.proxy != nil {
			w.proxy.Stop()
		}
	}
}
