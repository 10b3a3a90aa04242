package legacyclient

import (
	"errors"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// cancelledAnswer is the answer for a client that cancels the question, and for one that cannot be asked.
const cancelledAnswer = `{"action":"cancel"}`

// ask is a question of the server to the client.
type ask struct {
	heard  chan<- receivedAnswer
	name   string // in inputRequests, as JSON
	id     []byte // of the request to the client
	method wire.Method
	note   []byte
	opens  []byte           // elicitationId, nil for none
	again  []byte           // the request to the client if it may be sent once more; else nil
	answer []byte           // the result for the server
	by     *answeringClient // nil if the answer is dragoman's own or has not come
}

type receivedAnswer struct {
	to     *ask
	raw    []byte
	header []mcp.Header // of the client's POST with the answer
}

// answeringClient is a client as the headers of its POST identify it to the server.
type answeringClient struct{ header []mcp.Header }

// accepted reports whether the client has accepted to open a URL.
func (a *ask) accepted() bool {
	return a.opens != nil && gjson.GetBytes(a.answer, "action").String() == "accept"
}

var errAnswerers = errors.New("the answers came with different Authorization headers; call again")

// answeredBy returns the client that has answered these questions, or nil. The server must judge the answers by the
// credentials of this client, and not by those of the client that made the call.
func answeredBy(list []*ask) (by *answeringClient, err error) {
	for _, a := range list {
		switch {
		case a.by == nil:
		case by != nil && mcp.HeaderValue(by.header, "Authorization") != mcp.HeaderValue(a.by.header, "Authorization"):
			return nil, errAnswerers
		default:
			by = a.by
		}
	}
	return by, nil
}
