package proxy

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

//go:embed testdata/matrix.txt
var matrixText string

// awkward is one numbered case of the matrix: the messages of one side, and the expected messages
// on the other side, literally.
type awkward struct {
	number  int
	title   string
	in, out []string
}

func awkwardCases(t *testing.T) map[int]*awkward {
	t.Helper()
	all := map[int]*awkward{}
	var c *awkward
	for line := range strings.Lines(matrixText) {
		line = strings.TrimSuffix(line, "\n")
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "==":
			number, title, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(number)
			if err != nil || all[n] != nil {
				t.Fatalf("%q", line)
			}
			c = &awkward{number: n, title: title}
			all[n] = c
		case "in":
			c.in = append(c.in, rest)
		case "out":
			c.out = append(c.out, rest)
		}
	}
	return all
}

// TestMatrixCases plays each case over sockets and pipes: client and server send exactly the
// messages of the case and must receive exactly its messages. A case of one translated message may
// be a golden file of package translate instead.
func TestMatrixCases(t *testing.T) {
	all := awkwardCases(t)
	for _, n := range append([]int{16, 17}, sequence(55, 92)...) {
		c := all[n]
		if c == nil {
			t.Errorf("case %d has no text", n)
			continue
		}
		play, ok := bridgeCases[n]
		if !ok {
			golden, err := filepath.Glob(fmt.Sprintf("../translate/testdata/golden/h%02d_*.golden", n))
			if err != nil || len(golden) == 0 {
				t.Errorf("case %d (%s) is played nowhere", n, c.title)
			}
			continue
		}
		for _, client := range []string{"http", "stdio"} {
			for _, server := range []string{"http", "stdio"} {
				if strings.Contains(play.not, client+" to") || strings.Contains(play.not, "to "+server) || testing.Short() && server == "stdio" {
					continue
				}
				runTogether(t, fmt.Sprintf("%d %s to %s", n, client, server), func(t *testing.T) {
					play.do(&staged{T: t, awkward: c, client: client == "stdio", server: server == "stdio", bound: map[string]string{}})
				})
			}
		}
	}
}

// TestMatrixCasesAreWordForWord: the cases are literally those of the matrix page.
func TestMatrixCasesAreWordForWord(t *testing.T) {
	page, err := os.ReadFile("../../shared/design/protocol-matrix.md")
	if err != nil {
		t.Skip("the matrix is not here")
	}
	for n, c := range awkwardCases(t) {
		_, rest, ok := strings.Cut(string(page), fmt.Sprintf("\n**%d. ", n))
		if !ok {
			t.Errorf("no case %d", n)
			continue
		}
		rest, _, _ = strings.Cut(rest, "\n**")
		var in, out []string
		for _, m := range regexp.MustCompile("(?m)^- (in|out) `({.*})`$").FindAllStringSubmatch(rest, -1) {
			if m[1] == "in" {
				in = append(in, m[2])
			} else {
				out = append(out, m[2])
			}
		}
		if !reflect.DeepEqual(in, c.in) || !reflect.DeepEqual(out, c.out) {
			t.Errorf("case %d reads\n in %q\nout %q", n, in, out)
		}
	}
}

func sequence(from, to int) (list []int) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// staged is a case that is being played.
type staged struct {
	*testing.T
	*awkward
	client, server bool // whether each is on a pipe
	bound          map[string]string
}

// blank matches the placeholders in a case, for values of which only the form is known.
var blank = regexp.MustCompile(`^<(opaque|opaque-2|uuid)>$`)

var blankShapes = map[string]*regexp.Regexp{
	"<opaque>":   regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`),
	"<opaque-2>": regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`),
	"<uuid>":     regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
}

// same compares a message with that of the case, by value. A placeholder takes its value the first
// time.
func (c *staged) same(got, want string) {
	c.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		c.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil || !c.equal(g, w) {
		c.Errorf("\n got  %s\n want %s", got, want)
	}
}

func (c *staged) equal(got, want any) bool {
	switch w := want.(type) {
	case string:
		g, ok := got.(string)
		if !ok || !blank.MatchString(w) {
			return ok && g == w
		}
		if c.bound[w] == "" && blankShapes[w].MatchString(g) {
			c.bound[w] = g
		}
		return c.bound[w] == g
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for name, v := range w {
			if at, ok := g[name]; !ok || !c.equal(at, v) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !c.equal(g[i], w[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

// filled returns a message of the case with the placeholders replaced by their values.
func (c *staged) filled(text string) string {
	for name, is := range c.bound {
		text = strings.ReplaceAll(text, name, is)
	}
	return text
}

// legacy is a server with sessions, of the newest handshake revision.
func (c *staged) legacy(capabilities string, rest func(*peertest.Turn)) *peertest.Server {
	s := script(c.T, c.server, func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"s","version":"2"},"instructions":"hi"}}`)
		case u.Method == "server/discover":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
		case rest != nil && u.ID != "" && u.Method != "":
			rest(u)
		}
	})
	s.SessionID = "session-1"
	return s
}

// modern is a server without sessions.
func (c *staged) modern(discovered string, rest func(*peertest.Turn)) *peertest.Server {
	return c.sessionless(func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(404, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found: initialize"}}`)
		case "server/discover":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",`+discovered+`}}`)
		case "tools/list":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}}`)
		default:
			if rest != nil && u.ID != "" && u.Method != "" {
				rest(u)
			}
		}
	})
}

// sessionless is a server that has no standing stream.
func (c *staged) sessionless(do func(*peertest.Turn)) *peertest.Server {
	s := script(c.T, c.server, do)
	s.NoGet = true
	return s
}

// stage starts a proxy and a client in front of a server.
func (c *staged) stage(s *peertest.Server, change ...func(*config.Config)) (*peertest.Client, proxied) {
	c.Helper()
	p := through(c.T, s.At(), change...)
	return p.client(c.T, c.client), p
}

// numbered returns a message of the server with the id that the call has in this run.
func numbered(text, id string) string {
	return strings.Replace(text, `"id":`+gjson.Get(text, "id").Raw, `"id":`+id, 1)
}

// asCall returns a tools/call of a modern client.
func asCall(id, capabilities, more string) string {
	return modernRequestOf(id, "tools/call", `"name":"t","arguments":{},`+more+meta(capabilities))
}

const complete = `"result":{"content":[],"resultType":"complete",` + identity + `}`

// bridgeCase plays a case; not lists the transports on which it cannot occur.
type bridgeCase struct {
	not string
	do  func(*staged)
}

var bridgeCases = map[int]bridgeCase{
	16: {do: func(c *staged) { c.answered("2025-11-25", `"method":"tools/call","params":{"name":"t"}`, 200) }},
	17: {do: func(c *staged) { c.listed("2025-11-25") }},

	55: {do: func(c *staged) {
		s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) { u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"tools":[]}}`) })
		client, _ := c.stage(s)
		client.Say(c.in[0]).Next()
		m := s.Gets(1, "tools/list")
		want := c.out[0]
		if c.server { // on a pipe, the proxy makes ids and tokens
			id := gjson.Get(m.Text, "id").Raw
			want = strings.Replace(numbered(want, id), `"progressToken":"p2"`, `"progressToken":`+id, 1)
		}
		c.same(m.Text, want)
		if !c.server && m.Header.Get("MCP-Protocol-Version") != "2025-11-25" {
			c.Errorf("%v", m.Header)
		}
		if len(m.Header.Values("Mcp-Method"))+len(m.Header.Values("Mcp-Name")) > 0 {
			c.Errorf("a server with sessions got %v", m.Header)
		}
	}},
	56: {do: func(c *staged) {
		s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) { u.Answer(200, numbered(c.in[0], u.ID)) })
		client, _ := c.stage(s)
		c.same(client.Say(modernRequestOf(`"x"`, "tools/list", meta(`{}`))).Next(), c.out[0])
	}},
	57: {do: func(c *staged) {
		client, _ := c.stage(c.legacy(`{"tools":{"listChanged":true},"tasks":{"list":{}}}`, nil))
		r := client.Say(c.in[0])
		c.same(r.Next(), c.out[0])
		r.HasStatus(200)
	}},
	58: {do: func(c *staged) {
		client, _ := c.stage(c.asks(c.in[0]))
		r := client.Say(asCall("7", `{"elicitation":{}}`, ""))
		c.same(r.Next(), c.out[0])
		r.HasStatus(200)
	}},
	59: {do: func(c *staged) {
		s := c.asks(awkwardCases(c.T)[58].in[0])
		client, _ := c.stage(s)
		c.bind(client.Say(asCall("7", `{"elicitation":{}}`, "")).Next())
		before := len(s.Heard())
		r := client.Say(c.filled(c.in[0]))
		c.same(s.GetsResponse(`"s1"`).Text, c.out[0])
		c.same(r.Next(), `{"jsonrpc":"2.0","id":8,`+complete+`}`)
		if got := s.Heard()[before:]; len(got) != 1 {
			c.Errorf("the server got %q", got)
		}
	}},
	60: {do: func(c *staged) {
		s := c.asks(awkwardCases(c.T)[58].in[0])
		client, _ := c.stage(s)
		c.bind(client.Say(asCall("7", `{"elicitation":{}}`, "")).Next())
		refused := func(what, body string, header ...string) {
			r := client.Say(body, header...)
			c.same(r.Next(), c.out[0])
			r.HasStatus(200)
		}
		refused("tampered", c.filled(c.in[0]))
		good := strings.Replace(c.filled(c.in[0]), c.bound["<opaque>"]+"-x", c.bound["<opaque>"], 1)
		refused("other arguments", strings.Replace(good, `"arguments":{}`, `"arguments":{"a":1}`, 1))
		refused("another method", strings.Replace(good, "tools/call", "prompts/get", 1))
		if !c.client {
			refused("another principal", good, "Authorization", "Bearer other")
		}
		if n := s.Count("tools/call"); n != 1 {
			c.Errorf("%d calls", n)
		}
	}},
	61: {do: func(c *staged) {
		c.questionAnsweredHere(`{"elicitation":{}}`, `"s9"`)
		s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
			u.Say(c.in[0])
			u.Say(rpcError(u.ID, `"code":-32601,"message":`+quote(gjson.Get(s9(u), "error.message").String())))
		})
		client, _ := c.stage(s)
		r := client.Say(asCall("7", `{"elicitation":{}}`, ""))
		c.same(r.Next(), `{"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"sampling":{}}}}}`)
		r.HasStatus(400)
	}},
	62: {do: func(c *staged) { c.questionAnsweredHere(`{}`, `"z"`) }},
	63: {do: func(c *staged) {
		client := c.fails(3, "tools/call")
		r := client.Say(asCall("7", `{"elicitation":{"url":{}}}`, ""))
		c.same(r.Next(), c.out[0])
		r.HasStatus(200)
	}},
	64: {do: func(c *staged) {
		client := c.fails(3, "tools/call")
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`} {
			r := client.Say(asCall("7", capabilities, ""))
			c.same(r.Next(), c.out[0])
			r.HasStatus(400)
		}
	}},
	65: {do: func(c *staged) {
		client := c.fails(4, "resources/read")
		r := client.Say(modernRequestOf(`"r"`, "resources/read", `"uri":"file:///gone",`+meta(`{}`)))
		c.same(r.Next(), c.out[0])
		r.HasStatus(200)
	}},
	66: {do: func(c *staged) {
		client, _ := c.stage(c.legacy(`{"tools":{},"logging":{}}`, func(u *peertest.Turn) { u.Say(c.in[0], `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"content":[]}}`) }))
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
			c.same(client.Say(asCall("7", capabilities, "")).Next(), `{"jsonrpc":"2.0","id":7,`+complete+`}`)
		}
	}},
	67: {do: func(c *staged) { c.listens() }},
	68: {do: func(c *staged) {
		s, r := c.listens()
		s.Unasked(c.in[0])
		c.same(r.Next(), c.out[0])
	}},
	69: {not: "stdio to", do: func(c *staged) { c.refused(400, "MCP-Protocol-Version", "2026-07-28") }},
	70: {not: "stdio to", do: func(c *staged) { c.refused(400, "Mcp-Name", "foo") }},
	71: {do: func(c *staged) { c.refused(400, "MCP-Protocol-Version", "v999.0.0") }},
	72: {do: func(c *staged) { c.refused(404) }},

	73: {do: func(c *staged) {
		s := c.modern(`"capabilities":{"tools":{}}`, nil)
		client, _ := c.stage(s)
		client.Say(c.in[0]).Next()
		m := s.Gets(1, "server/discover")
		c.same(m.Text, c.out[0])
		if !c.server && (m.Header.Get("Mcp-Method") != "server/discover" || m.Header.Get("MCP-Protocol-Version") != "2026-07-28") {
			c.Errorf("%v", m.Header)
		}
	}},
	74: {do: func(c *staged) {
		s := c.sessionless(func(u *peertest.Turn) {
			if u.Method == "server/discover" {
				u.Answer(200, numbered(c.in[0], u.ID))
			} else if u.ID != "" {
				u.Answer(404, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
			}
		})
		client, _ := c.stage(s)
		c.same(client.InitializeAs(awkwardCases(c.T)[73].in[0]), c.out[0])
		if !c.client && client.Session == "" {
			c.Error("no session id")
		}
	}},
	75: {do: func(c *staged) {
		s := c.sessionless(func(u *peertest.Turn) {
			switch {
			case u.Method == "initialize":
				u.Answer(404, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
			case u.Method == "server/discover":
				u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":0,"cacheScope":"private"}}`)
			case u.Method == "tools/list":
				u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`+annotatedTool+`]}}`)
			case u.ID != "":
				u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","content":[]}}`)
			}
		})
		client, _ := c.stage(s)
		client.Initialize("2025-03-26", `{"roots":{"listChanged":true},"sampling":{}}`)
		c.same(client.Say(c.in[0]).Next(), `{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`)
		m := s.Gets(1, "tools/call")
		c.same(m.Text, c.out[0])
		if c.server {
			return
		}
		for name, want := range map[string]string{
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=",
			"Mcp-Param-Region": "eu", "Mcp-Param-N": "42", "Mcp-Param-Note": "", "Mcp-Session-Id": "",
		} {
			if got := m.Header.Get(name); got != want {
				c.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}},
	76: {do: func(c *staged) { c.asksLegacy() }},
	77: {do: func(c *staged) {
		s, client, r := c.asksLegacy()
		client.Say(c.in[0])
		retry := s.Gets(2, "tools/call")
		first := s.Gets(1, "tools/call")
		id := gjson.Get(retry.Text, "id").Raw
		if id == gjson.Get(first.Text, "id").Raw {
			c.Errorf("the id is not fresh: %s", retry.Text)
		}
		c.same(retry.Text, numbered(c.out[0], id))
		if got := gjson.Get(retry.Text, "params.requestState").Raw; got != `"S1"` {
			c.Errorf("requestState %s", got)
		}
		c.same(r.Next(), c.filled(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"<uuid>"}}`))
		c.same(r.Next(), `{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`)
	}},
	78: {do: func(c *staged) {
		s := c.modern(`"capabilities":{"tools":{}}`, func(u *peertest.Turn) {
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"input_required","inputRequests":{"e":{"method":"roots/list"},"s":{"method":"sampling/createMessage","params":{"maxTokens":1,"messages":[]}}},"requestState":"S"}}`)
		})
		client, _ := c.stage(s)
		client.Initialize("2025-11-25", `{"roots":{},"sampling":{}}`)
		r := client.Say(toolCalled("5"))
		for _, id := range []string{"p-1", "p-2"} {
			if q := r.Next(); gjson.Get(q, "id").String() != id {
				c.Fatal(q)
			}
		}
		client.Say(c.in[0])
		c.same(r.Next(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"p-1"}}`)
		c.same(r.Next(), c.out[0])
		if n := s.Count("tools/call"); n != 1 {
			c.Errorf("%d calls", n)
		}
	}},
	79: {do: func(c *staged) {
		var at []time.Time
		s := c.modern(`"capabilities":{"prompts":{}}`, func(u *peertest.Turn) {
			at = append(at, time.Now())
			u.Answer(200, numbered(c.in[0], u.ID))
		})
		client, _ := c.stage(s)
		client.Initialize("2025-11-25", `{}`)
		c.same(client.Say(`{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`).Next(), c.out[0])
		ids := map[string]bool{}
		for n := 1; n <= 4; n++ {
			m := s.Gets(n, "prompts/get").Text
			ids[gjson.Get(m, "id").Raw] = true
			if state := gjson.Get(m, "params.requestState").Raw; gjson.Get(m, "params.inputResponses").Exists() || (state == `"S"`) != (n > 1) {
				c.Error(m)
			}
		}
		if len(ids) != 4 || s.Count("prompts/get") != 4 {
			c.Errorf("%d requests under %d ids", s.Count("prompts/get"), len(ids))
		}
		for n, least := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
			if got := at[n+1].Sub(at[n]); got < least {
				c.Errorf("again after %v", got)
			}
		}
	}},
	80: {do: func(c *staged) { c.answered("2025-11-25", `"method":"tools/call","params":{"name":"t"}`, 200) }},
	81: {do: func(c *staged) { c.answered("2025-06-18", `"method":"resources/list"`, 200) }},
	82: {do: func(c *staged) { c.answered("2025-11-25", `"method":"x/y"`, 404) }},
	83: {do: func(c *staged) {
		c.answered("2025-11-25", `"method":"resources/read","params":{"uri":"u:x"}`, 200)
		c.answered("2025-11-25", `"method":"resources/read","params":{"uri":"u:x"}`, 400)
	}},
	84: {do: func(c *staged) {
		s := c.modern(`"capabilities":{"logging":{}}`, func(u *peertest.Turn) {
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","prompts":[]}}`)
		})
		client, _ := c.stage(s)
		client.Initialize("2025-11-25", `{}`)
		before := len(s.Heard())
		c.same(client.Say(c.in[0]).Next(), c.out[0])
		if got := s.Heard()[before:]; len(got) > 0 && c.client == false {
			c.Errorf("the server got %q", got)
		}
		client.Say(`{"jsonrpc":"2.0","id":7,"method":"prompts/list"}`).Next()
		if m := s.Gets(1, "prompts/list"); gjson.Get(m.Text, `params._meta.io\.modelcontextprotocol/logLevel`).Raw != `"debug"` {
			c.Error(m.Text)
		}
	}},
	85: {do: func(c *staged) {
		client, _ := c.stage(c.modern(`"capabilities":{"logging":{}}`, nil))
		client.Initialize("2025-11-25", `{}`)
		r := client.Say(c.in[0])
		c.same(r.Next(), c.out[0])
		r.HasStatus(200)
	}},
	86: {do: func(c *staged) {
		client, _ := c.stage(c.modern(`"capabilities":{"resources":{"subscribe":true}}`, func(u *peertest.Turn) {
			u.Say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + u.ID + `},"notifications":{}}}`)
			<-u.Ctx.Done()
		}))
		client.Initialize("2025-11-25", `{}`)
		r := client.Say(c.in[0])
		c.same(r.Next(), c.out[0])
		r.HasStatus(200)
	}},

	87: {do: func(c *staged) {
		s := c.sessionless(func(u *peertest.Turn) {
			switch u.Method {
			case "server/discover":
				u.Answer(400, numbered(c.in[0], u.ID))
			case "initialize":
				u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`)
			case "tools/list":
				u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"tools":[]}}`)
			}
		})
		client, _ := c.stage(s)
		if got := client.Say(modernRequestOf("1", "tools/list", meta(`{}`))).Next(); !gjson.Get(got, "result.tools").IsArray() {
			c.Error(got)
		}
		// The earlier messages were the proxy's own requests on another session: ids count from the
		// handshake.
		m := s.Gets(1, "initialize").Text
		c.same(m, numbered(c.out[0], gjson.Get(m, "id").Raw))
		if s.Count("server/discover") != 1 {
			c.Errorf("%d probes", s.Count("server/discover"))
		}
	}},

	89: {do: func(c *staged) {
		questions := []string{awkwardCases(c.T)[58].in[0], `{"jsonrpc":"2.0","id":"s2","method":"roots/list"}`}
		s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
			u.Say(questions...)
			u.Hears(`"s2"`)
			u.Say(`{"jsonrpc":"2.0","id":` + u.ID + `,"result":{"content":[]}}`)
		})
		client, _ := c.stage(s, func(cfg *config.Config) { cfg.Bridge.Coalesce = time.Second }) // on a busy machine the second question comes late
		const both = `{"elicitation":{},"roots":{}}`
		r := client.Say(asCall("7", both, "")).Next()
		if keys := gjson.Get(r, "result.inputRequests.@keys").Raw; keys != `["elicitation-1","roots-2"]` {
			c.Fatal(r)
		}
		c.bind(r)
		// The case does not say that a client must declare roots to be asked for them.
		in := strings.Replace(c.filled(c.in[0]), `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, `"io.modelcontextprotocol/clientCapabilities":`+both, 1)
		answer := client.Say(in).Next()
		// Published clients cannot read a question without params: the proxy adds empty ones.
		c.same(strings.Replace(answer, `"method":"roots/list","params":{}`, `"method":"roots/list"`, 1), c.out[0])
		c.same(s.GetsResponse(`"s1"`).Text, `{"jsonrpc":"2.0","id":"s1","result":{"action":"decline"}}`)
		last := asCall("11", both, `"inputResponses":{"roots-2":{"roots":[]}},"requestState":"`+c.bound["<opaque-2>"]+`",`)
		c.same(client.Say(last).Next(), `{"jsonrpc":"2.0","id":11,`+complete+`}`)
	}},
	90: {not: "stdio to", do: func(c *staged) {
		s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) { u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"tools":[]}}`) })
		p := through(c.T, s.At())
		p.Modern.Waits.Unattributed = 50 * time.Millisecond
		client := p.client(c.T, false)
		client.Say(modernRequestOf("1", "tools/list", meta(`{"roots":{}}`))).Next()
		l := client.Say(modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{"roots":{}}`)))
		l.Next() // the standing stream is open
		s.Unasked(c.in[0])
		c.same(s.GetsResponse(`"r1"`).Text, c.out[0])
	}},
	91: {not: "stdio to", do: func(c *staged) {
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
			s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) { <-u.Ctx.Done() })
			client, _ := c.stage(s)
			r := client.Say(asCall("7", capabilities, ""))
			id := gjson.Get(s.Gets(1, "tools/call").Text, "id").Raw
			r.Leave()
			want := strings.Replace(c.out[0], `"requestId":101`, `"requestId":`+id, 1)
			c.same(s.Gets(1, "notifications/cancelled").Text, want)
		}
	}},
	92: {not: "stdio to", do: func(c *staged) {
		goes := make(chan struct{})
		ended := make(chan bool, 1)
		s := c.modern(`"capabilities":{"tools":{}}`, func(u *peertest.Turn) {
			select {
			case <-goes:
				ended <- u.Ctx.Err() == nil
			case <-u.Ctx.Done():
				ended <- false
			}
			u.Say(`{"jsonrpc":"2.0","id":` + u.ID + `,"result":{"resultType":"complete","content":[]}}`)
		})
		client, _ := c.stage(s)
		client.Initialize("2025-11-25", `{}`)
		r := client.Say(toolCalled("5"))
		s.Gets(1, "tools/call")
		r.Leave()
		for range r.Events { // until the connection is closed
		}
		c.same(client.Say(`{"jsonrpc":"2.0","id":6,"method":"ping"}`).Next(), `{"jsonrpc":"2.0","id":6,"result":{}}`)
		close(goes)
		if !<-ended || s.Count("notifications/cancelled") > 0 {
			c.Error("the call was given up with its client's stream")
		}
	}},
}

// bind stores the requestState of a response as <opaque>.
func (c *staged) bind(answer string) {
	c.Helper()
	state := gjson.Get(answer, "result.requestState").String()
	if state == "" {
		c.Fatalf("no requestState: %s", answer)
	}
	c.bound["<opaque>"] = state
}

// asks is a server that asks a question in a call, and ends the call when it has the answer.
func (c *staged) asks(question string) *peertest.Server {
	return c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
		u.Say(question)
		u.Hears(gjson.Get(question, "id").Raw)
		u.Say(`{"jsonrpc":"2.0","id":` + u.ID + `,"result":{"content":[]}}`)
	})
}

// questionAnsweredHere makes the server ask a question that the proxy answers without the client.
func (c *staged) questionAnsweredHere(capabilities, id string) {
	s := c.asks(c.in[0])
	client, _ := c.stage(s)
	c.same(client.Say(asCall("7", capabilities, "")).Next(), `{"jsonrpc":"2.0","id":7,`+complete+`}`)
	c.same(s.GetsResponse(id).Text, c.out[0])
}

// fails starts a client in front of a server that answers its n-th message, and each later one of
// that method, with the case's error.
func (c *staged) fails(n int, method string) *peertest.Client {
	s := c.legacy(`{"tools":{},"resources":{}}`, func(u *peertest.Turn) {
		if u.Method != method {
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"tools":[]}}`)
			return
		}
		u.Answer(200, numbered(c.in[0], u.ID))
	})
	client, _ := c.stage(s)
	capabilities := `{"elicitation":{"url":{}}}` // the same session as for the call that fails
	if c.number != 63 {
		capabilities = `{}`
	}
	for range n - 2 { // the first message was initialize
		client.Say(modernRequestOf("1", "tools/list", meta(capabilities))).Next()
	}
	return client
}

// listens begins a subscription as the case of the acknowledgement does.
func (c *staged) listens() (*peertest.Server, *peertest.Reply) {
	c.Helper()
	first := awkwardCases(c.T)[67]
	s := c.legacy(`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, func(u *peertest.Turn) {
		u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{}}`)
	})
	client, _ := c.stage(s)
	r := client.Say(first.in[0])
	c.same(r.Next(), first.out[0])
	r.HasStatus(200)
	if m := s.Gets(1, "resources/subscribe"); gjson.Get(m.Text, "params.uri").String() != "file:///a" {
		c.Error(m.Text)
	}
	return s, r
}

// refused sends the case's message, and expects an error that the proxy made.
func (c *staged) refused(status int, header ...string) {
	c.Helper()
	s := c.legacy(`{"tools":{}}`, nil)
	client, _ := c.stage(s)
	r := client.Say(c.in[0], header...)
	c.same(r.Next(), c.out[0])
	r.HasStatus(status)
	method := gjson.Get(c.in[0], "method").String()
	if s.Count(method) > 0 {
		c.Error("the server was asked")
	}
}

// answered makes a modern server answer a request of a handshake client.
func (c *staged) answered(version, request string, status int) {
	c.Helper()
	s := c.modern(`"capabilities":{"tools":{},"resources":{}}`, func(u *peertest.Turn) { u.Answer(status, numbered(c.in[0], u.ID)) })
	client, _ := c.stage(s)
	client.Initialize(version, `{}`)
	id := gjson.Get(c.out[0], "id").Raw
	r := client.Say(`{"jsonrpc":"2.0","id":` + id + `,` + request + `}`)
	c.same(r.Next(), c.out[0])
	r.HasStatus(200)
}

// listed returns the response to a request for a list of tools.
func (c *staged) listed(version string) {
	c.Helper()
	s := c.sessionless(func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(404, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
		case "server/discover":
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`)
		case "tools/list":
			u.Answer(200, numbered(c.in[0], u.ID))
		}
	})
	client, _ := c.stage(s)
	client.Initialize(version, `{}`)
	c.same(client.Say(`{"jsonrpc":"2.0","id":15,"method":"tools/list"}`).Next(), c.out[0])
}

// asksLegacy makes a handshake client get a request to open a URL.
func (c *staged) asksLegacy() (*peertest.Server, *peertest.Client, *peertest.Reply) {
	c.Helper()
	first := awkwardCases(c.T)[76]
	s := c.modern(`"capabilities":{"tools":{}}`, func(u *peertest.Turn) {
		if gjson.Get(u.Text, "params.inputResponses").Exists() {
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"resultType":"complete","content":[]}}`)
			return
		}
		u.Answer(200, numbered(first.in[0], u.ID))
	})
	client, _ := c.stage(s)
	client.Initialize("2025-11-25", `{"elicitation":{"url":{}}}`)
	r := client.Say(toolCalled("5"))
	c.same(r.Next(), first.out[0])
	r.HasStatus(200)
	if r.Begun != nil && !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		c.Errorf("%v", r.Header)
	}
	return s, client, r
}
