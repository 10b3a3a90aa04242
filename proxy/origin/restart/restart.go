// Package restart keeps a client's session when its server restarts.
//
//   - pipe.go: the server is a child process, which is started again, or is reached over HTTP+SSE, where it loses
//     its sessions with the connection. process.go begins the next process or connection, and tells it the state;
//   - http.go: the server is reached over Streamable HTTP, and answers 404 to a session that it has lost. session.go
//     sends the new session what it must know, which stored.go keeps in the store, too; replaced.go uses one that another
//     replica has begun, and lost.go has the errors that mean the same as 404.
//
// In both, the new process or session is sent what the old one knew: the client's initialize, its log level and its
// subscriptions. Requests that the server has not read are sent again; others fail.
package restart

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Session is the session of the client whose server restarts.
type Session interface {
	// Restarted notes that the server's process has restarted: from now on, the client's responses to unknown requests
	// are dropped. It returns the ids of the server's requests that have no response, as raw JSON.
	Restarted() (open []string)
	// DropRequests forgets the server's requests that have no response, and returns the ids that the client knows them by, as raw JSON, each
	// sealed: requests of the next session, which comes before the client has read of these, may have the same ids.
	DropRequests() (open [][]byte)
	// Over reports whether the session has ended: another one at the server would be of no use.
	Over() bool
}

// IsLost reports whether err is the refusal of a server that does not know the session any more. The
// specification requires 404. Published servers also answer 400 (TypeScript SDK, Python SDK, mcp-go, argocd-mcp) or 401 (Rust
// SDK), with a text that says so. Those that answer 200 are in lost.go.
func IsLost(err error) bool {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok {
		return false
	}
	switch status.Code {
	case http.StatusNotFound:
		return !era.Doubtful(false, err)
	case http.StatusBadRequest, http.StatusUnauthorized:
	default:
		return false
	}
	said := strings.ToLower(string(status.Body[:min(len(status.Body), 1<<10)]))
	return slices.ContainsFunc(lostWords, func(words string) bool { return strings.Contains(said, words) })
}

var lostWords = []string{
	"session not found", "no valid session", "invalid session id", "invalid or missing session", "unknown session",
	"invalid or expired session", "session expired", "session has expired", "session does not exist", "server not initialized",
}

// cloneHeaders copies headers, since their values may be in a request's buffer.
func cloneHeaders(header []mcp.Header) []mcp.Header {
	out := make([]mcp.Header, len(header))
	for i, h := range header {
		out[i] = mcp.Header{Name: strings.Clone(h.Name), Value: strings.Clone(h.Value)}
	}
	return out
}

// listChanges returns the list_changed notifications that the server's InitializeResult declares: after
// a new session its lists may have changed.
func listChanges(result []byte) (news [][]byte) {
	for _, l := range [...]struct {
		of      string
		changed wire.Method
	}{{"tools", wire.ToolsListChanged}, {"prompts", wire.PromptsListChanged}, {"resources", wire.ResourcesListChanged}} {
		if gjson.GetBytes(result, "capabilities."+l.of+".listChanged").Bool() {
			news = append(news, mcp.Notification(l.changed, ""))
		}
	}
	return news
}

// isFinal reports whether trying a refused GET again is useless.
func isFinal(err error) bool {
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		return status.Code == 401 || status.Code == 403 || status.Code == 421 || !era.Inconclusive(status.Code) && status.Code < 500
	}
	return report.FailureOf(err).Cause == mcp.SessionUnknown
}
