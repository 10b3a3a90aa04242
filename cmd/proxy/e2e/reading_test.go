package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// TestPublishedClientsReadAnAnswerToItsEnd checks that clients of each kind get a part of a large answer, and all of it by
// the calls that its notices name, for few more tokens than the answer has.
func TestPublishedClientsReadAnAnswerToItsEnd(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m, proxy := nodePeers(t), build(t)
	command, folder := fileServer(t)
	file, whole := filepath.Join(folder, "run.log"), runLog()
	write(t, file, []byte(whole))
	encoding, err := tokens.Named(tokens.O200K, 1)
	if err != nil {
		t.Fatal(err)
	}
	all := encoding.Count([]byte(whole))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type calls func(tool string, arguments map[string]any) *mcp.CallToolResult
	node := func(config map[string]any) func(*testing.T, endpoint) calls {
		return func(t *testing.T, to endpoint) calls {
			c, err := newNodeCaller(ctx, config, to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.close(); err != nil {
					t.Error(err)
				}
			})
			return func(tool string, arguments map[string]any) *mcp.CallToolResult { return c.result(t, tool, arguments) }
		}
	}
	goClient := func(revision string) func(*testing.T, endpoint) calls {
		return func(t *testing.T, to endpoint) calls {
			c, err := newGoCaller(ctx, revision, to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := c.close(); err != nil {
					t.Error(err)
				}
			})
			return func(tool string, arguments map[string]any) *mcp.CallToolResult {
				return callTool(t, c.(*goCaller).session, tool, arguments)
			}
		}
	}
	up := endpoint{over: stdio, command: command, stderr: new(output)}
	err = proxy.serve(ctx, streamable, up, []string{"--max-tokens", "2000"}, func(to endpoint) error {
		for _, c := range []struct {
			name    string
			over    transport
			connect func(*testing.T, endpoint) calls
		}{
			{"TypeScript SDK 1.0.4, 2024-11-05", withSSE, node(map[string]any{"sdk": filepath.Join(string(m), "sdk-1.0.4")})},
			{"TypeScript SDK 1.32.2, 2025-11-25", streamable, node(map[string]any{"sdk": filepath.Join(string(m), "sdk-1.32.2")})},
			{"TypeScript client 2.4.0, 2026-07-28", streamable, node(map[string]any{"sdk": filepath.Join(string(m), "@modelcontextprotocol", "client"), "mode": pinned(newest)})},
			{"Go SDK, 2025-06-18", streamable, goClient("2025-06-18")},
		} {
			t.Run(c.name, func(t *testing.T) {
				to := to
				if to.over = c.over; c.over == withSSE {
					to.url = strings.TrimSuffix(to.url, "/mcp") + "/sse"
				}
				call := c.connect(t, to)
				more := func(arguments map[string]any) *mcp.CallToolResult { return call("fetch_more", arguments) }

				answers, spent := followNotices(t, call("read_text_file", map[string]any{"path": file}), encoding, more)
				t.Logf("a text of %d tokens: %d answers, %d tokens (%.3f)", all, len(answers), spent, float64(spent)/float64(all))
				if got := putTogether(t, answers); got != whole {
					t.Errorf("what was read is not the text: %s", firstDifference(got, whole))
				}
				if spent > all*6/5 {
					t.Errorf("reading a text of %d tokens took %d", all, spent)
				}
			})
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, line := range errorLines(up.stderr.String()) {
		t.Errorf("logged: %s", line)
	}
}

// runLog returns the output of a long run, with failures in the middle, blank lines, and one long line.
func runLog() string {
	var b strings.Builder
	for i := range 1500 {
		switch {
		case i == 700:
			fmt.Fprintf(&b, "ERROR: step %d failed: connection refused\n    at dial (net.js:%d)\n\n", i, i)
		case i == 900:
			fmt.Fprintf(&b, "dump:%s\n", strings.Repeat(" some words of a long line", 400))
		case i%100 == 99:
			b.WriteString("\n\n")
		default:
			fmt.Fprintf(&b, "2026-11-20T10:%02d:%02d INFO step %d took %d ms\n", i/60%60, i%60, i, i*7%1000)
		}
	}
	return b.String() + "done: 1 failed"
}

// A readAnswer is an answer, and the arguments of the fetch_more that it answers; the first answer has none.
type readAnswer struct {
	arguments map[string]any
	texts     []string // without the notice
}

var nextCall = regexp.MustCompile(`fetch_more (\{.*\})\]$`)

// followNotices reads an answer to its end by the calls that its notices name. It returns all answers and their tokens.
func followNotices(t *testing.T, r *mcp.CallToolResult, encoding *tokens.Encoding, more func(arguments map[string]any) *mcp.CallToolResult) (all []readAnswer, spent int) {
	t.Helper()
	var arguments map[string]any
	for range 1000 {
		a := readAnswer{arguments: arguments}
		last := ""
		for i, c := range r.Content {
			last = textOf(t, c)
			if spent += encoding.Count([]byte(last)); i < len(r.Content)-1 {
				a.texts = append(a.texts, last)
			}
		}
		if r.StructuredContent != nil {
			structured, err := json.Marshal(r.StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			spent += encoding.Count(structured)
			a.texts = []string{string(structured)} // of which the text is a preview
			if content, ok := r.StructuredContent.(map[string]any)["content"].(string); ok {
				a.texts[0] = content
			}
		}
		all = append(all, a)
		next := nextCall.FindStringSubmatch(last)
		if next == nil {
			return all, spent
		}
		arguments = nil
		if err := json.Unmarshal([]byte(next[1]), &arguments); err != nil {
			t.Fatal(err)
		}
		if r = more(arguments); r.IsError {
			t.Fatalf("%s: %s", next[1], textOf(t, r.Content[0]))
		}
	}
	t.Fatal("reading on has no end")
	return
}

var (
	gapLines = regexp.MustCompile(`^…(\d*)$`) // with the number of the first line that is left out, or without one
	gapChars = regexp.MustCompile(` … (\d+) characters …(?: |$)`)
)

// putTogether makes the text of what was read, without using the original. The first answer has parts of it, between gaps that name
// the line at which they begin. Those that follow fill the gaps; where they have one themselves, at the line that it names, the next
// part of the first answer stands.
func putTogether(t *testing.T, answers []readAnswer) string {
	t.Helper()
	lines := map[int][]rune{}
	put := func(line, from int, part string) {
		for part != "" {
			gap := gapChars.FindStringSubmatchIndex(part)
			if gap == nil {
				gap = []int{len(part), len(part), 0, 0}
			}
			text := []rune(part[:gap[0]])
			if missing := from + len(text) - len(lines[line]); missing > 0 {
				lines[line] = append(lines[line], make([]rune, missing)...)
			}
			copy(lines[line][from:], text)
			n, _ := strconv.Atoi(part[gap[2]:gap[3]])
			from += len(text) + n
			part = part[gap[1]:]
		}
	}
	parts := [][]string{nil} // of the first answer
	for line := range strings.SplitSeq(strings.Join(answers[0].texts, "\n"), "\n") {
		if gapLines.MatchString(line) {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], line)
	}
	place := func(line int) int { // the next of them, and returns the line after it
		if len(parts) == 0 {
			t.Fatalf("the first answer has nothing for line %d", line)
		}
		for _, part := range parts[0] {
			put(line, 0, part)
			line++
		}
		parts = parts[1:]
		return line
	}
	line := place(0)
	for _, a := range answers[1:] {
		from := 0
		line = int(a.arguments["from"].(float64))
		path, _ := a.arguments["path"].(string)
		if n, err := strconv.Atoi(path[strings.LastIndexByte(path, '.')+1:]); err == nil { // the pieces of that line
			line, from = n, len(lines[n])
			if hole := slices.Index(lines[n], 0); hole >= 0 { // the end of the line was shown before
				from = hole
			}
		}
		for part := range strings.SplitSeq(strings.Join(a.texts, "\n"), "\n") {
			if gap := gapLines.FindStringSubmatch(part); gap != nil {
				if n, err := strconv.Atoi(gap[1]); err == nil && n != line {
					t.Errorf("a gap says that it begins at line %d, and begins at line %d", n, line)
				}
				line = place(line)
				continue
			}
			if begin := gapChars.FindStringIndex(part); begin != nil && begin[0] == 0 && lines[line] == nil {
				place(line) // the line's beginning was shown before
			}
			put(line, from, part)
			line, from = line+1, 0
		}
	}
	for len(parts) > 0 {
		line = place(line)
	}
	var b strings.Builder
	for i := range slices.Max(slices.Collect(maps.Keys(lines))) + 1 {
		b.WriteString(string(lines[i]) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// firstDifference returns a text that shows where two texts first differ.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %.300q, want %.300q", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(a), len(b))
}
