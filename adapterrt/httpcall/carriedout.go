package httpcall

import (
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// CarriedOut returns f for the client of the call. If the call may change something and f is about the answer to a request
// that the API has carried out, as the answer's status says, f says that first, so that a model does not repeat the call.
func (c *Call) CarriedOut(f *failure.Failure) *failure.Failure {
	if f == nil || f.Answered < 200 || f.Answered > 299 || c.Op.Category == file.Read {
		return f
	}
	return CarriedOut(f, !c.refusesInBody())
}

// CarriedOut returns f, a failure to read or pass on the answer with status f.Answered, with the words that the request was
// carried out. sure is false if the lost answer may have said that it was not.
func CarriedOut(f *failure.Failure, sure bool) *failure.Failure {
	status := "(HTTP " + strconv.Itoa(f.Answered) + ")"
	first := "The request was carried out " + status + ": do not send it again."
	switch {
	case !sure:
		first = "The API answered HTTP " + strconv.Itoa(f.Answered) + ", so the request may have been carried out: check before you send it again."
	case f.Answered == 202:
		first = "The request was accepted, to be carried out " + status + ": do not send it again."
	}
	told := *f // others may share f
	told.Message = first + " Its answer cannot be read: " + f.Message
	if f.Busy {
		told.Busy, told.Own, told.RetryAfter = false, false, 0 // nothing is to be tried again
		told.Message = first + " Its answer cannot be read: The memory for answers is full."
	}
	d := wire.Members(nil)
	if sure {
		d = d.Bool("carried_out", true)
	}
	if wire.Member(f.Details, "http_status") == nil {
		d = d.Int("http_status", int64(f.Answered))
	}
	if told.Details = d.End(); len(f.Details) > len("{}") {
		if len(d) > 0 {
			told.Details[len(told.Details)-1] = ','
			told.Details = append(told.Details, f.Details[1:]...)
		} else {
			told.Details = f.Details
		}
	}
	return &told
}

// wasSent reports whether the API may have received a request that failed with err, of which code was made.
func wasSent(err error, code failure.Code) bool {
	op, is := errors.AsType[*net.OpError](err)
	return (code == failure.TransportTimeout || code == failure.TransportNetwork) && !(is && op.Op == "dial") && !errors.Is(err, errDenied)
}

// refusesInBody reports whether an answer with status 2xx may be the refusal of the request.
func (c *Call) refusesInBody() bool {
	return c.Op.GraphQL != nil || slices.ContainsFunc(c.Op.Errors, func(e file.ErrorRule) bool {
		return e.Path != nil && (e.Status == 0 || e.Status < 300)
	})
}

// saysNothing reports whether the body of an answer to o has no meaning, so that it is not read.
func (o *Outgoing) saysNothing(status int, location string) bool {
	return status == 204 || status == 205 || o.seesOther(status, location)
}

// seesOther reports whether an answer says that a write was carried out and where to see its result:
// https://www.rfc-editor.org/rfc/rfc9110#status.303
func (o *Outgoing) seesOther(status int, location string) bool {
	return status == 303 && o.Changes && location != ""
}
