package adapterrt

import (
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxBatch is the largest number of requests in a batch.
const maxBatch = 50

// batch runs the requests of one body one after the other. After a failure it goes on
// with the next request. It stops at a request that needs a confirmation, when the answer
// grows larger than most bytes, and when the caller leaves. run runs one request.
// grow returns the answer with room for n more bytes.
func (v *view) batch(at Endpoint, req *Request, e *envelope, most int, run func(Endpoint, *Request) Result, grow func(answer []byte, n int) ([]byte, error), r *Result) *failure.Failure {
	if e.operation != nil {
		return failure.InvalidValue("operations", "must not stand beside 'operation'")
	}
	if wire.KindOf(e.batch) != wire.Array {
		return failure.InvalidType("operations", "array", file.TypeOf(e.batch))
	}
	if e.adapter != nil {
		if at.Adapter != "" && at.Adapter != string(e.adapter) {
			return v.unknownAdapter(string(e.adapter))
		}
		at.Adapter = string(e.adapter)
	}
	var items [][]byte
	wire.Each(e.batch, func(_, v []byte) bool {
		items = append(items, v)
		return len(items) <= maxBatch
	})
	if len(items) == 0 || len(items) > maxBatch {
		return failure.InvalidValue("operations", "must hold 1–50 requests")
	}
	out := []byte(`{"success":true,"data":null,"results":[`)
	good, bad, halted := 0, 0, -1
	for i, item := range items {
		inner := *req
		inner.Body, inner.ID, inner.Progress = item, "", nil
		one := run(at, &inner)
		if one.Cancelled {
			return one.Failure
		}
		r.Parts = append(r.Parts, one.Call)
		r.Media = append(r.Media, one.Media...)
		name := batchName(item)
		var err error
		if out, err = grow(out, one.size()+wire.QuotedLen(name)+64); err != nil {
			return lostBatch(r.Parts, failure.NoRoom(err))
		}
		out = wire.Comma(out)
		out = wire.AppendQuoted(append(strconv.AppendInt(append(out, `{"index":`...), int64(i), 10), `,"operation":`...), name)
		out = append(one.AppendJSON(append(out, `,"result":`...)), '}')
		if one.Failure == nil {
			good++
		} else if bad++; one.Failure.Code == failure.ConfirmationRequired {
			halted = i
			break
		}
		if len(out) > most && i+1 < len(items) {
			halted = i
			break
		}
	}
	summary := wire.Members(nil).Int("total", int64(len(items))).Int("succeeded", int64(good)).Int("failed", int64(bad))
	out = append(out, ']')
	if halted >= 0 {
		var pending []string
		for _, item := range items[halted+1:] {
			pending = append(pending, batchName(item))
		}
		summary = summary.Bool("halted", true).Int("pending", int64(len(pending)))
		out = strconv.AppendInt(append(out, `,"halted_at":`...), int64(halted), 10)
		out = wire.AppendStrings(append(out, `,"pending_operations":`...), pending)
	}
	r.Data = nil
	r.whole = append(append(append(out, `,"summary":`...), summary.End()...), '}')
	return nil
}

// batchName returns the name of the operation in an item of a batch, or "" if the item
// names none.
func batchName(item []byte) string {
	if v := wire.Member(item, "operation"); v != nil && wire.KindOf(v) == wire.String {
		return clean.FirstRunes(string(wire.Unquoted(v)), maxOperationName)
	}
	return ""
}
