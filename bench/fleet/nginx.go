package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
)

// nginxConfig is the configuration of deploy/compose-replicas.yaml, with the addresses of the replicas in place of a name.
const nginxConfig = `daemon off; worker_processes 1;
pid %[1]s/nginx.pid; error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream dragoman { zone dragoman 64k; %[2]s keepalive 64; }
	server {
		listen %[3]s;
		client_max_body_size 32m;
		location / {
			proxy_pass http://dragoman;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $http_host;
			proxy_buffering off;
			proxy_request_buffering off;
			proxy_read_timeout 1h;
			proxy_next_upstream error timeout;
		}
	}
}
`

// HasNginx reports whether this system has nginx.
func HasNginx() bool {
	_, err := exec.LookPath("nginx")
	return err == nil
}

// startNginx starts nginx in front of backends, given by their addresses.
func startNginx(ctx context.Context, dir string, backends []string) (*process.Process, error) {
	addr, err := proxies.FreeAddress()
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
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, dir, servers.String(), addr), 0o600); err != nil {
		return nil, err
	}
	return process.StartSilent(ctx, exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", file), "http://"+addr, addr)
}
