package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// replica is one of several processes with the same key and the same server.
type replica struct {
	url   string
	proxy *exec.Cmd
	ended chan error
	log   *output

	inHand sync.WaitGroup // messages that it has not answered yet
}

// balancer distributes requests over replicas in turn. A client's answer to a question never goes to the replica that it
// last called, which is the one that asked.
type balancer struct {
	mu       sync.Mutex
	replicas []*replica
	turn     int
	called   map[string]*replica // by session
	crossed  int                 // answers that went to another replica
}

// traffic is the kind of message in a request.
type traffic int

const (
	stream traffic = iota // none: a GET or a DELETE
	call
	answer
)

// next returns the replica for one try of a request.
func (b *balancer) next(session string, carries traffic) *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		b.turn++
		r := b.replicas[b.turn%len(b.replicas)]
		switch {
		case carries == call:
			b.called[session] = r
		case carries == answer && b.called[session] == r:
			continue
		case carries == answer:
			b.crossed++
		}
		if carries != stream {
			r.inHand.Add(1)
		}
		return r
	}
}

// set replaces the list of replicas, and waits until removed ones have answered all messages.
func (b *balancer) set(replicas ...*replica) {
	b.mu.Lock()
	before := b.replicas
	b.replicas = replicas
	b.mu.Unlock()
	for _, r := range before {
		if !slices.Contains(replicas, r) {
			r.inHand.Wait()
		}
	}
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	carries := stream
	switch {
	case r.Method != http.MethodPost:
	case gjson.GetBytes(body, "params.inputResponses").Exists(): // of a client without a session
		carries = answer
	case gjson.GetBytes(body, "method").Exists():
		carries = call
	default:
		carries = answer
	}
	to := b.next(r.Header.Get("Mcp-Session-Id"), carries)
	if carries != stream {
		defer to.inHand.Done()
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, to.url, bytes.NewReader(body))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	out.Header = r.Header.Clone()
	res, err := http.DefaultClient.Do(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	copyHeader(w, res)
	flush := http.NewResponseController(w)
	for piece := make([]byte, 4<<10); ; {
		_ = flush.Flush()
		n, err := res.Body.Read(piece)
		_, _ = w.Write(piece[:n])
		if err != nil {
			return
		}
	}
}

func copyHeader(w http.ResponseWriter, res *http.Response) {
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
}

// replicas starts n processes in front of one server.
func (d dragoman) replicas(t *testing.T, n int, config, upstream string) (all []*replica) {
	for range n {
		r := &replica{log: &output{}, ended: make(chan error, 1)}
		args := d.args("serve", endpoint{over: streamable, url: upstream}, "--config", config, "--listen", "127.0.0.1:0")
		r.proxy = exec.Command(args[0], args[1:]...)
		r.proxy.Stderr = r.log
		if err := r.proxy.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { r.ended <- r.proxy.Wait() }()
		t.Cleanup(func() {
			_ = r.proxy.Process.Kill()
			err := <-r.ended
			r.ended <- err
			for _, line := range errorLines(r.log.String()) {
				t.Errorf("logged: %s", line)
			}
		})
		var err error
		if r.url, err = serving(t.Context(), r.log, r.ended); err != nil {
			t.Fatalf("%v\n%s", err, r.log)
		}
		all = append(all, r)
	}
	return all
}

// rewrite replaces a file that a process watches. It is never seen empty or in part, as while [os.WriteFile] writes it.
func rewrite(t *testing.T, file string, text []byte) {
	t.Helper()
	whole := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(whole, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, file); err != nil {
		t.Fatal(err)
	}
}

// kill kills a replica.
func (r *replica) kill() {
	_ = r.proxy.Process.Kill()
	err := <-r.ended
	r.ended <- err
}

// keyFile writes a configuration with a new key.
func keyFile(t *testing.T) (config string) {
	key := make([]byte, 32)
	rand.Read(key)
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	config = filepath.Join(dir, "dragoman.yaml")
	for name, text := range map[string]string{
		file:   base64.StdEncoding.EncodeToString(key),
		config: fmt.Sprintf("session: {key_file: %q}\nadmin: {listen: ''}\n", file),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// TestKilledReplica distributes the calls of 100 sessions of published clients, between four revisions, over three
// processes with one key. One process is killed during the run, then all are, and started again. No call may fail, and no
// session may be lost.
func TestKilledReplica(t *testing.T) {
	testset.Need(t, testset.Peers)
	proxy := build(t)
	const sessions, calls = 100, 6
	server := goServer("2025-11-25")
	url, stop, err := server.serve("2025-11-25", streamable)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	config := keyFile(t)
	all := proxy.replicas(t, 3, config, url)
	b := &balancer{called: map[string]*replica{}}
	b.set(all...)
	front := httptest.NewServer(b)
	defer front.Close()
	defer front.CloseClientConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var clients []*mcp.ClientSession
	for i := range sessions {
		revision := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}[i%4]
		client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: front.URL, MaxRetries: 20}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		clients = append(clients, session)
	}
	spray := func(what string, halfway func()) {
		var wait sync.WaitGroup
		half := make(chan struct{}, sessions)
		for i, c := range clients {
			wait.Go(func() {
				for n := range calls {
					text := fmt.Sprintf("%s %d %d", what, i, n)
					res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": text}})
					switch {
					case err != nil:
						t.Errorf("%s: %v", text, err)
						return
					case len(res.Content) != 1 || res.Content[0].(*mcp.TextContent).Text != "Echo: "+text:
						t.Errorf("%s: %+v", text, res)
					}
					if n == calls/2 {
						half <- struct{}{}
					}
				}
			})
		}
		for range sessions / 2 {
			select {
			case <-half:
			case <-ctx.Done():
			}
		}
		halfway()
		wait.Wait()
	}
	spray("all three", func() {})
	spray("one killed", func() {
		b.set(all[1:]...)
		all[0].kill() // which also ends all its streams
	})
	b.set(proxy.replicas(t, 2, config, url)...)
	all[1].kill()
	all[2].kill()
	spray("all anew", func() {})
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestAnswersThroughOtherReplicas runs the whole scenario over three processes in turn, between revisions: a request of
// the server that comes through one is answered through another. Clients and servers must see no difference.
func TestAnswersThroughOtherReplicas(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	proxy := build(t)
	for _, c := range []cell{
		{client: goSDK("2024-11-05"), server: goServer("2025-11-25"), down: streamable, up: streamable},
		{client: goSDK("2025-06-18"), server: goServer("2025-11-25"), down: streamable, up: streamable},
		{client: goSDK("2025-11-25"), server: goServer("2025-06-18"), down: streamable, up: streamable},
		{client: goSDK("2025-11-25"), server: goServer("2025-03-26"), down: streamable, up: streamable},
		{client: goSDK("2025-11-25"), server: goServer("2025-11-25"), down: streamable, up: streamable},
	} {
		t.Run(c.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			alone := direct(ctx, c.client, c.server, streamable)
			url, stop, err := c.server.serve(c.server.revision, streamable)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			b := &balancer{called: map[string]*replica{}}
			b.set(proxy.replicas(t, 3, keyFile(t), url)...)
			front := httptest.NewServer(b)
			defer front.Close()
			defer front.CloseClientConnections()
			through := outcome{}
			through.steps, through.err = c.client.run(ctx, endpoint{over: streamable, url: front.URL, stderr: &output{}})
			for _, r := range b.replicas {
				through.log += r.log.String()
			}
			check(t, c, alone, through)
			if b.crossed == 0 {
				t.Error("no question was answered through another replica")
			}
		})
	}
}
