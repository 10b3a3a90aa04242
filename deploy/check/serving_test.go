package check

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// built builds the command once, by the line of the Dockerfile, for this system.
var built = sync.OnceValues(func() (string, error) {
	dockerfile, err := os.ReadFile(filepath.Join("..", "Dockerfile"))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "dragoman")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "dragoman")
	line := regexp.MustCompile(`(?m)^RUN (.* go build .*)$`).FindSubmatch(dockerfile)
	if line == nil {
		return "", os.ErrNotExist
	}
	cmd := exec.Command("sh", "-ec", strings.ReplaceAll(string(line[1]), "-o /dragoman ", "-o "+bin+" "))
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
	out, err := cmd.CombinedOutput()
	_, _ = os.Stderr.Write(out)
	return bin, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

func build(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// A serving is the built command, which serves at url.
type serving struct{ url string }

// served starts the built command and waits until it serves. text is its configuration, files are those that it names, by their paths, and
// env and args are what it gets besides.
func served(t *testing.T, text string, files map[string]string, env []string, args ...string) *serving {
	t.Helper()
	dir := t.TempDir()
	for path, secret := range files {
		file := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, path, file)
		for i := range env {
			env[i] = strings.ReplaceAll(env[i], path, file)
		}
	}
	args = append([]string{"serve"}, args...)
	if text != "" {
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", file)
	}
	if !strings.Contains(strings.Join(env, "\n"), "DRAGOMAN_LISTEN=") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, build(t), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0"}, env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // returns an error, because it was killed
	})
	var log bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := stderr.Read(buf)
		log.Write(buf[:n])
		if url := regexp.MustCompile(`"msg":"serving","url":"([^"]+)"`).FindSubmatch(log.Bytes()); url != nil {
			go func() {
				for err == nil { // so that it never waits for its log
					_, err = stderr.Read(buf)
				}
			}()
			return &serving{string(url[1])}
		}
		if err != nil {
			t.Fatalf("%v ended: %s", args, log.String())
		}
	}
}

// allows checks that requests with these Host headers are let in, with a token unless it is "", and that others are not.
func (s *serving) allows(t *testing.T, token string, hosts ...string) {
	t.Helper()
	status := func(host, token string) int {
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, host := range hosts {
		if got := status(host, token); got != http.StatusBadRequest { // there is no session
			t.Errorf("host %s: status %d", host, got)
		}
	}
	if got := status("attacker.example", token); got != http.StatusForbidden {
		t.Errorf("another host: status %d", got)
	}
	if got := status(hosts[0], token+"x"); token != "" && got != http.StatusUnauthorized {
		t.Errorf("another token: status %d", got)
	}
}
