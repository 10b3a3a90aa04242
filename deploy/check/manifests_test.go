// Package check checks the files in deploy with the Go types of the programs that
// read them. It is a module of its own, so that the main module has fewer dependencies.
package check

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/coreos/go-systemd/v22/unit"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// kinds are the Go types of the documents in a manifest, by their kind.
var kinds = map[string]func() any{
	"Secret":     func() any { return new(corev1.Secret) },
	"ConfigMap":  func() any { return new(corev1.ConfigMap) },
	"Service":    func() any { return new(corev1.Service) },
	"Deployment": func() any { return new(appsv1.Deployment) },
}

// decode decodes every document of a manifest, and refuses unknown fields.
func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	found := map[string]any{}
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		make, ok := kinds[head.Kind]
		if !ok {
			t.Fatalf("kind %q", head.Kind)
		}
		object := make()
		if err := yaml.UnmarshalStrict(doc, object); err != nil {
			t.Fatalf("%s: %v", head.Kind, err)
		}
		found[head.Kind] = object
	}
	return found
}

func TestSidecarIsNativeAndLocked(t *testing.T) {
	found := decode(t, read(t, "sidecar.yaml"))
	pod := found["Deployment"].(*appsv1.Deployment).Spec.Template.Spec
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers", len(pod.InitContainers))
	}
	c := pod.InitContainers[0]
	if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("not a native sidecar: restartPolicy is not Always")
	}
	if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil {
		t.Error("a probe is missing")
	}
	if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
		t.Error("the root is writable, or privileges can grow")
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		named := false
		for _, port := range c.Ports {
			named = named || port.Name == p.HTTPGet.Port.StrVal
		}
		if !named {
			t.Errorf("the probe of %s uses port %q, which does not exist", p.HTTPGet.Path, p.HTTPGet.Port.StrVal)
		}
	}
}

// TestConfigurationIsAccepted checks that the built command accepts the configuration in the manifest.
func TestConfigurationIsAccepted(t *testing.T) {
	text := decode(t, read(t, "sidecar.yaml"))["ConfigMap"].(*corev1.ConfigMap).Data["config.yaml"]
	accepted(t, text, map[string]string{"session.key": strings.Repeat("00", 32) + "\n"})
}

// accepted starts the built command with a configuration, whose files in /secret or /key are these, and waits until it serves.
func accepted(t *testing.T, text string, secrets map[string]string) {
	t.Helper()
	bin := build(t)
	dir := t.TempDir()
	for name, secret := range secrets {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"/secret/", "/key/"} {
			text = strings.ReplaceAll(text, folder+name, file)
		}
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "serve", "--config", file, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "VENDOR_TOKEN=secret", "DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0")
	if strings.Contains(text, "${DRAGOMAN_TOKEN}") { // a variable that is neither a setting nor named by one is refused
		cmd.Env = append(cmd.Env, "DRAGOMAN_TOKEN=secret")
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(log.String(), `"msg":"serving"`) {
		n, err := stderr.Read(buf)
		log.Write(buf[:n])
		if err != nil {
			t.Fatalf("it ended: %s", log.String())
		}
	}
	cancel()
	_ = cmd.Wait() // returns an error, because it was killed
}

func TestComposeFileIsValid(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{filepath.Join("..", "compose.yaml")}, cli.WithName("dragoman"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.GetService("dragoman")
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range s.Ports {
		if port.HostIP != "127.0.0.1" {
			t.Errorf("port %s is published on %q", port.Published, port.HostIP)
		}
	}
	if !s.ReadOnly {
		t.Error("the root is writable")
	}
}

func TestUnitParses(t *testing.T) {
	options, err := unit.Deserialize(bytes.NewReader(read(t, "dragoman.service")))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, o := range options {
		has[o.Section+"."+o.Name] = o.Value
	}
	for name, want := range map[string]string{"Service.KillMode": "mixed", "Service.Type": "notify"} { // calls in flight end before the server
		if has[name] != want {
			t.Errorf("%s is %q, want %q", name, has[name], want)
		}
	}
	for _, want := range []string{"Service.WatchdogSec", "Service.ExecStart", "Service.Restart", "Service.DynamicUser", "Install.WantedBy"} {
		if has[want] == "" {
			t.Errorf("no %s", want)
		}
	}
}

// build builds the command as the release does, for this system.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "dragoman")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s", "-o", bin, "./cmd/dragoman")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}
