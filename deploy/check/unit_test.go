package check

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
)

// unitOf returns the options of dragoman.service, by section and name.
func unitOf(t *testing.T) map[string][]string {
	t.Helper()
	options, err := unit.Deserialize(bytes.NewReader(read(t, "dragoman.service")))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string][]string{}
	for _, o := range options {
		has[o.Section+"."+o.Name] = append(has[o.Section+"."+o.Name], o.Value)
	}
	return has
}

func TestUnitParses(t *testing.T) {
	has := unitOf(t)
	for name, want := range map[string]string{
		"Service.KillMode": "mixed", "Service.Type": "notify", // calls in flight end before the server
		"Service.Restart": "on-failure", "Service.RestartPreventExitStatus": "2", "Service.DynamicUser": "yes",
	} {
		if !slices.Equal(has[name], []string{want}) {
			t.Errorf("%s is %q, want %q", name, has[name], want)
		}
	}
	for _, want := range []string{"Service.WatchdogSec", "Service.ExecStart", "Service.RestartSec", "Install.WantedBy"} {
		if len(has[want]) != 1 {
			t.Errorf("no %s", want)
		}
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	file := filepath.Join(t.TempDir(), "dragoman.service")
	text := bytes.ReplaceAll(read(t, "dragoman.service"), []byte("/usr/local/bin/dragoman"), []byte(build(t)))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), tool, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestUnitStarts runs the commands in the head of the unit, in a folder instead of /, and starts the command with the configuration and
// the credentials that they make, as systemd passes them on.
func TestUnitStarts(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	root := t.TempDir()
	var script strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^# {3}(\S.*)$`).FindAllSubmatch(read(t, "dragoman.service"), -1) {
		if line := string(m[1]); !strings.HasPrefix(line, "systemctl ") && !strings.HasPrefix(line, "install -m 0755 dragoman ") {
			script.WriteString(line + "\n")
		}
	}
	for _, folder := range []string{"/etc/systemd/system", "/etc/dragoman"} {
		if err := os.MkdirAll(root+folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{" /etc/", ">/etc/"} {
		text := strings.ReplaceAll(script.String(), folder, folder[:1]+root+"/etc/")
		script.Reset()
		script.WriteString(text)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script.String())
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script.String(), out)
	}
	has := unitOf(t)
	files := map[string]string{}
	for _, credential := range has["Service.LoadCredential"] {
		id, path, _ := strings.Cut(credential, ":")
		secret, err := os.ReadFile(root + path)
		if err != nil {
			t.Errorf("the unit cannot start: %v", err)
		}
		if info, err := os.Stat(root + path); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files["%d/"+id] = string(secret)
	}
	var env []string
	for _, e := range has["Service.Environment"] {
		if !strings.Contains(e, "%S") {
			env = append(env, e)
		}
	}
	exec := strings.Fields(has["Service.ExecStart"][0])
	config, err := os.ReadFile(root + exec[len(exec)-1])
	if err != nil || !slices.Equal(exec[:3], []string{"/usr/local/bin/dragoman", "serve", "--config"}) {
		t.Fatal(exec, err)
	}
	served(t, string(config), files, env).allows(t, strings.TrimSpace(files["%d/token"]), "127.0.0.1:8808")
}

// TestOnlyFailuresThatPassAreRestarted checks the exit codes that the unit relies on: a mistake in the configuration, or a file that it names
// and that is missing, ends the command with the code that prevents restarts; an address that another process has does not.
func TestOnlyFailuresThatPassAreRestarted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	prevents := unitOf(t)["Service.RestartPreventExitStatus"][0]
	const good = "admin: {listen: \"\"}\nupstream: {url: \"http://127.0.0.1:1/mcp\"}\n"
	for name, c := range map[string]struct {
		config    string
		restarted bool
	}{
		"no YAML":                {"upstream: {", false},
		"unknown setting":        {good + "listne: x\n", false},
		"credentials for others": {"admin: {listen: \"\"}\nlisten: 0.0.0.0:0\nupstream: {url: \"http://127.0.0.1:1/mcp\", headers: {Authorization: secret}}\n", false},
		"no server":              {"admin: {listen: \"\"}\n", false},
		"no file of tokens":      {good + "auth: {token_file: /nonexistent/token}\n", false},
		"no key":                 {good + "session: {key_file: /nonexistent/key}\n", false},
		"no certificate":         {good + "tls: {cert: /nonexistent/cert, key: /nonexistent/key}\n", false},
		"no adapters":            {good + "adapters: {sources: [/nonexistent/adapters]}\n", false},
		"address in use":         {good + "listen: " + ln.Addr().String() + "\n", true},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"serve", "--config", file}
		if !strings.Contains(c.config, "listen: 127") && !strings.Contains(c.config, "listen: 0") {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		out, err := exec.CommandContext(t.Context(), build(t), args...).CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		if code := exit.ExitCode(); (code != 2) != c.restarted || prevents != "2" {
			t.Errorf("%s: exit code %d, the unit prevents restarts after %s\n%s", name, code, prevents, out)
		}
	}
}
