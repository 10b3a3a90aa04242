package exchange

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// askServer sends one of dragoman's own requests on the client's session, with the client's
// credentials. params are without the braces; ctx must have a deadline.
func (x *Exchange) askServer(ctx context.Context, method wire.Method, params string) (result []byte, err error) {
	var b [12]byte
	rand.Read(b[:])
	id := []byte(`"dragoman-` + hex.EncodeToString(b[:]) + `"`)
	out := x.Session.Direct.Own(id, method, params, x.From)
	span := telemetry.Ask(x.Span.Within(ctx), out, x.Session.ServerRevision.Name)
	defer func() { span.Done(err) }()
	return x.Session.Ask(ctx, session.NewCall(id, wire.ToolsCall), out, x.replyToServer)
}
