package exchange

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// askServer sends one of dragoman's own requests on the client's session, with the client's
// credentials. params are without the braces; ctx must have a deadline.
func (x *Exchange) askServer(ctx context.Context, method wire.Method, params string) (result []byte, err error) {
	var b [12]byte
	rand.Read(b[:])
	id := []byte(`"dragoman-` + hex.EncodeToString(b[:]) + `"`)
	c := session.NewCall(id, wire.ToolsCall)
	c.More.Here, c.More.Answers = true, make(chan []byte, 1)
	if err := x.Session.Open.Add(c); err != nil {
		return nil, err
	}
	defer x.Session.Open.End(c)
	out := x.Session.Direct.Own(id, method, params, x.From)
	span := telemetry.Ask(x.Span.Within(ctx), out, x.Session.ServerRevision.Name)
	defer func() { span.Done(err) }()
	end, _ := ctx.Deadline()
	out.FirstByte = time.Until(end)
	out.Silence, out.Ours = out.FirstByte, true
	st, err := x.Session.Conn.Send(ctx, out)
	switch {
	case err != nil:
		return nil, err
	case st != nil:
		return pipes.Answer(ctx, st, id, x.replyToServer)
	}
	select { // a server on a pipe sends the response with all its other messages
	case answer := <-c.More.Answers:
		return pipes.ResultIn(answer)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
