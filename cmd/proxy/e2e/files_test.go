package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// fileServer returns the command of a published server of files for a folder with thousands of files, and that folder.
func fileServer(t *testing.T) (command []string, folder string) {
	t.Helper()
	testset.Need(t, testset.Peers, "node", "npm")
	m, err := installFiles()
	if err != nil {
		t.Fatal(err)
	}
	if folder, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		write(t, filepath.Join(folder, fmt.Sprintf("file-%04d ü.txt", i)), nil)
	}
	write(t, filepath.Join(folder, "pixel.png"), []byte("\x89PNG\r\n\x1a\n"))
	return []string{"node", filepath.Join(string(m), "@modelcontextprotocol", "server-filesystem", "dist", "index.js"), folder}, folder
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// callTool calls a tool. The test fails if the answer is a JSON-RPC error.
func callTool(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

func textOf(t *testing.T, c mcp.Content) string {
	t.Helper()
	text, ok := c.(*mcp.TextContent)
	if !ok {
		t.Fatalf("%T is no text", c)
	}
	return text.Text
}

// TestHugeAnswersFitTheirBudget checks that clients of each revision get a valid part of a published server's list of
// 3,000 files, and can read all the rest.
func TestHugeAnswersFitTheirBudget(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	const budget = 2000
	command, folder := fileServer(t)
	proxy := build(t)
	file := config(t, fmt.Sprintf("transform: {default_max_tokens: %d}\n", budget))
	arguments := map[string]any{"path": folder}
	encoding, err := tokens.Named(tokens.O200K, 1)
	if err != nil {
		t.Fatal(err)
	}

	to := endpoint{over: stdio, command: command, stderr: new(output)}
	alone := connectTo(t, "2025-11-25", to)
	whole := textOf(t, callTool(t, alone, "directory_tree", arguments).Content[0])
	if n := encoding.Count([]byte(whole)); n < 10*budget {
		t.Fatalf("an answer of %d tokens is no trial", n)
	}
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			through := to
			through.command = proxy.args("stdio", to, "--config", file)
			s := connectTo(t, revision, through)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if last := list.Tools[len(list.Tools)-1].Name; last != "fetch_more" {
				t.Errorf("the last tool is %s", last)
			}
			r := callTool(t, s, "directory_tree", arguments)
			n := 0
			for _, c := range r.Content {
				n += encoding.Count([]byte(textOf(t, c)))
			}
			if r.StructuredContent != nil {
				structured, err := json.Marshal(r.StructuredContent)
				if err != nil {
					t.Fatal(err)
				}
				n += encoding.Count(structured)
				if tree, ok := r.StructuredContent.(map[string]any)["content"].(string); !ok || tree == "" {
					t.Errorf("structured content %.100s", structured)
				}
			} else if revision != "2024-11-05" && revision != "2025-03-26" { // these have no structured content
				t.Error("result has no structured content, which the tool's outputSchema requires")
			}
			if n > budget || n < budget/4 {
				t.Errorf("%d tokens", n)
			}
			var files []struct{ Name string }
			if err := json.Unmarshal([]byte(textOf(t, r.Content[0])), &files); err != nil || len(files) < 5 || files[0].Name != "file-0000 ü.txt" {
				t.Errorf("%v in %.200s", err, textOf(t, r.Content[0]))
			}

			cut := r.Meta["dragoman/transform"].(map[string]any)
			got := readOn(t, s, cut["cursor"].(string))
			if r.StructuredContent != nil { // with the text
				var original mcp.CallToolResult
				if err := json.Unmarshal([]byte(got), &original); err != nil {
					t.Errorf("%v in %.100s", err, got)
				} else {
					got = textOf(t, original.Content[0])
				}
			}
			if got != whole {
				t.Errorf("what was read on is not the answer: %.100s", got)
			}
			read, spent := followNotices(t, r, encoding, func(arguments map[string]any) *mcp.CallToolResult {
				return callTool(t, s, "fetch_more", arguments)
			})
			said := fmt.Sprint(read)
			if all := encoding.Count([]byte(whole)); spent > all*6/5 {
				t.Errorf("reading on to the end takes %d tokens of %d", spent, all)
			}
			for _, name := range regexp.MustCompile(`file-\d+`).FindAllString(whole, -1) {
				if !strings.Contains(said, name) {
					t.Errorf("%s is never read", name)
					break
				}
			}

			if r := callTool(t, s, "read_text_file", map[string]any{"path": filepath.Join(folder, "none")}); !r.IsError {
				t.Error("an error is none any more")
			}
			media := callTool(t, s, "read_media_file", map[string]any{"path": filepath.Join(folder, "pixel.png")})
			if image, ok := media.Content[0].(*mcp.ImageContent); !ok || !bytes.HasPrefix(image.Data, []byte("\x89PNG")) {
				t.Errorf("the image is %s", base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(media.Content[0]))))
			}
		})
	}
}

// readOn reads everything behind a handle.
func readOn(t *testing.T, s *mcp.ClientSession, cursor string) string {
	t.Helper()
	var all strings.Builder
	for offset := 0; ; {
		r := callTool(t, s, "fetch_more", map[string]any{"cursor": cursor, "from": offset, "count": 16384, "raw": true, "max_tokens": 20000})
		if r.IsError {
			t.Fatal(textOf(t, r.Content[0]))
		}
		all.WriteString(textOf(t, r.Content[0]))
		at := r.Meta["dragoman/transform"].(map[string]any)
		next, total := int(at["next"].(float64)), int(at["total"].(float64))
		if next >= total {
			return all.String()
		}
		if next <= offset {
			t.Fatalf("%d of %d, and no further", next, total)
		}
		offset = next
	}
}

// connectTo connects the Go SDK's client of a revision to a command on a pipe, until the test ends.
func connectTo(t *testing.T, revision string, to endpoint) *mcp.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child := exec.Command(to.command[0], to.command[1:]...)
	child.Stderr = to.stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "dragoman-e2e", Version: "1.0.0"}, nil)
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: child}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, to.stderr)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestImagesAndLinksAreKeptInACappedResult checks that a budget that is too small for the texts of a result keeps images and audio,
// and as many resource links as fit, and that the rest can be read on.
func TestImagesAndLinksAreKeptInACappedResult(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	proxy := build(t)
	file := config(t, "transform: {default_max_tokens: 300}\n")
	everything := m.everything("2026.8.31", "2025-11-25", stdio)
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			to := endpoint{over: stdio, command: everything.command(revision, "e2e-blocks-"+revision), stderr: new(output)}
			to.command = proxy.args("stdio", to, "--config", file)
			s := connectTo(t, revision, to)

			image := 0
			for _, c := range callTool(t, s, "get-tiny-image", map[string]any{}).Content {
				if i, ok := c.(*mcp.ImageContent); ok && bytes.HasPrefix(i.Data, []byte("\x89PNG")) {
					image++
				}
			}
			if image != 1 {
				t.Errorf("%d images", image)
			}

			r := callTool(t, s, "get-resource-links", map[string]any{"count": 10})
			links := 0
			for _, c := range r.Content {
				if l, ok := c.(*mcp.ResourceLink); ok && l.URI != "" {
					links++
				}
			}
			if links == 0 || links >= 10 {
				t.Errorf("%d of 10 links", links)
			}
			cut, ok := r.Meta["dragoman/transform"].(map[string]any)
			if !ok {
				t.Fatalf("nothing was cut: %v", r.Meta)
			}
			if whole := readOn(t, s, cut["cursor"].(string)); strings.Count(whole, `"resource_link"`) != 10 {
				t.Errorf("the original has not all links: %.300s", whole)
			}
		})
	}
	t.Run("audio", func(t *testing.T) {
		const revision = "2025-11-25"
		to := endpoint{over: stdio, command: goServer(revision).command(revision, "e2e-blocks-audio"), stderr: new(output)}
		to.command = proxy.args("stdio", to, "--config", file)
		audio := 0
		for _, c := range callTool(t, connectTo(t, revision, to), "get-audio", map[string]any{}).Content {
			if a, ok := c.(*mcp.AudioContent); ok && len(a.Data) > 0 {
				audio++
			}
		}
		if audio == 0 {
			t.Error("no audio")
		}
	})
}
