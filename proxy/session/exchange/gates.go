package exchange

import (
	"context"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/features/gate"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// gate asks the gates of a server's tool. refusal is the result for the client if a gate refuses
// the call, and err says that a gate cannot judge it.
func (x *Exchange) gate(m *wire.Message) (refusal []byte, err error) {
	gates := x.Common.Now().Gates
	if len(gates) == 0 || m.Method != wire.ToolsCall || x.OwnCall != nil {
		return nil, nil
	}
	tool, arguments := gjson.Get(wire.View(m.Params()), "name").Str, wire.Member(m.Params(), "arguments")
	ask := func(ctx context.Context, params string) ([]byte, error) {
		return x.askServer(ctx, wire.ToolsCall, params)
	}
	for i := range gates {
		g := &gates[i]
		if g.Tool != tool {
			continue
		}
		if name := g.Twice(arguments); name != "" {
			return nil, mcp.Twice("arguments." + name).About(m.ID())
		}
		verdict, refusal, err := g.Check(x.Ctx, arguments, ask)
		if verdict == gate.None {
			continue
		}
		if restart.IsLost(err) { // the whole call can be made in another session
			return nil, err
		}
		x.Common.Metrics.Gates.WithLabelValues(g.Tool, string(verdict)).Inc()
		if err != nil {
			x.log().Debug("cannot learn from a gate's source what the server supports", zap.String("tool", g.Tool), zap.String("source", g.Source), zap.Error(err))
		}
		if refusal != nil {
			return x.Session.Direct.Complete(refusal), nil
		}
	}
	return nil, nil
}
