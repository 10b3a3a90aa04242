package legacyclient

import (
	"context"
	"errors"
	"strconv"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ownRequest is a request of dragoman's own.
type ownRequest struct {
	method wire.Method
	params string // the content of the object, without the braces
	target string // the value of Mcp-Name; "" for none
	can    []byte // the clientCapabilities that it declares
}

// discover sends server/discover. The result is the caller's. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (c *Conn) discover(ctx context.Context, header []mcp.Header) ([]byte, error) {
	result, err := c.inquire(ctx, wire.ServerDiscover, "", header)
	if f, ok := errors.AsType[*mcp.Failure](err); ok && f.Code == mcp.CodeUnsupportedVersion {
		if modern, _, _ := era.Named(gjson.GetBytes(f.Data, "supported")); modern != nil { // it names the revision that it has just refused: try again
			result, err = c.inquire(ctx, wire.ServerDiscover, "", header)
		}
	}
	if err != nil {
		return nil, err
	}
	offers := gjson.GetBytes(result, "capabilities")
	c.mu.Lock()
	defer c.mu.Unlock()
	said := []byte("{}")
	if offers.IsObject() {
		said = []byte(offers.Raw)
	}
	c.kept.Drop(len(c.offered))
	if c.offered = nil; c.life.Err() == nil {
		if err := c.kept.Keep(len(said)); err != nil {
			return nil, err
		}
		c.offered = said
	}
	return result, nil
}

// offers returns the server's capabilities.
func (c *Conn) offers(ctx context.Context, header []mcp.Header) ([]byte, error) {
	c.mu.Lock()
	offers := c.offered
	c.mu.Unlock()
	if offers != nil {
		return offers, nil
	}
	result, err := c.discover(ctx, header)
	if err != nil {
		return nil, err
	}
	return []byte(gjson.GetBytes(result, "capabilities").Raw), nil
}

// mustOffer returns an error if the server lacks the capability that method needs.
func (c *Conn) mustOffer(ctx context.Context, capability string, method wire.Method, header []mcp.Header) error {
	offers, err := c.offers(ctx, header)
	if err != nil {
		return err
	}
	switch v := gjson.GetBytes(offers, capability); v.Type {
	case gjson.Null, gjson.False:
		return mcp.Saying(mcp.CodeMethodNotFound, "Method not found: "+method.String())
	}
	return nil
}

// isModern asks the server again whether it needs no session.
func (c *Conn) isModern(ctx context.Context, header []mcp.Header) (bool, error) {
	if c.reach != ByHTTP { // a process is asked itself
		_, err := c.discover(ctx, header)
		return err == nil, err
	}
	return c.bridge.eras.Recheck(ctx, header)
}

// inquire sends a request of dragoman's own. params is the content of the object, without the braces. The result is
// the caller's.
func (c *Conn) inquire(ctx context.Context, method wire.Method, params string, header []mcp.Header) ([]byte, error) {
	return c.inquireAs(ctx, ownRequest{method: method, params: params, can: c.can}, header)
}

func (c *Conn) inquireAs(ctx context.Context, q ownRequest, header []mcp.Header) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	id, o, err := c.own(q, header)
	if err != nil {
		return nil, err
	}
	span := telemetry.Ask(ctx, o, c.up.To().Name)
	st, err := c.conn.Send(ctx, o)
	var result []byte
	if err == nil {
		result, err = pipes.Answer(ctx, st, id, nil)
	}
	span.Done(err)
	if refused, ok := errors.AsType[*mcp.ServerError](err); ok {
		return nil, refused.Failure()
	}
	return result, err
}

// own makes a request of dragoman's own.
func (c *Conn) own(q ownRequest, header []mcp.Header) (id []byte, o *upstream.Outgoing, err error) {
	id = c.nextID()
	params := ""
	if q.params != "" {
		params = "{" + q.params + "}"
	}
	var m wire.Message
	if err := m.Scan(mcp.Request(id, q.method, params), c.up.Shape()); err != nil {
		return nil, nil, err
	}
	m.Facts, m.Stamp = c.facts, &wire.Stamp{ClientInfo: c.client, Capabilities: q.can}
	out, _, err := c.up.Rewrite(nil, &m)
	if err != nil {
		return nil, nil, err
	}
	o = &upstream.Outgoing{Body: out, Request: true, Repeats: q.method.Reads(), Header: c.headers(header, q.method.String(), q.target)}
	if q.method == wire.SubscriptionsListen {
		o.FirstByte, o.Silence = 0, crossing.MaxQuiet
	}
	return id, o, nil
}

// headers returns from, the client's headers, and those that describe the request. It returns nil for a pipe.
func (c *Conn) headers(from []mcp.Header, method, target string) []mcp.Header {
	if c.reach == ByOwnProcess {
		return nil
	}
	h := make([]mcp.Header, 0, len(from)+4)
	h = append(append(h, from...), mcp.Header{Name: "Mcp-Method", Value: mcpheader.Encode(method)})
	if target != "" {
		h = append(h, mcp.Header{Name: "Mcp-Name", Value: c.nameHeader(target)})
	}
	return h
}

// nameHeader returns the value of Mcp-Name in the form that the server accepts.
func (c *Conn) nameHeader(target string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rawNames {
		return target
	}
	return mcpheader.Encode(target)
}

func (c *Conn) nextID() []byte { return c.appendNextID(nil) }

// appendNextID appends an id for a request to the server.
func (c *Conn) appendNextID(dst []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return strconv.AppendInt(dst, c.lastID, 10)
}

// sendCancelled cancels a request at a server on a pipe. Over HTTP the end of the stream cancels it.
func (c *Conn) sendCancelled(id []byte) {
	if c.reach != ByOwnProcess {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pipes.NoticeTimeout)
	defer cancel()
	body := mcp.Cancelled(id, "")
	if _, err := c.conn.Send(ctx, &upstream.Outgoing{Body: body}); err != nil {
		c.host.Log.Debug("cannot send a cancellation to the server", zap.Error(err))
	}
}
