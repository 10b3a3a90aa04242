// Package check checks the files in deploy with the Go types of the programs that
// read them. It is a module of its own, so that the main module has fewer dependencies.
package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	corev1 "k8s.io/api/core/v1"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSidecarIsNativeAndLocked(t *testing.T) {
	pod := manifest(t, "sidecar.yaml").deployments["legacy-mcp"].Spec.Template.Spec
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
	hosts := s.Environment["DRAGOMAN_ALLOWED_HOSTS"]
	if hosts == nil {
		t.Fatal("no allowed_hosts: other containers are refused")
	}
	args := slices.DeleteFunc(slices.Clone([]string(s.Command)), func(arg string) bool { return arg == "serve" || arg == "--listen" || arg == ":8808" })
	served(t, "", nil, []string{"DRAGOMAN_ALLOWED_HOSTS=" + *hosts, "DRAGOMAN_LISTEN=127.0.0.1:0"}, args...).allows(t, "", "127.0.0.1:8808", "dragoman:8808")
}
