package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// modernExchange is a request of a modern client and all that follows: notifications, rounds of
// questions with the client's answers, and the response.
type modernExchange struct {
	request string            // method and params without _meta, without the braces
	meta    []string          // further members of _meta
	on      []string          // notifications before the response begins
	asks    []string          // one element for each round: members of inputRequests
	replies map[string]string // by the name of the question
	answer  string            // the members of the response
}

// modernExchanges cover what may happen in a request, as far as both eras can express it.
func modernExchanges() []modernExchange {
	call := func(name string) string {
		return `"method":"tools/call","params":{"name":"` + name + `","arguments":{"a":1.0,"b":null,"ü":"\u00fc"}}`
	}
	const (
		done  = `"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
		token = `"progressToken":"tk"`
		level = `"io.modelcontextprotocol/logLevel":"warning"`
		form  = `{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}`
	)
	return []modernExchange{
		{request: `"method":"tools/list","params":{"cursor":""}`, answer: `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"plain","inputSchema":{"type":"object"}}],"nextCursor":"2"}`},
		{request: call("plain"), answer: done, meta: []string{`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`, `"x/y":{"z":[]}`}},
		{request: call("fails"), answer: `"result":{"resultType":"complete","content":[],"isError":true,"_meta":{"x/y":1}}`},
		{request: call("structured"), answer: `"result":{"resultType":"complete","content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`},
		{request: call("refuses"), answer: `"error":{"code":-32602,"message":"no such tool"}`},
		{request: call("own"), answer: `"error":{"code":-32000,"message":"mine","data":{"k":[1.0]}}`},
		{request: call("progress"), meta: []string{token}, answer: done, on: []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tk","progress":1}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tk","progress":2,"total":2,"message":"m"}}`}},
		{request: call("logs"), meta: []string{level}, answer: done, on: []string{
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"l","data":{"x":[1]}}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"y"}}`}},
		{request: call("form"), answer: done, asks: []string{`"who":` + form}, replies: map[string]string{"who": `{"action":"accept","content":{"n":"Ada"}}`}},
		{request: call("declined"), answer: done, asks: []string{`"who":` + form}, replies: map[string]string{"who": `{"action":"decline"}`}},
		{request: call("url"), answer: done, asks: []string{`"u":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/c","message":"m"}}`}, replies: map[string]string{"u": `{"action":"accept"}`}},
		{request: call("all"), answer: done, meta: []string{token}, asks: []string{
			`"a":{"method":"roots/list","params":{}},"b":` + form + `,"c":{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"q"}}],"maxTokens":5}}`,
			`"d":{"method":"roots/list","params":{}}`,
		}, replies: map[string]string{
			"a": `{"roots":[{"uri":"file:///a"}]}`, "b": `{"action":"cancel"}`, "d": `{"roots":[]}`,
			"c": `{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}`,
		}},
		{request: `"method":"prompts/get","params":{"name":"p"}`, answer: `"result":{"resultType":"complete","messages":[]}`, asks: []string{`"r":{"method":"roots/list","params":{}}`}, replies: map[string]string{"r": `{"roots":[]}`}},
		{request: `"method":"resources/read","params":{"uri":"file:///a"}`, answer: `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[{"uri":"file:///a","text":"x"}]}`},
		{request: `"method":"resources/read","params":{"uri":"file:///gone"}`, answer: `"error":{"code":-32602,"message":"Resource not found","data":{"uri":"file:///gone"}}`},
		{request: `"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":"y"}}`, answer: `"result":{"resultType":"complete","completion":{"values":["yes"]}}`},
		{request: `"method":"x/unknown","params":{"a":[]}`, answer: `"error":{"code":-32601,"message":"Method not found"}`},
		{request: `"method":"x/known","params":{"a":[]}`, answer: `"result":{"resultType":"complete","b":{}}`},
	}
}

// modernPeer is the server for these exchanges.
func modernPeer(t *testing.T, piped bool) *peertest.Server {
	s := script(t, piped, nil)
	s.NoGet = true
	said := map[string]modernExchange{}
	for _, e := range modernExchanges() {
		said[modernKeyOf("{"+e.request+"}")] = e
	}
	s.Script = func(u *peertest.Turn) {
		e, known := said[modernKeyOf(u.Text)]
		switch {
		case u.ID == "":
			return
		case u.Method == "server/discover":
			u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{},"logging":{},"completions":{}},"ttlMs":0,"cacheScope":"private","instructions":"hi",`+identity))
			return
		case !known:
			u.Answer(404, rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
			return
		}
		round := 0
		if state := gjson.Get(u.Text, "params.requestState"); state.Exists() {
			round = int(state.Int())
		}
		if round == 0 {
			token := gjson.Get(u.Text, "params._meta.progressToken").Raw
			for _, m := range e.on {
				if token != "" && strings.Contains(m, "progressToken") {
					m, _ = sjson.SetRaw(m, "params.progressToken", token)
				}
				u.Say(m)
			}
		}
		if round < len(e.asks) {
			u.Say(result(u.ID, fmt.Sprintf(`"resultType":"input_required","inputRequests":{%s},"requestState":"%d"`, e.asks[round], round+1)))
			return
		}
		m := `{"jsonrpc":"2.0","id":` + u.ID + `,` + e.answer + `}`
		if strings.Contains(e.answer, "-32601") && !u.Begun {
			u.Answer(404, m)
			return
		}
		u.Say(m)
	}
	return s
}

// modernKeyOf returns what identifies the request, in each round.
func modernKeyOf(request string) string {
	request, _ = sjson.Delete(request, "params._meta")
	request, _ = sjson.Delete(request, "params.inputResponses")
	request, _ = sjson.Delete(request, "params.requestState")
	var params any
	_ = json.Unmarshal([]byte(gjson.Get(request, "params").Raw), &params)
	text, _ := json.Marshal(params)
	return gjson.Get(request, "method").String() + string(text)
}

// live makes a client play all exchanges, and returns what it received for each: questions without
// their names, which differ.
func live(t *testing.T, client *peertest.Client) (heard [][]string) {
	t.Helper()
	const capabilities = `{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}`
	id := 0
	for _, e := range modernExchanges() {
		var own []string
		more := ""
		for again := true; again; {
			again = false
			id++
			params := strings.TrimPrefix(strings.TrimSuffix(gjson.Get("{"+e.request+"}", "params").Raw, "}"), "{")
			r := client.Say(modernRequestOf(fmt.Sprint(id), gjson.Get("{"+e.request+"}", "method").String(), params+","+more+meta(capabilities, e.meta...)))
			for {
				m := r.Next()
				if gjson.Get(m, "id").Raw != fmt.Sprint(id) {
					own = append(own, m)
					continue
				}
				if gjson.Get(m, "result.resultType").String() != "input_required" {
					own = append(own, fmt.Sprint(r.Code()), withoutIdentity(m))
					break
				}
				again = true
				answers, asked := "", gjson.Get(m, "result.inputRequests").Map()
				names := make([]string, 0, len(asked))
				for name := range asked {
					names = append(names, name)
				}
				slices.Sort(names) // "a" to "d" as well as "elicitation-2"
				var questions []string
				for _, name := range names {
					questions = append(questions, asked[name].Raw)
					if answers != "" {
						answers += ","
					}
					answers += fmt.Sprintf("%q:%s", name, e.replyTo(asked[name]))
				}
				slices.Sort(questions)
				own = append(own, questions...)
				more = `"inputResponses":{` + answers + `},"requestState":` + gjson.Get(m, "result.requestState").Raw + `,`
				break
			}
		}
		for n, m := range own {
			own[n], _ = sjson.Delete(m, "id")
		}
		heard = append(heard, own)
	}
	return heard
}

// replyTo returns the client's answer to a question, whatever its name.
func (e modernExchange) replyTo(question gjson.Result) string {
	for _, round := range e.asks {
		for name, q := range gjson.Parse("{" + round + "}").Map() {
			if q.Get("method").String() == question.Get("method").String() {
				return e.replies[name]
			}
		}
	}
	return "{}"
}

func isCode(m string) bool { return m[0] != '{' }

// withoutIdentity removes the serverInfo from a message.
func withoutIdentity(m string) string {
	m, _ = sjson.Delete(m, `result._meta.io\.modelcontextprotocol/serverInfo`)
	if gjson.Get(m, "result._meta").Raw == "{}" {
		m, _ = sjson.Delete(m, "result._meta")
	}
	return m
}

// TestModernMessagesSurviveTranslationThereAndBack: between two proxies the messages of a modern client
// and server are translated to the newest handshake revision and back. Both ends receive the same
// as without the proxies.
func TestModernMessagesSurviveTranslationThereAndBack(t *testing.T) {
	for _, way := range [][3]bool{{}, {true, true, true}, {false, true, false}, {true, false, true}, {false, false, true}} {
		if testing.Short() && way[0] != way[1] {
			continue
		}
		inBubble(t, fmt.Sprintf("%s-%s-%s", transportName(way[0]), transportName(way[1]), transportName(way[2])), func(t *testing.T) {
			newest := func(cfg *config.Config) { cfg.Upstream.Version = modernOnly }
			at := modernPeer(t, way[2]).At()
			direct := live(t, proxied{web: at, pipe: at}.client(t, way[2]))
			second := through(t, modernPeer(t, way[2]).At(), newest)
			to := second.web
			if way[1] {
				to = second.pipe
			}
			there := live(t, through(t, to, func(cfg *config.Config) { cfg.Upstream.Version = "2025-11-25" }).client(t, way[0]))
			for n, e := range modernExchanges() {
				if way[0] != way[2] { // only one of them has a status
					there[n], direct[n] = slices.DeleteFunc(there[n], isCode), slices.DeleteFunc(direct[n], isCode)
				}
				if !sameAs(there[n], direct[n]) {
					t.Errorf("%s\n said %q\n and  %q", e.request, direct[n], there[n])
				}
			}
		})
	}
}
