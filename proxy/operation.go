package proxy

import (
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// toolOf returns the tool that x's request calls, or nil.
func (x *exchange) toolOf(m *wire.Message) *metrics.Tool {
	if m.Method != wire.ToolsCall {
		return nil
	}
	if own := x.srv.Now().OwnFor(&x.sender); x.ownCall != nil && own != nil {
		name := gjson.ParseBytes(m.Name()).Str
		if t, _ := own.Find(name); t.Listed {
			return x.srv.Metrics.Tools.Listed(name)
		}
	}
	return x.srv.Metrics.Tools.Of(m.Name())
}

// failed reports that x's request failed, and returns what its client gets.
func (x *exchange) failed(err error) *mcp.Failure {
	f := x.srv.Host.Report.Failed(err, x.requestInfo())
	x.fault = report.FaultOf(f)
	return f
}
