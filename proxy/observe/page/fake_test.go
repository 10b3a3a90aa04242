package page_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/inspect"
	"github.com/dragoman-proxy/dragoman/proxy/observe/page"
	"github.com/dragoman-proxy/dragoman/translate"
)

// testToken is the token of every fake.
const testToken = "0123456789abcdef0123456789abcdef"

// testCode is the code that every fake gives it for.
const testCode = "ABCDEFGHIJKLMNOP"

type object = map[string]any

// fake serves the page and speaks to it as dragoman does, with calls that the test makes up.
type fake struct {
	url string

	mu       sync.Mutex
	rows     []object // by rising number
	calls    map[int]object
	sessions []object
	state    object
	started  string
	file     string // the name of a recording
	clients  string // the URL that clients use
	feeds    map[chan event]bool
	opened   []string // the queries of the feeds that were opened
	searches int
	refuse   int // the status of every feed, if it is not 0
}

type event struct {
	name string
	data any
}

func newFake(t *testing.T) *fake {
	f := &fake{calls: map[int]object{}, feeds: map[chan event]bool{}, clients: "http://127.0.0.1:8808/mcp", started: time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339), state: object{"connections": 3}}
	web := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.cut()
		web.Close()
	})
	f.url = web.URL + "/inspect/"
	return f
}

// withToken is the address that dragoman prints at start.
func (f *fake) withToken() string { return f.url + "#token=" + testToken }

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", inspect.ContentSecurityPolicy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name := strings.TrimPrefix(r.URL.Path, "/inspect/")
	if name == "" {
		name = "page.html"
	}
	if file, err := fs.ReadFile(page.Files(), name); err == nil {
		w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		_, _ = w.Write(file)
		return
	}
	if name == "token" && r.Header.Get("Authorization") == "Bearer "+testCode {
		_ = json.NewEncoder(w).Encode(object{"token": testToken})
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch number, call := strings.CutPrefix(name, "calls/"); {
	case name == "feed":
		f.feed(w, r)
	case name == "state":
		f.mu.Lock()
		defer f.mu.Unlock()
		f.state["sessions"] = f.sessions
		_ = json.NewEncoder(w).Encode(f.state)
	case name == "rules":
		_ = json.NewEncoder(w).Encode(observe.Rules())
	case name == "export":
		w.Header().Set("Content-Disposition", "attachment; filename=dragoman.jsonl")
		fmt.Fprintf(w, "{\"kind\":\"header\",\"format\":1}\n{\"query\":%q}\n", r.URL.Query().Get("q"))
	case name == "search":
		_ = json.NewEncoder(w).Encode(f.search(r.URL.Query().Get("q"), r.URL.Query().Get("since")))
	case call:
		number, message, one := strings.Cut(number, "/")
		n, _ := strconv.Atoi(number)
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.calls[n] == nil:
			w.WriteHeader(http.StatusNotFound)
		case one:
			seq, _ := strconv.Atoi(message)
			_ = json.NewEncoder(w).Encode(beside(f.calls[n]["messages"].([]object), seq))
		default:
			_ = json.NewEncoder(w).Encode(f.calls[n])
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// as turns what a test made up into what dragoman has.
func as[T any](from any) (to T) {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, &to)
	}
	if err != nil {
		panic(err)
	}
	return to
}

// search compares all rows. The versions of the fake are the numbers of searches.
func (f *fake) search(q, since string) observe.Found {
	filter := observe.ParseFilter(q)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.searches++
	found := observe.Found{Fit: []uint64{}, Not: []uint64{}, Until: uint64(f.searches)}
	for _, r := range f.rows {
		row := as[observe.Row](r)
		fits := filter.Match(&row, func(text string) bool {
			payloads, _ := json.Marshal(f.calls[int(row.N)])
			return strings.Contains(strings.ToLower(string(payloads)), text)
		})
		if fits {
			found.Fit = append(found.Fit, row.N)
		} else if since != "0" {
			found.Not = append(found.Not, row.N)
		}
	}
	return found
}

// beside compares message seq with its pair.
func beside(messages []object, seq int) observe.Comparison {
	payload := func(m object) []byte {
		data, _ := json.Marshal(m["payload"])
		return data
	}
	m := messages[seq-1]
	pair := messages[m["pair"].(int)-1]
	if seq > m["pair"].(int) {
		m, pair = pair, m
	}
	if m["same"] != nil {
		return observe.Beside(payload(m), nil, nil)
	}
	return observe.Beside(payload(m), payload(pair), as[[]translate.Change](m["changes"]))
}

func (f *fake) feed(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	events := make(chan event, 1000)
	f.mu.Lock()
	if started := r.URL.Query().Get("started"); started != "" && started != f.started {
		after = 0
	}
	f.opened = append(f.opened, r.URL.RawQuery)
	if f.refuse != 0 {
		defer f.mu.Unlock()
		w.WriteHeader(f.refuse)
		return
	}
	f.feeds[events] = true
	old := slices.Clone(f.rows)
	first := []event{{"hello", object{"version": "0.3.0", "replica": "7f3a", "started": f.started, "now": f.started, "last": len(old), "payloads": "masked", "file": f.file, "url": f.clients}}}
	stats := event{"stats", object{"connections": 3, "calls": len(old), "errors_per_min": 0, "sessions": f.sessions}}
	f.mu.Unlock()
	for i := 0; i < len(old); i += 200 {
		var batch []object
		for _, row := range old[i:min(i+200, len(old))] {
			if row["n"].(int) > after {
				batch = append(batch, row)
			}
		}
		if batch != nil {
			first = append(first, event{"rows", object{"rows": batch}})
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	write := func(e event) {
		data, err := json.Marshal(e.data)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, data)
		w.(http.Flusher).Flush()
	}
	for _, e := range append(first, stats) {
		write(e)
	}
	defer func() {
		f.mu.Lock()
		delete(f.feeds, events)
		f.mu.Unlock()
	}()
	for {
		select {
		case e, open := <-events:
			if !open {
				return
			}
			write(e)
		case <-r.Context().Done():
			return
		}
	}
}

// send sends an event to every page.
func (f *fake) send(name string, data any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for events := range f.feeds {
		events <- event{name, data}
	}
}

// add adds calls, or replaces those with the same number.
func (f *fake) add(rows ...object) {
	f.mu.Lock()
	for _, r := range rows {
		i := -1
		if len(rows) < 100 { // many are new
			i = slices.IndexFunc(f.rows, func(x object) bool { return x["n"] == r["n"] })
		}
		if i >= 0 {
			f.rows[i] = r
		} else {
			f.rows = append(f.rows, r)
		}
	}
	f.mu.Unlock()
	for i := 0; i < len(rows); i += 200 {
		f.send("rows", object{"rows": rows[i:min(i+200, len(rows))]})
	}
}

// cut ends every feed, as a lost connection does.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for events := range f.feeds {
		close(events)
		delete(f.feeds, events)
	}
}

// feedsOpened returns the queries of the feeds so far, and how many are open now.
func (f *fake) feedsOpened() (queries []string, now int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.opened), len(f.feeds)
}

var (
	cursor = object{"session": "9f21c0d2aa10b3c4", "principal": "51d0a9b2c3e4f506", "client": "cursor 0.41", "client_rev": "2024-11-05", "server": "everything 2.0", "server_rev": "2025-11-25",
		"transport": "stdio", "era": "same", "since": time.Now().Add(-47 * time.Minute).Format(time.RFC3339), "calls": 412, "open": 1, "streams": 1, "p95_ms": 41.2, "rules": []string{"C01", "C02", "C03", "C07"}}
	claude = object{"session": "4b7e11908cd2ef01", "principal": "0c4f7be1a2935d68", "client": "claude-code 2.1", "client_rev": "2026-07-28", "server": "tracker 0.9", "server_rev": "2025-06-18",
		"transport": "http", "era": "bridge", "since": time.Now().Add(-6 * time.Minute).Format(time.RFC3339), "calls": 88, "open": 1, "asking": 1, "errors": 1, "p95_ms": 9.4, "rules": []string{"C29", "C30"}}
)

// editor is a session that has ended.
var editor = object{"session": "77aa1b2c3d4e5f60", "principal": "51d0a9b2c3e4f506", "client": "zed 0.200", "client_rev": "2025-06-18", "server": "everything 2.0", "server_rev": "2025-11-25", "transport": "http", "era": "same",
	"since": time.Now().Add(-50 * time.Minute).Format(time.RFC3339), "ended": time.Now().Add(-38 * time.Minute).Format(time.RFC3339), "why": "its client has ended it", "calls": 31, "errors": 2, "p95_ms": 1210.4, "rules": []string{"C07"}}

// madeUp returns n calls as a busy morning has them, each a little different, with the messages of the newest.
func (f *fake) madeUp(n int) {
	base := time.Now().Add(-time.Duration(n) * 700 * time.Millisecond)
	f.sessions = []object{cursor, claude}
	f.state = object{"connections": 3, "sessions": f.sessions, "ended": []object{editor}, "parked": []object{{"method": "elicitation/create", "session": "4b7e11908cd2ef01", "client": "claude-code 2.1", "server": "tracker 0.9", "tool": "book_flight", "since": time.Now().Add(-20 * time.Second).Format(time.RFC3339), "ends": time.Now().Add(100 * time.Second).Format(time.RFC3339), "call": n - 2}},
		"replicas": []object{{"address": "10.0.3.17:8809", "reachable": true, "forwarded": 12}, {"address": "10.0.3.18:8809", "forwarded": 0}},
		"losses": []object{{"rule": "C01", "what": "title", "count": 13, "example": n, "does": "moves a tool's title to `annotations.title` for 2025-03-26, and removes it for 2024-11-05"}, {"rule": "C02", "what": "annotations", "count": 12, "example": n, "does": gone}, {"rule": "C07", "what": "task-only tool", "count": 1, "example": n, "does": "removes tools that only run as tasks from the list, unless tasks are bridged"},
			{"rule": "C29", "what": "resultType", "count": 0, "changed": 88, "example": n, "does": "adds `resultType: complete`"}}}
	var rows []object
	for i := 1; i <= n; i++ {
		rows = append(rows, madeUpRow(i, base.Add(time.Duration(i)*700*time.Millisecond)))
	}
	f.add(rows...)
	if n > 0 {
		f.calls[n] = toolsList(rows[n-1])
	}
	if n > 1 {
		f.calls[n-1] = shortened(rows[n-2])
	}
}

var kinds = []object{
	{"method": "tools/list", "status": "ok", "rules": []string{"C01", "C02", "C03", "C07"}, "bytes": []int{7697, 4315}, "tokens": []int{1930, 1071}, "server": 2.1,
		"losses": []object{{"rule": "C01", "what": "title", "count": 13}, {"rule": "C02", "what": "annotations", "count": 12}, {"rule": "C03", "what": "outputSchema", "count": 1}, {"rule": "C07", "what": "execution", "count": 12}}},
	{"method": "tools/call", "tool": "list_issues", "status": "ok", "by": []string{"transform"}, "bytes": []int{186_000, 1903}, "tokens": []int{39_891, 385}, "server": 238.0},
	{"method": "tools/call", "tool": "book_flight", "status": "asking", "bytes": []int{0, 0}, "server": 4210.0, "client": "claude"},
	{"method": "tools/call", "tool": "write_file", "status": "tool_error", "bytes": []int{412, 412}, "server": 12.2},
	{"method": "tools/call", "tool": "search_code", "status": "ok", "rules": []string{"C04"}, "bytes": []int{9200, 9380}, "tokens": []int{2210, 2254}, "server": 96.0},
	{"method": "ping", "status": "local", "bytes": []int{36, 36}, "server": 0.0, "client": "claude"},
	{"method": "resources/read", "subject": "file:///home/ada/projects/atlas/README.md", "status": "ok", "bytes": []int{48_211, 48_211}, "tokens": []int{12_040, 12_040}, "server": 31.0},
	{"method": "notifications/progress", "kind": "server", "status": "ok", "bytes": []int{98, 98}, "server": 0.0},
	{"method": "tools/call", "tool": "create_pull_request", "status": "failed", "cause": "timeout_first_byte", "error": "the server did not answer within 60 s", "code": -32603, "bytes": []int{0, 131}, "server": 60_000.0, "client": "claude"},
	{"method": "prompts/list", "status": "ok", "rules": []string{"C01", "C05"}, "bytes": []int{1450, 1102}, "server": 1.4},
	{"method": "tools/call", "tool": "get_weather", "status": "ok", "by": []string{"cache"}, "bytes": []int{642, 642}, "tokens": []int{160, 160}, "server": 0.0},
	{"method": "tools/call", "tool": "run_query", "status": "ok", "bytes": []int{22_410, 4020}, "tokens": []int{6120, 1000}, "by": []string{"transform"}, "server": 612.0},
}

func madeUpRow(n int, at time.Time) object {
	k := kinds[(n*7+3)%len(kinds)]
	if n%500 == 10 {
		k = kinds[0]
	}
	if n%500 == 9 {
		k = kinds[1]
	}
	if n == 10_000 {
		k = kinds[0]
	}
	if n == 9999 {
		k = kinds[1]
	}
	r := object{"n": n, "at": at.UTC().Format("2006-01-02T15:04:05.000Z07:00"), "kind": "request", "id": strconv.Itoa(n), "messages": 4}
	peer := cursor
	if k["client"] != nil {
		peer = claude
	}
	for _, m := range []string{"session", "client", "client_rev", "server", "server_rev", "transport"} {
		r[m] = peer[m]
	}
	for m, v := range k {
		switch m {
		case "client", "server":
		case "bytes", "tokens":
			r[m] = object{"before": v.([]int)[0], "after": v.([]int)[1]}
		default:
			r[m] = v
		}
	}
	vary := 1 + 0.4*math.Sin(float64(n))
	r["ms"] = object{"client": 0.1, "proxy": 0.2 + 0.1*vary, "server": k["server"].(float64) * vary}
	return r
}

const gone = "removes a member that the receiver's revision does not have"

// toolsList returns the messages of a list of tools that four rules have changed.
func toolsList(row object) object {
	names := strings.Fields("echo get-sum get-env get-tiny-image get-annotated-message get-structured-content get-resource-links simulate-research-query toggle-logging trigger-long-running-operation trigger-sampling-request gzip-file-as-resource")
	var before, after, changes []any
	add := func(rule, what, change, path, does string) {
		changes = append(changes, object{"rule": rule, "what": what, "change": change, "before": path, "does": does})
	}
	for i, name := range names {
		schema := object{"type": "object", "properties": object{"message": object{"type": "string", "description": "What to say, in the language of the person that asked for it"}}, "required": []string{"message"}}
		old := object{"name": name, "description": "Does what its name says: " + strings.ReplaceAll(name, "-", " ") + ".", "inputSchema": schema}
		after = append(after, old)
		long := object{"name": name, "title": strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "-", " "), "description": old["description"], "inputSchema": schema, "annotations": object{"readOnlyHint": true, "openWorldHint": false}, "execution": object{"taskSupport": "forbidden"}}
		at := fmt.Sprintf("result.tools[%d].", i)
		add("C01", "title", "removed", at+"title", "moves a tool's title to `annotations.title` for 2025-03-26, and removes it for 2024-11-05")
		add("C02", "annotations", "removed", at+"annotations", gone)
		if name == "get-structured-content" {
			long["outputSchema"] = object{"type": "object", "properties": object{"temperature": object{"type": "number"}, "conditions": object{"type": "string"}}}
			add("C03", "outputSchema", "removed", at+"outputSchema", gone)
		}
		add("C07", "execution", "removed", at+"execution", gone)
		before = append(before, long)
	}
	ask := object{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": object{}}
	tell := func(tools []any) object { return object{"jsonrpc": "2.0", "id": 7, "result": object{"tools": tools}} }
	return call(row, ask, tell(before), tell(after), changes, nil)
}

// shortened returns the messages of a call whose result the transformation has cut to a budget.
func shortened(row object) object {
	var long, short []string
	for i := range 60 {
		line := fmt.Sprintf("#%d  open    fix the %s of the %s", 4000+i, []string{"colour", "size", "name", "order"}[i%4], []string{"list", "form", "page"}[i%3])
		long = append(long, line)
		if i < 8 || i > 56 {
			short = append(short, line)
		} else if i == 8 {
			short = append(short, "…9–57")
		}
	}
	ask := object{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": object{"name": "list_issues", "arguments": object{"state": "open"}}}
	tell := func(lines []string) object {
		return object{"jsonrpc": "2.0", "id": 8, "result": object{"content": []any{object{"type": "text", "text": strings.Join(lines, "\n")}}}}
	}
	return call(row, ask, tell(long), tell(short), []any{object{"rule": "transform", "what": "text", "change": "replaced", "before": "result.content[0].text", "after": "result.content[0].text", "does": "cuts the result to a budget of tokens"}},
		[]any{object{"at": row["at"], "ms": 1.5, "by": "transform", "what": "cap", "path": "result.content[0].text", "detail": "kept 11 of 60 lines "}})
}

// call returns a call with its four messages.
func call(row, ask, before, after object, changes, notes []any) object {
	start, _ := time.Parse(time.RFC3339, row["at"].(string))
	message := func(seq int, edge, direction, kind string, payload object, pair int) object {
		data, _ := json.Marshal(payload)
		return object{"seq": seq, "ms": float64(seq) * 0.7, "at": start.Add(time.Duration(seq) * 700 * time.Microsecond).Format("2006-01-02T15:04:05.000Z07:00"), "edge": edge, "direction": direction, "kind": kind, "method": row["method"], "id": row["id"],
			"rev": map[string]string{"client": "2024-11-05", "server": "2025-11-25"}[edge], "size": len(data), "payload": payload, "pair": pair}
	}
	m := []object{message(1, "client", "client-to-server", "request", ask, 2), message(2, "server", "client-to-server", "request", ask, 1), message(3, "server", "server-to-client", "response", before, 4), message(4, "client", "server-to-client", "response", after, 3)}
	m[0]["same"], m[1]["same"] = true, true
	delete(m[1], "payload")
	m[2]["changes"] = changes
	m[0]["headers"] = object{"Content-Type": "application/json", "Mcp-Protocol-Version": "2024-11-05"}
	return object{"row": row, "messages": m, "notes": notes, "curl": "curl -H 'Authorization: Bearer $TOKEN' http://127.0.0.1:8808/mcp", "golden": "{}\n-- want --\n{}"}
}
