package judge

import (
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// users: a call reaches the server with the token of its own client, or with none if the tokens are dragoman's; and two users share no
// session of the server.
func users(w *world, wrong func(time.Duration, string, ...any)) {
	user, dragomans, shared := map[string]string{}, false, false
	for _, c := range w.script.Clients {
		user[c.Name] = c.User
	}
	for _, line := range w.script.Settings {
		dragomans = dragomans || strings.HasPrefix(line, "auth.tokens:")
		shared = shared || line == "upstream.share_child: true"
	}
	type session struct{ who, id string }
	first := map[session]string{}
	for _, e := range w.all {
		if e.Kind != trace.Received {
			continue
		}
		if (dragomans || e.Who == "api") && e.User != "" {
			wrong(e.At, "%s gets the token of %s, which is not for it, with %s", e.Who, e.User, e.Method)
		}
		c := w.byMark[e.Mark]
		if c == nil {
			continue
		}
		if want := user[c.owner]; e.Who != "api" && e.User != want && !dragomans && w.script.Server.Transport != "stdio" {
			wrong(e.At, "%s came with the token of %q, and is of %q", e.Mark, e.User, want)
		}
		if e.Session == "" || shared {
			continue
		}
		in := session{e.Who, e.Session}
		if other, is := first[in]; is && user[other] != user[c.owner] {
			wrong(e.At, "%s and %s are in one session of the server, and of two users", c.mark, other)
		} else if !is {
			first[in] = c.owner
		}
	}
}
