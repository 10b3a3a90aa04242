package check

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// objects are those of a decoded manifest, by kind and name.
type objects struct {
	configs     map[string]*corev1.ConfigMap
	services    map[string]*corev1.Service
	deployments map[string]*appsv1.Deployment
	budgets     map[string]*policyv1.PodDisruptionBudget
	scalers     map[string]*autoscalingv2.HorizontalPodAutoscaler
	policies    map[string]*networkingv1.NetworkPolicy
}

// one decodes a document into a new value of all, by its name, and refuses unknown fields.
func one[T any](t *testing.T, all map[string]*T, name string, doc []byte) {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict(doc, object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if all[name] != nil {
		t.Errorf("two objects %s of one kind", name)
	}
	all[name] = object
}

func vendorFront(t *testing.T) *objects { return manifest(t, "vendor-front.yaml") }

// manifest decodes a file of Kubernetes objects.
func manifest(t *testing.T, file string) *objects {
	t.Helper()
	f := &objects{map[string]*corev1.ConfigMap{}, map[string]*corev1.Service{}, map[string]*appsv1.Deployment{},
		map[string]*policyv1.PodDisruptionBudget{}, map[string]*autoscalingv2.HorizontalPodAutoscaler{}, map[string]*networkingv1.NetworkPolicy{}}
	for _, doc := range bytes.Split(read(t, file), []byte("\n---\n")) {
		var head struct {
			APIVersion string
			Kind       string
			Metadata   struct{ Name string }
		}
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		switch name := head.Metadata.Name; head.APIVersion + " " + head.Kind {
		case "v1 ConfigMap":
			one(t, f.configs, name, doc)
		case "v1 Service":
			one(t, f.services, name, doc)
		case "apps/v1 Deployment":
			one(t, f.deployments, name, doc)
		case "policy/v1 PodDisruptionBudget":
			one(t, f.budgets, name, doc)
		case "autoscaling/v2 HorizontalPodAutoscaler":
			one(t, f.scalers, name, doc)
		case "networking.k8s.io/v1 NetworkPolicy":
			one(t, f.policies, name, doc)
		default:
			t.Fatalf("unexpected %s %s", head.APIVersion, head.Kind)
		}
	}
	return f
}

// TestVendorFrontHoldsTogether checks that the objects of the manifest refer to what is there.
func TestVendorFrontHoldsTogether(t *testing.T) {
	f := vendorFront(t)
	selects := func(what string, selector map[string]string) *appsv1.Deployment {
		for _, d := range f.deployments {
			match := len(selector) > 0
			for k, v := range selector {
				match = match && d.Spec.Template.Labels[k] == v
			}
			if match {
				return d
			}
		}
		t.Errorf("%s selects no pods", what)
		return nil
	}
	ports := func(d *appsv1.Deployment) (named []string) {
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				named = append(named, p.Name)
			}
		}
		return named
	}
	for name, s := range f.services {
		d := selects("service "+name, s.Spec.Selector)
		if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
			t.Errorf("service %s has affinity", name)
		}
		for _, p := range s.Spec.Ports {
			if d != nil && !slices.Contains(ports(d), p.TargetPort.StrVal) {
				t.Errorf("service %s: there is no port %q", name, p.TargetPort.StrVal)
			}
		}
	}
	if f.services["mcp-front-replicas"].Spec.ClusterIP != corev1.ClusterIPNone {
		t.Error("the service of the replicas is not headless")
	}
	scaler := f.scalers["mcp-front"].Spec
	d := f.deployments[scaler.ScaleTargetRef.Name]
	if d == nil || d.Spec.Replicas != nil {
		t.Error("the autoscaler's deployment is missing, or sets the number of replicas itself")
	}
	if *scaler.MinReplicas < 3 {
		t.Error("fewer than three replicas")
	}
	for name, b := range f.budgets {
		selects("budget "+name, b.Spec.Selector.MatchLabels)
		if b.Spec.MinAvailable.IntValue() >= int(*scaler.MinReplicas) {
			t.Error("no pod may ever be evicted")
		}
	}
	for name, p := range f.policies {
		d := selects("policy "+name, p.Spec.PodSelector.MatchLabels)
		for _, in := range p.Spec.Ingress {
			for _, port := range in.Ports {
				if d != nil && !slices.Contains(ports(d), port.Port.StrVal) {
					t.Errorf("policy %s: there is no port %q", name, port.Port.StrVal)
				}
			}
		}
		for _, out := range p.Spec.Egress {
			for _, to := range out.To {
				if to.PodSelector != nil {
					selects("egress of "+name, to.PodSelector.MatchLabels)
				}
			}
		}
	}
	for name, d := range f.deployments {
		if f.policies[name] == nil {
			t.Errorf("no policy limits who reaches %s", name)
		}
		locked(t, name, d)
	}
}

// locked checks that a pod runs with no more rights than it needs.
func locked(t *testing.T, name string, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
		t.Errorf("%s may run as root", name)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s has a token of the cluster", name)
	}
	for _, c := range pod.Containers {
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation {
			t.Errorf("%s: the root is writable, or privileges can grow", name)
		}
		if c.ReadinessProbe == nil || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: no readiness probe, or no limit of memory", name)
		}
	}
}

// TestVendorFrontScalesOnAMetricThatExists checks that the rule of the autoscaler's metric reads one that dragoman exports.
func TestVendorFrontScalesOnAMetricThatExists(t *testing.T) {
	f := vendorFront(t)
	metric := f.scalers["mcp-front"].Spec.Metrics[0].Pods.Metric.Name
	var rules struct {
		Rules []struct {
			SeriesQuery  string
			MetricsQuery string
			Name         struct{ As string }
		}
	}
	if err := yaml.Unmarshal([]byte(f.configs["dragoman-metric"].Data["rules.yaml"]), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Rules) != 1 || rules.Rules[0].Name.As != metric {
		t.Fatalf("no rule for %s: %+v", metric, rules)
	}
	series, _, _ := strings.Cut(rules.Rules[0].SeriesQuery, "{")
	if !strings.Contains(rules.Rules[0].MetricsQuery, "rate("+series+"{") {
		t.Errorf("%s is not a rate of %s", rules.Rules[0].MetricsQuery, series)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n| `"+series+"` |") {
		t.Errorf("docs/operations.md has no metric %s", series)
	}
}

// TestComposeOfReplicasIsValid checks the compose file with three replicas, and the configuration in it.
func TestComposeOfReplicasIsValid(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{filepath.Join("..", "compose-replicas.yaml")}, cli.WithName("replicas"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Services {
		for _, port := range s.Ports {
			if name != "balancer" || port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s on %q", name, port.Published, port.HostIP)
			}
		}
		for on := range s.DependsOn {
			if _, ok := p.Services[on]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, on)
			}
		}
	}
	s, err := p.GetService("dragoman")
	if err != nil {
		t.Fatal(err)
	}
	if s.Deploy == nil || s.Deploy.Replicas == nil || *s.Deploy.Replicas != 3 || !s.ReadOnly {
		t.Error("there are not three replicas, or their root is writable")
	}
	if nginx := p.Configs["nginx"].Content; strings.Contains(nginx, "ip_hash;") || !strings.Contains(nginx, "proxy_buffering off") || !strings.Contains(nginx, "Host $http_host;") {
		t.Errorf("nginx has affinity, or holds streams back, or loses the host:\n%s", nginx)
	}
	served(t, p.Configs["dragoman"].Content, map[string]string{"/key/session.key": strings.Repeat("00", 32) + "\n"}, nil).
		allows(t, "", "127.0.0.1:8808", "balancer:8808", "dragoman:8808")
}
