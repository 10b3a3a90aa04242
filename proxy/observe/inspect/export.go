package inspect

import (
	"bufio"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
)

// export answers with the calls that the filter q chooses, as a recording.
func (h *Handler) export(c *fasthttp.RequestCtx) {
	filter := observe.ParseFilter(string(c.QueryArgs().Peek("q")))
	c.SetContentType("application/x-ndjson")
	c.Response.Header.Set(fasthttp.HeaderContentDisposition, `attachment; filename="dragoman-`+time.Now().UTC().Format("20060102T150405Z")+`.jsonl"`)
	c.SetBodyStreamWriter(func(w *bufio.Writer) {
		head := recording.Line{Kind: recording.Header, TS: time.Now(), Format: recording.Format, Version: h.o.Export.Version}
		if of := h.o.Export.Configuration; of != nil {
			head.Configuration = of()
		}
		if _, err := w.Write(head.Append(nil)); err != nil {
			return
		}
		lines := h.writing(w)
		h.o.Ring.Each(0, func(row observe.Row, messages []*observe.Message) bool {
			if !h.o.Ring.Matches(filter, &row, messages) {
				return true
			}
			h.o.Ring.Play(row.N, lines)
			return lines.err == nil
		})
	})
}

// writing is a reader that writes what it gets as lines of a recording, until an error.
type writing struct {
	*recording.Encoder
	err error
}

func (h *Handler) writing(w *bufio.Writer) *writing {
	to := &writing{}
	to.Encoder = recording.NewEncoder(func() observe.Redactor { return h.o.Redactor }, func(l *recording.Line) {
		if to.err == nil {
			_, to.err = w.Write(l.Append(nil))
		}
	})
	return to
}
