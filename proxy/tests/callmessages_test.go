package tests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// chattyTool returns a server whose tool reports progress, and logs, as often as its argument says. Then it answers, or, with the
// argument crash, ends all its connections.
func chattyTool(t *testing.T, over peertest.Over, revision string) *peertest.Server {
	var s *peertest.Server
	modern := translate.Lookup(revision).Modern
	s = peertest.NewServer(t, over, func(u *peertest.Turn) {
		token, times := gjson.Get(u.Text, "params._meta.progressToken").Raw, int(gjson.Get(u.Text, "params.arguments.times").Int())
		switch {
		case u.ID == "":
		case u.Method == "initialize" && !modern:
			if over == peertest.HTTP {
				u.Open()
			}
			u.Answer(200, result(u.ID, helloOf(revision, `{"tools":{},"logging":{}}`)))
		case u.Method == "server/discover" && modern:
			u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["`+revision+`"],"capabilities":{"tools":{},"logging":{}},"ttlMs":0,"cacheScope":"private",`+identity))
		case u.Method == "logging/setLevel" && !modern:
			u.Answer(200, result(u.ID, ""))
		case u.Method == "tools/list":
			u.Answer(200, result(u.ID, map[bool]string{true: `"resultType":"complete","ttlMs":0,"cacheScope":"private",`}[modern]+`"tools":[{"name":"t","inputSchema":{"type":"object"}}]`))
		case u.Method == "tools/call":
			for n := range times {
				u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n))
				u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%d}}`, logOf(int(gjson.Get(u.Text, "params.arguments.call").Int()), n)))
			}
			if gjson.Get(u.Text, "params.arguments.crash").Bool() {
				if s.Crash(); over == peertest.HTTP {
					s.Cut()
				}
				return
			}
			u.Say(result(u.ID, map[bool]string{true: `"resultType":"complete",`}[modern]+`"content":[]`))
		default:
			u.Answer(map[bool]int{false: 200, true: 404}[over == peertest.HTTP], rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
		}
	})
	s.Sessions = !modern || over != peertest.HTTP
	return s
}

// logOf returns the data of a log message of a call.
func logOf(call, n int) int { return 1000*call + n }

// TestEachMessageOfACallArrivesOnce: progress notifications in order, log messages in order, and then the response. If the server is lost
// during the call, the client gets the first of them, and an error.
func TestEachMessageOfACallArrivesOnce(t *testing.T) {
	type peer struct {
		revision string
		over     peertest.Over
	}
	const times = 60
	for _, to := range []peer{{"2024-11-05", peertest.SSE}, {"2024-11-05", peertest.Stdio}, {"2025-06-18", peertest.HTTP}, {"2025-11-25", peertest.Stdio}, {"2026-07-28", peertest.HTTP}, {"2026-07-28", peertest.Stdio}} {
		for _, from := range []peer{{"2024-11-05", peertest.HTTP}, {"2024-11-05", peertest.Stdio}, {"2025-11-25", peertest.HTTP}, {"2026-07-28", peertest.HTTP}, {"2026-07-28", peertest.Stdio}} {
			inBubble(t, fmt.Sprintf("%s over %s at %s over %s", from.revision, from.over, to.revision, to.over), func(t *testing.T) {
				s := chattyTool(t, to.over, to.revision)
				p := through(t, s.At(), func(cfg *config.Config) { cfg.Upstream.Restart.Wait = time.Millisecond })
				c := callsThrough(t, p.client(t, from.over == peertest.Stdio), from.revision)
				for id, crash := range []bool{false, true, false} {
					answer, progress, logs := c.call(t, id+10, times, crash)
					if failed := strings.Contains(answer, `"error"`); failed != crash {
						t.Fatalf("call %d: %s", id, answer)
					}
					if !crash && (progress != times || logs != times) {
						t.Fatalf("call %d: %d progress notifications and %d log messages of %d", id, progress, logs, times)
					}
				}
			})
		}
	}
}

// toolUser is a client that calls the tool of chattyTool.
type toolUser struct {
	*peertest.Client
	modern bool
	news   *peertest.Reply // what belongs to no call; nil if that comes with the call
}

func callsThrough(t *testing.T, client *peertest.Client, revision string) *toolUser {
	t.Helper()
	c := &toolUser{Client: client, modern: translate.Lookup(revision).Modern}
	if c.modern {
		return c
	}
	client.Initialize(revision, `{}`)
	if !client.Piped() {
		c.news = client.Listen()
		<-c.news.Begun
	}
	if m := client.Say(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`).Next(); !gjson.Get(m, "result").Exists() {
		t.Fatal(m)
	}
	return c
}

// call makes one call, and returns its response and how many notifications came.
func (c *toolUser) call(t *testing.T, id, times int, crash bool) (answer string, progress, logs int) {
	t.Helper()
	about := fmt.Sprintf(`"name":"t","arguments":{"call":%d,"times":%d,"crash":%t},`, id, times, crash)
	more := fmt.Sprintf(`"_meta":{"progressToken":%d}`, id)
	if c.modern {
		more = meta(`{}`, fmt.Sprintf(`"progressToken":%d`, id), `"io.modelcontextprotocol/logLevel":"debug"`)
	}
	hears := c.Say(modernRequestOf(fmt.Sprint(id), "tools/call", about+more)).Events
	var news chan string
	if c.news != nil {
		news = c.news.Events
	}
	hear := func(m string) {
		switch is := gjson.GetMany(m, "method", "params.progress", "params.data", "params.progressToken"); is[0].String() {
		case "notifications/progress":
			if int(is[1].Int()) != progress || int(is[3].Int()) != id {
				t.Fatalf("after progress %d of call %d: %s", progress-1, id, m)
			}
			progress++
		case "notifications/message":
			switch n := int(is[2].Int()); {
			case is[2].Type != gjson.Number: // dragoman's own
			case n < logOf(id, 0): // of a call that has failed
			case n != logOf(id, logs):
				t.Fatalf("after log message %d of call %d: %s", logs-1, id, m)
			default:
				logs++
			}
		}
	}
	for {
		select {
		case m, ok := <-news:
			if news = c.news.Events; !ok {
				news = nil // it ends with the session
			}
			hear(m)
		case m := <-hears:
			if gjson.Get(m, "id").Exists() && !gjson.Get(m, "method").Exists() {
				for !crash && logs < times && news != nil { // they may come on another stream
					select {
					case m := <-news:
						hear(m)
					case <-time.After(patience):
						t.Fatalf("%d log messages of %d", logs, times)
					}
				}
				return m, progress, logs
			}
			hear(m)
		case <-time.After(patience):
			t.Fatalf("call %d is not answered after %d progress notifications", id, progress)
		}
	}
}
