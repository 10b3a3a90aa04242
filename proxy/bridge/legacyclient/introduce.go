package legacyclient

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// noName is the serverInfo of a server that names none.
const noName = `{"name":"unknown-server","version":"0.0.0"}`

// Introduce stores the clientInfo and the capabilities of raw, the client's initialize request, and returns the
// server's DiscoverResult. It keeps no reference to raw. If raw says more than a session keeps, the error is a *mcp.Failure of
// the cause mcp.InitializeBroken, once the server has answered.
func (c *Conn) Introduce(ctx context.Context, raw []byte, header []mcp.Header) ([]byte, error) {
	fit, lost, tooLarge := c.fit(raw)
	if tooLarge != nil { // the client learns it only from a server that is modern
		c.can = []byte("{}")
		if _, err := c.discover(ctx, header); err != nil {
			return nil, err
		}
		return nil, tooLarge
	}
	var m wire.Message
	if err := m.Scan(fit, c.up.Shape()); err != nil {
		return nil, err
	}
	m.Facts = c.facts
	c.name = losses.NameOf(gjson.GetBytes(fit, "params.clientInfo").Raw)
	out, _, err := c.up.Rewrite(nil, &m)
	c.host.Losses.Note(c.lossPeers(c.up), wire.Initialize, append(lost, m.Losses...), header)
	if err != nil {
		return nil, err
	}
	said := gjson.GetManyBytes(out, "params.capabilities", "params.clientInfo")
	c.can = []byte("{}")
	if said[0].IsObject() {
		c.can = []byte(said[0].Raw)
	}
	if said[1].IsObject() {
		c.client = []byte(said[1].Raw)
	}
	if err := c.kept.Keep(len(c.can) + len(c.client)); err != nil {
		return nil, err
	}
	return c.discover(ctx, header)
}

// fit returns a copy of an initialize request; of a large one, what a session keeps of it.
func (c *Conn) fit(raw []byte) (fit []byte, losses []wire.Loss, err error) {
	if len(raw) <= mcp.MaxSelf {
		return slices.Clone(raw), nil, nil
	}
	params := gjson.Get(wire.View(raw), "params")
	self := mcp.Self{Client: wire.Bytes(params.Get("clientInfo").Raw), Capabilities: wire.Bytes(params.Get("capabilities").Raw)}
	if losses, err = self.Fit(mcp.InitializeBroken, [2]string{"params.clientInfo", "params.capabilities"}); err != nil {
		return nil, nil, err
	}
	for _, part := range []*[]byte{&self.Client, &self.Capabilities} {
		if len(*part) == 0 {
			*part = []byte("null")
		}
	}
	return mcp.Initialize("0", c.up.From().Name, self.Capabilities, self.Client), losses, nil
}

// AppendInitializeResult appends to body the response to an initialize request with this id. The response names this
// revision and has the content of result, a DiscoverResult.
func AppendInitializeResult(body, id []byte, revision string, result []byte) []byte {
	said := gjson.GetManyBytes(result, "capabilities", "instructions")
	server := noName
	gjson.GetBytes(result, "_meta").ForEach(func(key, v gjson.Result) bool {
		if key.String() == mcp.MetaServer && v.IsObject() {
			server = v.Raw
		}
		return true
	})
	can := "{}"
	if said[0].IsObject() {
		can = said[0].Raw
	}
	is := wire.AppendQuoted([]byte(`{"protocolVersion":`), revision)
	is = append(append(is, `,"capabilities":`...), can...)
	is = append(append(is, `,"serverInfo":`...), server...)
	if said[1].Type == gjson.String {
		is = append(append(is, `,"instructions":`...), said[1].Raw...)
	}
	return mcp.AppendResult(body, id, append(is, '}'))
}

// InitializeResult returns the response to an initialize request with this id. result is the server's DiscoverResult.
// facts are the session's facts about client and server from now on.
func (c *Conn) InitializeResult(id, result []byte, header []mcp.Header) (answer []byte, facts wire.Facts, err error) {
	can := gjson.GetBytes(result, "capabilities")
	if can.Get("logging").IsObject() {
		c.facts |= wire.ServerLogging
	}
	if mcp.Declares(can, "tools") {
		c.facts |= wire.ServerTools
	}
	if c.tasks.bridged && mcp.DeclaresTasks(can) {
		c.facts |= wire.ServerTasks
	}
	client := c.up.From()
	var m wire.Message
	if err := m.Scan(AppendInitializeResult(nil, id, client.Name, result), c.down.Shape()); err != nil {
		return nil, c.facts, err
	}
	m.Method, m.Facts = wire.Initialize, c.facts
	out, _, err := c.down.Rewrite(nil, &m)
	c.host.Losses.Note(c.lossPeers(c.down), wire.Initialize, m.Losses, header)
	if err == nil && gjson.GetBytes(out, "result.protocolVersion").String() != client.Name {
		out, err = sjson.SetBytes(out, "result.protocolVersion", client.Name)
	}
	return out, c.facts, err
}
