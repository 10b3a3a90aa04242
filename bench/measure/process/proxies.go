package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nginxConfig uses one process, because only one is measured, and no buffer file. Between its backends it chooses as
// deploy/compose-replicas.yaml does.
const nginxConfig = `daemon off; master_process off; worker_processes 1;
pid %[1]s/nginx.pid; error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	keepalive_requests 100000000; keepalive_timeout 1h;
	upstream server { zone server 64k; %[2]s keepalive 64; keepalive_requests 100000000; }
	server {
		listen %[3]s;
		location / {
			proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
			proxy_max_temp_file_size 0; client_max_body_size 32m; proxy_read_timeout 1h; %[4]s
		}
	}
}
`

// NGINX starts nginx in front of backends, given by their addresses, with its files in a new folder in dir. What it does in addition
// is in directives. The process is nil if nginx is not installed.
func NGINX(ctx context.Context, dir, directives string, backends ...string) (*Process, error) {
	file, err := exec.LookPath("nginx")
	if err != nil {
		return nil, nil
	}
	addr, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "nginx"); err != nil {
		return nil, err
	}
	var servers strings.Builder
	for _, b := range backends {
		fmt.Fprintf(&servers, "server %s max_fails=1 fail_timeout=1s; ", b)
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, servers.String(), addr, directives), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return StartSilent(ctx, exec.Command(file, "-p", dir, "-e", "stderr", "-c", config), "http://"+addr+"/mcp", addr)
}

// FreeAddress returns a loopback address on which nothing listened a moment ago. Its port is none of those that systems give to
// outgoing connections, one of which could take it before the listener does, or while a process that listened there is restarted.
func FreeAddress() (addr string, err error) {
	const first, number, tries = 10000, 20000, 100
	for range tries {
		addr = fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(number))
		var ln net.Listener
		if ln, err = net.Listen("tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", err
}
