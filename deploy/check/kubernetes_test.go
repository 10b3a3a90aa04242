package check

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// fronts are the manifests with dragoman, and the name of their service for clients, which is that of the deployment.
var fronts = map[string]string{"sidecar.yaml": "legacy-mcp", "vendor-front.yaml": "mcp-front"}

// dragoman returns dragoman's container in a pod.
func dragoman(t *testing.T, d *appsv1.Deployment) *corev1.Container {
	t.Helper()
	pod := &d.Spec.Template.Spec
	for _, all := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range all {
			if all[i].Name == "dragoman" {
				return &all[i]
			}
		}
	}
	t.Fatal("no container dragoman")
	return nil
}

// secretMade runs the commands with which a manifest says to make its secret, and returns the secret's name and values. A kubectl that only
// tells its arguments stands in for the true one.
func secretMade(t *testing.T, file string) (name string, values map[string]string) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	var script strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^# {7}( *\S.*)$`).FindAllSubmatch(read(t, file), -1) {
		script.Write(append(m[1], '\n'))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\nfor a; do printf '%s\\0' \"$a\"; done >\"$TOLD\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	told := filepath.Join(dir, "told")
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script.String())
	cmd.Stdin = strings.NewReader("the vendor's token\n")
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "TOLD="+told)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script.String(), out)
	}
	line, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(string(line), "\x00")
	if len(args) < 5 || !slices.Equal(args[:3], []string{"create", "secret", "generic"}) {
		t.Fatalf("kubectl %q", args)
	}
	values = map[string]string{}
	for _, arg := range args[4 : len(args)-1] {
		literal, ok := strings.CutPrefix(arg, "--from-literal=")
		key, value, both := strings.Cut(literal, "=")
		if !ok || !both || value == "" {
			t.Fatalf("%s: %q", file, arg)
		}
		values[key] = value
	}
	return args[3], values
}

// TestManifestsHoldNoSecrets: a placeholder that is not replaced would be a token that can be read here, so there is none. Each
// secret that a pod needs is made by the commands in the head of the file.
func TestManifestsHoldNoSecrets(t *testing.T) {
	for file := range fronts {
		text := read(t, file)
		if bytes.Contains(text, []byte("kind: Secret\n")) || regexp.MustCompile(`(?i)replace[-_ ]?me|REPLACE|change[-_ ]?me`).Match(text) {
			t.Errorf("%s has a secret or a placeholder", file)
		}
		name, values := secretMade(t, file)
		used := map[string]bool{}
		uses := func(secret, key string) {
			if used[key] = true; secret != name || values[key] == "" {
				t.Errorf("%s: secret %s with %s is not made", file, secret, key)
			}
		}
		for _, d := range manifest(t, file).deployments {
			pod := d.Spec.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				for _, e := range c.Env {
					if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
						uses(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key)
					}
				}
			}
			for _, v := range pod.Volumes {
				if v.Secret == nil {
					continue
				}
				if v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440 || pod.SecurityContext.FSGroup == nil {
					t.Errorf("%s: others can read the secrets in volume %s, or the pod cannot", file, v.Name)
				}
				for _, item := range v.Secret.Items {
					uses(v.Secret.SecretName, item.Key)
				}
			}
		}
		for key := range values {
			if !used[key] {
				t.Errorf("%s: no pod uses %s", file, key)
			}
		}
	}
}

// TestPodsStart starts the built command as the pods do, with the secret that was made as the file says, at addresses of IPv4 and IPv6: it
// must serve the names of its service, although neither the server nor Redis is there.
func TestPodsStart(t *testing.T) {
	for file, service := range fronts {
		for _, ip := range []string{"127.0.0.1", "::1"} {
			t.Run(file+" "+ip, func(t *testing.T) {
				if ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0")); err != nil {
					t.Skip(err)
				} else {
					ln.Close()
				}
				_, secret := secretMade(t, file)
				all := manifest(t, file)
				c := dragoman(t, all.deployments[service])
				if !slices.Equal(c.Args, []string{"serve", "--config", "/config/config.yaml"}) {
					t.Errorf("args %q", c.Args)
				}
				var env []string
				for _, e := range c.Env {
					switch from := e.ValueFrom; {
					case from == nil:
						value := strings.ReplaceAll(e.Value, "$(POD_IP)", ip)
						value = regexp.MustCompile(`:880[89]$`).ReplaceAllString(value, ":0") // other tests may use the ports
						env = append(env, e.Name+"="+value)
					case from.SecretKeyRef != nil:
						env = append(env, e.Name+"="+secret[from.SecretKeyRef.Key])
					default:
						env = append(env, e.Name+"="+ip)
					}
				}
				files := map[string]string{}
				for _, v := range all.deployments[service].Spec.Template.Spec.Volumes {
					if v.Secret != nil {
						for _, item := range v.Secret.Items {
							files["/secret/"+item.Path] = secret[item.Key]
						}
					}
				}
				config := ""
				for _, v := range all.deployments[service].Spec.Template.Spec.Volumes {
					if v.ConfigMap != nil {
						config = all.configs[v.ConfigMap.Name].Data["config.yaml"]
					}
				}
				var hosts []string
				for _, suffix := range []string{"", ".default", ".default.svc", ".default.svc.cluster.local"} {
					hosts = append(hosts, service+suffix+":8808")
				}
				served(t, config, files, env).allows(t, secret["token"], hosts...)
			})
		}
	}
}

// TestOnlyPrometheusReachesMetrics checks that a policy names the clients that may reach each port of dragoman, by number or by the name of a port.
func TestOnlyPrometheusReachesMetrics(t *testing.T) {
	for file, name := range fronts {
		all := manifest(t, file)
		policy := all.policies[name]
		if policy == nil {
			t.Errorf("%s: no policy %s", file, name)
			continue
		}
		labels := all.deployments[name].Spec.Template.Labels
		for k, v := range policy.Spec.PodSelector.MatchLabels {
			if labels[k] != v {
				t.Errorf("%s: the policy selects other pods", file)
			}
		}
		if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			t.Errorf("%s: the policy lets all in", file)
		}
		reached := map[string]bool{}
		for _, p := range dragoman(t, all.deployments[name]).Ports {
			for _, in := range policy.Spec.Ingress {
				if len(in.From) == 0 || len(in.Ports) == 0 {
					t.Errorf("%s: a rule lets all in", file)
				}
				for _, port := range in.Ports {
					if port.Port.StrVal != p.Name && port.Port.IntVal != p.ContainerPort {
						continue
					}
					reached[p.Name] = true
					for _, from := range in.From {
						if p.Name == "admin" && (from.NamespaceSelector == nil || from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "monitoring") {
							t.Errorf("%s: others than Prometheus reach the metrics", file)
						}
					}
				}
			}
		}
		if !reached["admin"] || !reached["mcp"] {
			t.Errorf("%s: reached are %v", file, reached)
		}
	}
}

// TestRedisOfVendorFrontStarts starts Redis with the configuration in the manifest and the password that was made: with it, and only with it,
// it answers.
func TestRedisOfVendorFrontStarts(t *testing.T) {
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	_, secret := secretMade(t, "vendor-front.yaml")
	dir := t.TempDir()
	conf := manifest(t, "vendor-front.yaml").configs["mcp-front-redis"].Data["redis.conf"]
	if !strings.Contains(conf, "include /secret/redis-password.conf\n") {
		t.Fatal(conf)
	}
	socket := filepath.Join(dir, "s")
	conf = strings.ReplaceAll(conf, "/secret/", dir+"/") + "\nport 0\nunixsocket " + socket + "\n"
	for name, text := range map[string]string{"redis.conf": conf, "redis-password.conf": secret["redis-password.conf"]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), server, filepath.Join(dir, "redis.conf"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns an error, because it was killed
	}()
	var log bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(log.String(), "ready to accept connections") && !strings.Contains(log.String(), socket) {
		n, err := out.Read(buf)
		log.Write(buf[:n])
		if err != nil {
			t.Fatalf("it ended: %s", log.String())
		}
	}
	says := func(commands string) string {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte(commands + "QUIT\r\n")); err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		_, _ = all.ReadFrom(conn)
		return all.String()
	}
	if got := says("PING\r\n"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("without a password: %q", got)
	}
	if got := says("AUTH " + secret["store.password"] + "\r\nPING\r\n"); !strings.HasPrefix(got, "+OK\r\n+PONG\r\n") {
		t.Errorf("with dragoman's password: %q", got)
	}
}
