package legacyclient

import (
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// passDown translates a notification of the server. It returns nil if the client gets nothing.
func (c *Conn) passDown(m *wire.Message, header []upstream.Header) []byte {
	if m.Kind != wire.Notification {
		c.host.Report.Dropped("request") // servers of this revision have none
		return nil
	}
	if m.Method == wire.ToolsListChanged {
		c.tools.Forget()
	}
	c.bridge.results.Heard(m)
	method := m.Method
	m.Facts = c.facts
	out, v, err := c.down.Rewrite(nil, m)
	c.host.Losses.Note(c.down.From(), c.down.To(), method, m.Losses, header)
	if err != nil {
		c.host.Report.Untranslated(err, header)
		return nil
	}
	if v != wire.Forward {
		return nil
	}
	return out
}

// appendOpened appends to list the notifications that end the URL elicitations with these ids.
func (c *Conn) appendOpened(list, opened [][]byte, header []upstream.Header) [][]byte {
	for _, id := range opened {
		var m wire.Message
		body := mcp.Notification(wire.ElicitationCompleted, `{"elicitationId":`+wire.View(id)+`}`)
		if m.Scan(body, c.down.Shape()) == nil {
			if out := c.passDown(&m, header); out != nil {
				list = append(list, out)
			}
		}
	}
	return list
}

// downResult translates a result of the server to the response to a request of this method.
func (c *Conn) downResult(id []byte, method wire.Method, result []byte, header []upstream.Header) ([]byte, error) {
	var m wire.Message
	if err := m.Scan(mcp.AppendResult(nil, id, result), c.down.Shape()); err != nil {
		return nil, err
	}
	m.Method, m.Facts = method, c.facts
	out, v, err := c.down.Rewrite(nil, &m)
	c.host.Losses.Note(c.down.From(), c.down.To(), method, m.Losses, header)
	if err == nil && v != wire.Forward {
		err = mcp.Saying(mcp.CodeInternal, "Unsupported result of "+method.String())
	}
	return out, err
}
