package inspect

import (
	"bufio"
	"encoding/json"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
)

// ExportHeader is what the first line of an export says.
type ExportHeader struct{ Version, Configuration string }

// export answers with the calls that the filter q chooses, as a recording.
func (h *Handler) export(c *fasthttp.RequestCtx) {
	filter := observe.ParseFilter(string(c.QueryArgs().Peek("q")))
	c.SetContentType("application/x-ndjson")
	c.Response.Header.Set(fasthttp.HeaderContentDisposition, `attachment; filename="dragoman-`+time.Now().UTC().Format("20060102T150405Z")+`.jsonl"`)
	c.SetBodyStreamWriter(func(w *bufio.Writer) {
		head := recording.Line{Kind: recording.Header, TS: time.Now(), Format: recording.Format, Version: h.o.Export.Version, Configuration: h.o.Export.Configuration}
		if _, err := w.Write(head.Append(nil)); err != nil {
			return
		}
		h.o.Ring.Each(func(row observe.Row, messages []*observe.Message) bool {
			if !filter.Match(&row, func(text string) bool { return h.holds(row.Tool, messages, text) }) {
				return true
			}
			d, ok := h.o.Ring.Detail(row.N)
			if !ok {
				return true
			}
			for _, line := range linesOf(&d) {
				if _, err := w.Write(line.Append(nil)); err != nil {
					return false
				}
			}
			return true
		})
	})
}

// holds reports whether a message has text in what is shown of it: nobody can search for a secret.
func (h *Handler) holds(tool string, messages []*observe.Message, text string) bool {
	for _, m := range messages {
		if !m.Unchanged() && strings.Contains(strings.ToLower(string(h.o.Redactor.Payload(m.Method, tool, m.Raw))), text) {
			return true
		}
	}
	return false
}

// linesOf returns the lines of a call.
func linesOf(d *observe.Detail) (lines []recording.Line) {
	payloads := map[uint64]*observe.MessageView{}
	for i := range d.Messages {
		payloads[d.Messages[i].Seq] = &d.Messages[i]
	}
	for i := range d.Messages {
		m := &d.Messages[i]
		at, err := time.Parse(time.RFC3339, m.At)
		if err != nil {
			continue
		}
		l := recording.Line{
			Seq: m.Seq, TS: at, Edge: m.Edge, Direction: m.Direction, Transport: m.Transport, Kind: recording.Message, Rev: m.Revision,
			Session: d.Row.Session, Call: d.Row.N, Method: m.Method, Tool: d.Row.Tool, Payload: m.Payload, Text: m.Text, Headers: m.Headers,
		}
		if m.Cut {
			l.Size, l.SHA256 = m.Size, m.SHA256
		}
		from := payloads[m.Pair]
		if m.Same && l.Payload == nil && from != nil {
			l.Payload, l.Text = from.Payload, from.Text
		}
		if from != nil && len(from.Changes) > 0 && m.Edge == recording.ClientEdge && m.Direction == recording.ServerToClient {
			if changes, err := json.Marshal(from.Changes); err == nil {
				l.Changes = changes
			}
			if ms := d.Row.MS; ms != nil {
				l.Timing = &recording.Timing{Client: ms.Client, Proxy: ms.Proxy, Server: ms.Server}
			}
		}
		lines = append(lines, l)
	}
	return lines
}
