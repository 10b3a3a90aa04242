package command

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestOpenOpensThePage in the browser of the desk, with a code that gives the token once, and never without the flag.
func TestOpenOpensThePage(t *testing.T) {
	recording := filepath.Join(t.TempDir(), "calls.jsonl")
	write(t, recording, recordedCalls)
	for name, args := range map[string][]string{
		"serve":       {"serve", "--open", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp"},
		"every side":  {"serve", "--open", "--inspect", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp"},
		"stdio":       {"stdio", "--open", "http://127.0.0.1:1/mcp"},
		"the demo":    {"--open", "--quiet", "--listen", "127.0.0.1:0"},
		"a recording": {"inspect", "--open", recording},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, true)
			if name == "every side" {
				d.env = append(d.env, "DRAGOMAN_ADMIN_LISTEN=0.0.0.0:0", "DRAGOMAN_INSPECT_TOKEN="+strings.Repeat("t", 32))
			} else {
				d.env = append(d.env, "DRAGOMAN_ADMIN_LISTEN=")
			}
			d.start(args...)
			page := d.nextTab(0)
			at, code, _ := strings.Cut(page, "#once=")
			if !strings.HasPrefix(at, "http://127.0.0.1:") || code == "" || strings.Contains(page, "token") {
				t.Fatal("the browser opens", page)
			}
			var got struct{ Token string }
			if status := askPage(t, at+"token", code, &got); status != 200 || got.Token == "" || got.Token == code {
				t.Fatalf("the code gives %d %q", status, got.Token)
			}
			var state struct{ Calls *int }
			if status := askPage(t, at+"state", got.Token, &state); status != 200 || state.Calls == nil {
				t.Errorf("the token gives %d", status)
			}
			if status := askPage(t, at+"token", code, nil); status != 401 {
				t.Errorf("the code gives %d a second time", status)
			}
		})
	}
	for name, args := range map[string][]string{
		"serve": {"serve", "--inspect", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp"},
		"stdio": {"stdio", "--inspect", "http://127.0.0.1:1/mcp"},
	} {
		t.Run("without the flag, "+name, func(t *testing.T) {
			d := newDesk(t, true)
			d.env = append(d.env, "DRAGOMAN_ADMIN_LISTEN=")
			notes := d.start(args...)
			peertest.Eventually(t, "the page is served", func() bool { return strings.Contains(notes.String(), "the live page is served") })
			if tabs := d.tabs(); len(tabs) != 0 {
				t.Errorf("the browser opens %q", tabs)
			}
		})
	}
}

// TestWithoutABrowserDragomanServes, and says how to open the page.
func TestWithoutABrowserDragomanServes(t *testing.T) {
	d := newDesk(t, false)
	d.env = append(d.env, "DRAGOMAN_ADMIN_LISTEN=")
	notes := d.start("serve", "--open", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp")
	peertest.Eventually(t, "it serves", func() bool { return strings.Contains(notes.String(), `"msg":"serving`) })
	said := ""
	for line := range strings.Lines(notes.String()) {
		if strings.Contains(line, "cannot open the live page") {
			said = line
		}
	}
	if !strings.Contains(said, `"level":"warn"`) || !strings.Contains(said, "this session has no display") || !strings.Contains(said, "dragoman inspect prints the URL") || strings.Contains(said, "once=") {
		t.Errorf("it says %q in\n%s", said, notes.String())
	}
	if _, _, err := d.run("inspect", "--open"); err == nil {
		t.Error("without a recording there is nothing to open")
	}
}

// start starts dragoman, and returns what it writes to stderr. The test ends it.
func (d *desk) start(args ...string) *syncBuffer {
	d.t.Helper()
	notes := new(syncBuffer)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stderr = d.env, notes
	in, err := cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	return notes
}

// askPage gets a path of the page with a token, and reads the answer into to unless that is nil.
func askPage(t *testing.T, url, token string, to any) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if to != nil {
		if err := json.NewDecoder(bufio.NewReader(resp.Body)).Decode(to); err != nil {
			t.Error(err)
		}
	}
	return resp.StatusCode
}
