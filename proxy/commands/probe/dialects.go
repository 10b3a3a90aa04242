package probe

import (
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/dialect"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// dialects adds a warning about tools with schemas in JSON Schema draft-07: published clients whose
// revision assumes 2020-12 refuse them.
func (p *client) dialects(c *ClientReport, vc *translate.Revision) {
	if !vc.Schemas2020 {
		return
	}
	ch := Change{List: "tools", Rule: "C36", What: "schemas in JSON Schema draft-07 become 2020-12", Level: "info"}
	if p.srv.Host().Config().Contract.SchemaDialect == "off" {
		ch.What, ch.Level = "schemas in JSON Schema draft-07, left as they are: some clients refuse such tools", "warn"
	}
	for _, l := range p.lists {
		if l.Method != wire.ToolsList {
			continue
		}
		for _, item := range l.Items {
			if _, n := dialect.Update(mcp.AppendResult(nil, []byte("0"), `{"tools":[`+item+`]}`)); n > 0 {
				ch.Names = append(ch.Names, gjson.Get(item, l.Key).String())
			}
		}
	}
	if ch.Names != nil {
		c.Changes = append(c.Changes, ch)
	}
}
