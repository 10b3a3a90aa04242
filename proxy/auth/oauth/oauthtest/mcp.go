package oauthtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// resource returns the resource of the PRM, which is the audience that tokens must have.
func (s *Server) resource(o Options) string {
	switch o.Resource {
	case "":
		return s.URL
	case "origin":
		return s.origin
	}
	return o.Resource
}

// prm answers requests for protected resource metadata: https://www.rfc-editor.org/rfc/rfc9728
func (s *Server) prm(w http.ResponseWriter, r *http.Request, here bool) {
	o := s.options(func(c *Counts) { c.PRM++ })
	at := prmPath + mcpPath
	if o.PRMAtRoot {
		at = prmPath
	}
	if !here || o.NoPRM || r.URL.Path != at {
		http.NotFound(w, r)
		return
	}
	doc := map[string]any{
		"resource": s.resource(o), "authorization_servers": []string{cmp.Or(o.NamedIssuer, s.Issuer)},
		"bearer_methods_supported": []string{"header"},
	}
	if o.Scopes != nil {
		doc["scopes_supported"] = o.Scopes
	}
	if o.HugeMetadata {
		doc["resource_name"] = strings.Repeat("x", 2<<20)
	}
	writeJSON(w, http.StatusOK, doc)
}

// challenge refuses a request of the MCP endpoint.
func (s *Server) challenge(w http.ResponseWriter, o Options, status int, code, why, scope string) {
	var params []string
	add := func(name, value string) {
		if value != "" {
			params = append(params, fmt.Sprintf("%s=%q", name, value))
		}
	}
	add("error", code)
	add("error_description", why)
	switch {
	case o.NamedPRM != "":
		add("resource_metadata", strings.ReplaceAll(o.NamedPRM, "ORIGIN", s.origin))
	case !o.NoPRM && !o.PRMAtRoot:
		add("resource_metadata", s.origin+prmPath+mcpPath)
	}
	add("scope", scope)
	w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(params, ", ")))
	w.WriteHeader(status)
}

// message has the members of a JSON-RPC message that the minimal server reads.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string `json:"name"`
		Arguments struct {
			Text string `json:"text"`
		} `json:"arguments"`
	} `json:"params"`
}

// mcp is the MCP endpoint.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	o := s.options(func(*Counts) {})
	token, why := s.authorized(r, o)
	if why != "" {
		s.options(func(c *Counts) { c.Unauthorized++ })
		code := "invalid_token"
		if r.Header.Get("Authorization") == "" { // no error code then: RFC 6750 section 3.1
			code, why = "", ""
		}
		s.challenge(w, o, http.StatusUnauthorized, code, why, o.ChallengeScope)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var m message
	unreadable := json.Unmarshal(body, &m)
	if m.Method == "tools/call" {
		if m.Params.Name == o.StepUpTool && !containsAll(token.scopes, strings.Fields(o.StepUpScope)) {
			s.challenge(w, o, http.StatusForbidden, "insufficient_scope", "the tool needs another scope", o.StepUpScope)
			return
		}
		s.options(func(c *Counts) { c.Calls++ })
	}
	switch {
	case o.Handler != nil:
		r.Body = io.NopCloser(bytes.NewReader(body))
		o.Handler.ServeHTTP(w, r)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case unreadable != nil || m.Method == "":
		http.Error(w, "not a JSON-RPC request", http.StatusBadRequest)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		answer(w, o, &m)
	}
}

// authorized returns the valid access token of a request, or why there is none.
func (s *Server) authorized(r *http.Request, o Options) (t accessToken, why string) {
	now := o.now()
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	t, known := s.access[value]
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return t, "no token"
	case !known || t.grant.ended:
		return t, "unknown or revoked token"
	case !now.Before(t.expires):
		return t, "expired token"
	case o.AnyResource, t.grant.resource == "" && (o.NoPRM || o.NoResource):
		return t, ""
	case t.grant.resource != s.resource(o):
		return t, "token for another resource"
	}
	return t, ""
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// answer is the minimal server. It has the tool echo, and StepUpTool as another name of it.
func answer(w http.ResponseWriter, o Options, m *message) {
	isTool := m.Params.Name == "echo" || m.Params.Name == o.StepUpTool
	var result any
	switch {
	case m.Method == "initialize":
		result = json.RawMessage(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` +
			`"serverInfo":{"name":"oauthtest","version":"1"}}`)
	case m.Method == "ping":
		result = struct{}{}
	case m.Method == "tools/list":
		tool := `{"name":%q,"description":"Returns the text",` +
			`"inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}`
		list := fmt.Sprintf(tool, "echo")
		if o.StepUpTool != "" && o.StepUpTool != "echo" {
			list += "," + fmt.Sprintf(tool, o.StepUpTool)
		}
		result = json.RawMessage(`{"tools":[` + list + `]}`)
	case m.Method == "tools/call" && isTool:
		result = map[string]any{"content": []any{map[string]string{"type": "text", "text": m.Params.Arguments.Text}}}
	default:
		failure := map[string]any{"code": -32601, "message": "Method not found: " + m.Method}
		if m.Method == "tools/call" {
			failure = map[string]any{"code": -32602, "message": "Unknown tool: " + m.Params.Name}
		}
		writeJSON(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": failure})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}
