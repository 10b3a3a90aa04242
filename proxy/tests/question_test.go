package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// asker asks the user before it answers.
func asker(name string) *fakeTools {
	own := echoing(name)
	own.do = func(ctx context.Context, c *owntools.Call) string {
		if c.Ask == nil {
			return "nobody to ask"
		}
		agreed, err := c.Ask(ctx, "Really?")
		return fmt.Sprint(agreed, err)
	}
	return own
}

const canBeAsked = `{"elicitation":{}}`

func TestUserIsAskedByAnOwnTool(t *testing.T) {
	f := listing("2024-11-05", nil, nil) // it does not matter that the server cannot ask
	srv := beside(t, f, asker("ours"))
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		for answer, want := range map[string]string{
			`"result":{"action":"accept","content":{}}`:    "true <nil>",
			`"result":{"action":"decline"}`:                "false <nil>",
			`"result":{"action":"cancel"}`:                 "false <nil>",
			`"result":{"action":"what"}`:                   "false " + owntools.ErrNoAnswer.Error(),
			`"error":{"code":-32601,"message":"no forms"}`: "false " + owntools.ErrNoAnswer.Error(),
		} {
			session := srv.initializeWith(version, canBeAsked)
			req, resp := srv.begin(t.Context(), "POST", session, callOurs(9, "ours", `{}`))
			e, err := resp.Stream.Next()
			if err != nil || gjson.GetBytes(e.Data, "method").String() != "elicitation/create" || gjson.GetBytes(e.Data, "params.message").String() != "Really?" {
				t.Fatalf("%s: %s %v", version, e.Data, err)
			}
			id := gjson.GetBytes(e.Data, "id").Raw
			for range 2 { // the second answer is late
				if r := srv.post(session, `{"jsonrpc":"2.0","id":`+id+`,`+answer+`}`); r.status != 202 {
					t.Errorf("answer: %+v", r)
				}
			}
			if r := srv.read(req, resp); len(r.events) != 1 || text(r.events[0]) != want {
				t.Errorf("%s %s: %q, want %s", version, answer, r.events, want)
			}
		}
	}
	for _, m := range f.sent() {
		if strings.Contains(m, "dragoman-ask") {
			t.Errorf("the server got %s", m)
		}
	}
}

func TestUsersOfClientsWithoutElicitationAreNotAsked(t *testing.T) {
	srv := beside(t, listing("2025-06-18", nil, nil), asker("ours"))
	for _, c := range [][2]string{{"2025-06-18", `{}`}, {"2025-03-26", canBeAsked}, {"2024-11-05", canBeAsked}, {"2025-11-25", `{"elicitation":{"url":{}}}`}} {
		session := srv.initializeWith(c[0], c[1])
		if got := text(srv.post(session, callOurs(9, "ours", `{}`)).body); got != "nobody to ask" {
			t.Errorf("%v: %s", c, got)
		}
	}
}

func TestQuestionEndsWithItsCall(t *testing.T) {
	own := asker("ours")
	done := make(chan string, 1)
	ask := own.do
	own.do = func(ctx context.Context, c *owntools.Call) string {
		said := ask(ctx, c)
		done <- said
		return said
	}
	srv := beside(t, listing("2025-06-18", nil, nil), own)
	session := srv.initializeWith("2025-11-25", canBeAsked)
	ctx, leave := context.WithCancelCause(context.Background())
	req, resp := srv.begin(ctx, "POST", session, callOurs(9, "ours", `{}`))
	if _, err := resp.Stream.Next(); err != nil {
		t.Fatal(err)
	}
	leave(downstream.ErrClientLeft)
	srv.read(req, resp)
	if got := <-done; !strings.Contains(got, "disconnected") && !strings.Contains(got, "closed") {
		t.Errorf("ended with %s", got)
	}
	s, _ := srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
	defer s.Leave()
	if !s.Asked.None() {
		t.Error("the question still waits")
	}
}

// TestConfirmationByTheUser: on every transport the user is asked to confirm the call, and no
// client gets a token.
func TestConfirmationByTheUser(t *testing.T) {
	for _, over := range []string{"http", "sse", "stdio"} {
		for _, piped := range []bool{false, true} {
			for _, action := range []string{"accept", "decline", ""} {
				t.Run(fmt.Sprintf("%s, piped %v, %q", over, piped, action), func(t *testing.T) { confirmed(t, over, piped, "auto", action) })
			}
			for _, via := range []string{"token", "elicitation"} {
				t.Run(fmt.Sprintf("%s, piped %v, %s", over, piped, via), func(t *testing.T) {
					confirmed(t, over, piped, via, "")
					confirmed(t, over, piped, via, "accept")
				})
			}
		}
	}
}

func confirmed(t *testing.T, over string, piped bool, via, action string) {
	base, calls, _ := items(t)
	cfg := config.Default()
	cfg.Adapters.Sources = []string{adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", base, adapterOps)})}
	cfg.Adapters.Confirm.Via = via
	f := listing("2025-06-18", nil, nil)
	f.piped = piped
	o := f.origin()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()

	var transport mcp.Transport
	if over == "stdio" {
		srv, err := proxy.NewWith(cfg, zap.NewNop(), o)
		if err != nil {
			t.Fatal(err)
		}
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := srv.ServePipe(ctx, in, out); err != nil {
				t.Error(err)
			}
			out.Close()
		}()
		defer func() {
			toServer.Close()
			<-ended
		}()
		transport = &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	} else {
		_, url := serveAdapters(t, cfg, &o)
		web := &http.Client{Transport: &http.Transport{}}
		defer web.CloseIdleConnections()
		transport = &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: web}
		if over == "sse" {
			transport = &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: web}
		}
	}
	asked := 0
	var options mcp.ClientOptions
	if action != "" {
		options.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			if m := r.Params.Message; !strings.Contains(m, "drop_item") || !strings.Contains(m, `{"id":"7"}`) || strings.Contains(m, "conf_") {
				t.Errorf("asked %q", r.Params.Message)
			}
			return &mcp.ElicitResult{Action: action}, nil
		}
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &options).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_aql_delete", Arguments: map[string]any{"operation": "drop_item", "params": map[string]any{"id": "7"}}})
	if err != nil {
		t.Fatal(err)
	}
	said := res.Content[0].(*mcp.TextContent).Text
	want, sent := map[string]string{"accept": "DELETE /items/7", "decline": "PERMISSION_DENIED", "": "CONFIRMATION_REQUIRED"}[action], calls.Load()
	asks := action != "" && via != "token"
	switch {
	case via == "token":
		want = "CONFIRMATION_REQUIRED"
	case via == "elicitation" && action == "":
		want = "PERMISSION_DENIED"
	}
	if !strings.Contains(said, want) || want != "CONFIRMATION_REQUIRED" && strings.Contains(said, "conf_") {
		t.Errorf("said %s", said)
	}
	if (sent == 1) != (action == "accept" && asks) || (asked == 1) != asks {
		t.Errorf("called %d times, asked %d times", sent, asked)
	}
}
