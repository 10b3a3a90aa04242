package clients

import (
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// WithoutSession is what the page and recordings call the client of a pooled session.
const WithoutSession = "requests without a session"

// NotInitialized returns the error for a request over Streamable HTTP that names no session.
func NotInitialized() *mcp.Failure {
	f := mcp.Uninitialized(mcp.NotInitialized)
	f.Text += "; session.without: open answers requests without a session"
	return f
}

// NeedsSession returns the error for a request that changes what a session is, if it names none; else nil.
func NeedsSession(m *wire.Message) *mcp.Failure {
	switch m.Method {
	case wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		f := mcp.Fail(mcp.MethodUnknown, m.Method.String()+" needs a session: send initialize first")
		f.Status = 200 // 404 would say that a session has ended
		return f.About(m.ID())
	}
	return nil
}
