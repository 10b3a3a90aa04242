package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/translate"
)

// BenchmarkStartup measures the time from starting the built command to its first
// answer to an initialize, with the built-in server behind it.
func BenchmarkStartup(b *testing.B) {
	command := filepath.Join(b.TempDir(), "dragoman.exe")
	if out, err := exec.Command("go", "build", "-o", command, "../cmd/dragoman").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	latest := translate.Latest()
	initialize := find(b, latest, latest, "initialize").Raw
	transport := new(http.Transport)
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	firstAnswer(b, command, client, initialize) // so that the file is in the page cache

	var h histogram.Histogram
	for b.Loop() {
		transport.CloseIdleConnections()
		h.Record(firstAnswer(b, command, client, initialize).Nanoseconds())
	}
	b.ReportMetric(float64(h.Quantile(0.5))/1e6, "p50-ms")
	b.ReportMetric(float64(h.Max())/1e6, "max-ms")
}

// firstAnswer starts the command, sends initialize, stops the command and returns how long the answer took.
func firstAnswer(b *testing.B, command string, client *http.Client, initialize []byte) time.Duration {
	b.Helper()
	cmd := exec.Command(command, "--listen", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns an error, because it was killed
	}()
	url, err := announced(stdout)
	if err == nil {
		err = ask(client, url, initialize)
	}
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	return took
}

// announced reads the endpoint's URL, which is on a line of its own, as that of the live page is.
func announced(stdout io.Reader) (string, error) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, "http://") && strings.HasSuffix(line, "/mcp") {
			return line, nil
		}
	}
	return "", fmt.Errorf("no URL on standard output: %w", io.ErrUnexpectedEOF)
}

func ask(client *http.Client, url string, initialize []byte) error {
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(initialize))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"serverInfo"`)) {
		return fmt.Errorf("answer %d: %s", response.StatusCode, body)
	}
	return nil
}
