package peertest

import "net/http"

// Replies are the responses of a server by method.
type Replies struct {
	Results map[string]string // "" for a response without a result
	Errors  map[string]string
}

// Answer answers a request. A method in neither list is not found.
func (r *Replies) Answer(u *Turn) {
	switch result, known := r.Results[u.Method]; {
	case u.Request != nil && u.Request.Method != http.MethodPost:
		u.Refuse(http.StatusMethodNotAllowed)
	case u.ID == "":
	case r.Errors[u.Method] != "":
		u.Answer(http.StatusOK, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":`+r.Errors[u.Method]+`}`)
	case !known:
		u.Answer(http.StatusOK, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
	case result == "":
		u.Answer(http.StatusOK, `{"jsonrpc":"2.0","id":`+u.ID+`}`)
	default:
		u.Answer(http.StatusOK, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":`+result+`}`)
	}
}
