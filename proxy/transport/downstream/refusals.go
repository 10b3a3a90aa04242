package downstream

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/valyala/fasthttp"
)

// The JSON-RPC error codes of the transport's own errors.
const (
	codeInvalidRequest = -32600
	codeInternal       = -32603
)

// maxShown bounds how many bytes of a header the log shows.
const maxShown = 100

// refusal is an answer to a request that reached no handler.
type refusal struct {
	status int
	words  string
	code   int    // JSON-RPC error code; 0 stands for the code that fits the status
	id     []byte // raw id of the request; nil if it is not known
	value  string // of the header that is refused, for the log alone: no response repeats what a header says
}

// Errors that an HTTP client gets before its message was read, or for requests that have
// no message. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports for Host,
// Origin and Accept.
var (
	notHTTP         = &refusal{status: 400, words: "this is not an HTTP request"}
	headersTooLarge = &refusal{status: 431, words: "the headers are larger than the limit of %d bytes (limits.header)"}
	tooSlow         = &refusal{status: 408, words: "the request took longer than %v to arrive, or arrived at less than 1 KiB/s"}

	badTarget  = &refusal{status: 400, words: "this is no proxy: the target of a request must be a path, or a URL of http or https with a host and no user; the MCP endpoint is %s"}
	noHost     = &refusal{status: 400, words: "the Host header is missing"}
	badHost    = &refusal{status: 403, words: "the Host header names a host that is not allowed; add it to allowed_hosts"}
	badOrigin  = &refusal{status: 403, words: "the Origin header names an origin that is not allowed; add it to cors.origins if it is that of a web page"}
	noPage     = &refusal{status: 403, words: "web pages of this origin may not read responses; add it to cors.origins"}
	noToken    = &refusal{status: 401, words: "a token is required, in Authorization as Bearer or in %s"}
	tokenTwice = &refusal{status: 400, words: "a token of this listener is in two headers: send it once; beside one in another header, Authorization is for the server"}
	badToken   = &refusal{status: 401, words: "the token is not valid: use one of those in auth.tokens, auth.named_tokens or auth.token_file"}

	nothingHere = &refusal{status: 404, words: "no such path"}
	elsewhere   = &refusal{status: 404, words: "no such path; the MCP endpoint is %s"} // and that of HTTP+SSE
	misdirected = &refusal{status: 421, words: "this is not the replica that the request is for"}

	badMethod   = &refusal{status: 405, words: "the MCP endpoint accepts POST, GET and DELETE"}
	badType     = &refusal{status: 415, words: "Content-Type must be application/json"}
	badEncoding = &refusal{status: 415, words: "Content-Encoding must be identity"}
	badAccept   = &refusal{status: 406, words: "Accept must contain both application/json and text/event-stream"}
	badListen   = &refusal{status: 406, words: "Accept must contain text/event-stream"}

	bodyTooLarge = &refusal{status: 413, words: "the body is larger than the limit of %d bytes (limits.client_message)"}
	noBody       = &refusal{status: 413, words: "this path accepts no large body"}
	shortBody    = &refusal{status: 400, words: "the body ended before its length"}
	noBudget     = &refusal{status: 503, words: "the memory for messages is full (limits.in_hand); try again later"}
	crowded      = &refusal{status: 503, words: "too many connections"}
	tooManyPost  = &refusal{status: 503, words: "too many requests at once; try again later"}

	onlyGet       = &refusal{status: 405, words: "this path accepts GET, which opens a stream of server-sent events; Streamable HTTP clients use %s"}
	onlyPost      = &refusal{status: 405, words: "this path accepts POST, at the URI that the stream's endpoint event names"}
	unnamedPipe   = &refusal{status: 400, words: "the URI names no session, or several: POST to the one that the stream's endpoint event names"}
	noPipe        = &refusal{status: 404, words: "Session not found: its stream has ended"}
	tooManyPosted = &refusal{status: 503, words: "too many messages wait on this session; try again later"}

	saidTwice  = &refusal{status: 400, words: "the %s header occurs more than once"}
	twoLengths = &refusal{status: 400, words: "a request must not have both Content-Length and Transfer-Encoding"}
	badCoding  = &refusal{status: 400, words: "Transfer-Encoding must be chunked"}
	badEnd     = &refusal{status: 400, words: "the head of a request must end in CRLF CRLF"}
	spokeTLS   = &refusal{status: 400, words: "this port speaks plain HTTP: use http://"}
	badName    = &refusal{status: 400, words: "a header's name contains a space"}

	pipelined = &refusal{status: 503, words: "the response before this request is not sent yet: wait for it before the next request"}

	drained  = &refusal{status: 503, words: "dragoman is shutting down"}
	panicked = &refusal{status: 500, words: "internal error"}
)

// with returns the refusal with what in the place of the verb in its words.
func (r *refusal) with(what any) *refusal {
	return &refusal{status: r.status, words: fmt.Sprintf(r.words, what)}
}

// naming returns the refusal of this value of a header. The log shows at most maxShown bytes of it.
func (r *refusal) naming(value []byte) *refusal {
	of := *r
	of.value = string(value[:min(len(value), maxShown)])
	return &of
}

// why returns what the log says.
func (r *refusal) why() string {
	if r.value == "" {
		return r.words
	}
	return r.words + ": it is " + strconv.QuoteToASCII(r.value)
}

// refuse answers with a JSON-RPC error. withoutID, which may be nil, reports for the
// revision that the request names whether an error about no message has no id, rather
// than null.
func refuse(ctx *fasthttp.RequestCtx, r *refusal, withoutID func(version string) bool) {
	code := r.code
	switch {
	case code != 0:
	case r.status >= fasthttp.StatusInternalServerError:
		code = codeInternal
	default:
		code = codeInvalidRequest
	}
	id := `"id":null,`
	switch {
	case r.id != nil:
		id = `"id":` + string(r.id) + `,`
	case withoutID != nil && withoutID(string(ctx.Request.Header.Peek(versionHeader))):
		id = ""
	}
	words, _ := json.Marshal(r.words) // a string always can be
	say(ctx, r.status, fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"error":{"code":%d,"message":%s}}`, id, code, words))
}

// say answers with body, which is JSON.
func say(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	if status == fasthttp.StatusServiceUnavailable {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	ctx.SetBody(body)
}

// sayPlainly answers in plain text at paths that are not for MCP clients: an OAuth client
// cannot read a JSON-RPC error.
func sayPlainly(ctx *fasthttp.RequestCtx, r *refusal) {
	say(ctx, r.status, []byte(r.words+"\n"))
	ctx.SetContentType("text/plain; charset=utf-8")
}
