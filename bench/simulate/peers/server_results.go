package peers

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
)

// result carries out what has no plan, and returns the result of what has one.
func (c *serverCall) result() (object, *rpcError) {
	s, sess := c.sess.s, c.sess
	text := numbered(c.mark, "done", s.carried[c.mark])
	if c.plan.Size > 0 {
		text += " " + filling(c.mark, c.plan.Size)
	}
	unknown := &rpcError{Code: -32601, Message: "Method not found: " + c.m.Method}
	switch c.m.Method {
	case "initialize":
		if c.modern || !s.handshake() {
			return nil, unknown
		}
		return c.initialize()
	case "server/discover":
		if c.modern {
			return object{"supportedVersions": s.supported(), "capabilities": s.capabilities(modernRevision)}, nil
		}
		return nil, unknown
	case "subscriptions/listen":
		if c.modern {
			s.listen(c)
			return nil, nil
		}
		return nil, unknown
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		if c.modern {
			return nil, unknown
		}
		switch c.m.Method {
		case "logging/setLevel":
			if severity(c.params.Level) < 0 {
				return nil, &rpcError{Code: -32602, Message: "Invalid level"}
			}
			sess.level = severity(c.params.Level)
		case "resources/subscribe":
			sess.uris[c.params.URI] = true
		case "resources/unsubscribe":
			delete(sess.uris, c.params.URI)
		}
		return object{}, nil
	case "tools/list":
		return c.page(s.tools(c.revision)), nil
	case "tools/call":
		switch {
		case c.mark != "" && c.plan.How == script.Bare && !c.modern:
			if since(c.revision, "2025-06-18") {
				return object{"structuredContent": object{"text": text}}, nil
			}
			return object{"only": object{"text": text}}, nil
		case c.mark != "":
			return object{"content": []any{object{"type": "text", "text": text}}, "_meta": object{"odd": odd}}, nil
		case c.params.Name == "kinds": // of which the parameter extra is allowed
			return object{"content": []any{object{"type": "text", "text": `{"kinds":[{"name":"shut","extras":[]},{"name":"open","extras":["x"]}]}`}}}, nil
		case c.params.Name == "noop" || c.params.Name == "extra" && s.extra["tools"]:
			result := object{"content": []any{object{"type": "text", "text": `{"ok":true}`}}}
			if since(c.revision, "2025-06-18") {
				result["structuredContent"] = object{"ok": true}
			}
			return result, nil
		}
		return nil, &rpcError{Code: -32602, Message: "Unknown tool: " + c.params.Name}
	case "resources/list":
		var all []any
		for n := 1; n <= 9; n++ {
			all = append(all, object{"uri": fmt.Sprint("note://", n), "name": fmt.Sprint("note ", n), "mimeType": "text/plain"})
		}
		if s.extra["resources"] {
			all = append(all, object{"uri": "note://extra", "name": "extra"})
		}
		return object{"resources": all}, nil
	case "resources/templates/list":
		return object{"resourceTemplates": []any{object{"uriTemplate": "note://all/{n}", "name": "note"}}}, nil
	case "resources/read":
		uri := c.params.URI
		if c.mark == "" {
			if text = fmt.Sprintf("%s v%d", uri, s.versions[uri]); !strings.HasPrefix(uri, "note://") {
				failed := &rpcError{Code: -32002, Message: "Resource not found", Data: encode(object{"uri": uri})}
				if c.modern {
					failed.Code = -32602
				}
				return nil, failed
			}
		}
		return object{"contents": []any{object{"uri": uri, "mimeType": "text/plain", "text": text}}}, nil
	case "prompts/list":
		all := []any{object{"name": "greet", "description": "A greeting", "arguments": []any{object{"name": "who"}}}}
		if s.extra["prompts"] {
			all = append(all, object{"name": "extra"})
		}
		return object{"prompts": all}, nil
	case "prompts/get":
		if c.params.Name != "greet" {
			return nil, &rpcError{Code: -32602, Message: "Unknown prompt: " + c.params.Name}
		}
		return object{"messages": []any{object{"role": "user", "content": object{"type": "text", "text": "hello"}}}}, nil
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update":
		return c.aboutTask()
	case "completion/complete":
		return object{"completion": object{"values": []string{"one", "two"}}}, nil
	}
	return nil, unknown
}

// page returns the tools of the page that a request wants. Since 2026-07-28 an empty cursor leads on, too.
func (c *serverCall) page(tools []any) object {
	if !c.sess.s.onePerPage {
		return object{"tools": tools}
	}
	n := 1
	if cursor := c.params.Cursor; cursor != nil {
		if _, err := fmt.Sscanf(*cursor, "page-%d", &n); err != nil && c.modern {
			n = 2
		}
	}
	n = min(max(n, 1), len(tools))
	page := object{"tools": tools[n-1 : n]}
	switch {
	case n == len(tools):
	case n == 1 && c.modern:
		page["nextCursor"] = ""
	default:
		page["nextCursor"] = fmt.Sprint("page-", n+1)
	}
	return page
}

// filling is the text of so many bytes by which a plan makes an answer larger: lines that say whose and which they are, so that a client
// can tell what is missing. What does not make a line, and all behind the first 32 KiB, is filled with x.
func filling(mark string, size int) string {
	var b strings.Builder
	b.Grow(size + len("lines:"))
	b.WriteString("lines:")
	begin := "\n" + mark + " line "
	var line []byte
	for n := 1; ; n++ {
		line = strconv.AppendInt(append(line[:0], begin...), int64(n), 10)
		if b.Len()+len(line) > min(size, 1<<15) {
			break // half a line could be another one
		}
		b.Write(line)
	}
	b.WriteString(strings.Repeat("x", max(size-b.Len(), 0)))
	return b.String()[:size]
}

func (s *Server) tools(revision string) []any {
	tool := func(name string, properties object) object {
		t := object{"name": name, "description": "The tool " + name, "inputSchema": object{"type": "object", "properties": properties}}
		if since(revision, "2025-03-26") {
			t["annotations"] = object{"readOnlyHint": true}
		}
		if since(revision, "2025-06-18") {
			t["title"] = "Tool " + name
			if name == "noop" {
				t["outputSchema"] = object{"type": "object", "properties": object{"ok": object{"type": "boolean"}}}
			}
		}
		return t
	}
	text := object{"type": "string"}
	act, run := tool("act", object{"mark": text, "plan": text}), tool("run", object{"mark": text, "plan": text})
	all := []any{act, tool("noop", object{}), tool("kinds", object{})}
	if s.o.Tasks {
		if all = append(all, run); revision == "2025-11-25" {
			act["execution"], run["execution"] = object{"taskSupport": "optional"}, object{"taskSupport": "required"}
		}
	}
	if s.extra["tools"] {
		all = append(all, tool("extra", object{}))
	}
	return all
}

// initialize begins a session.
func (c *serverCall) initialize() (object, *rpcError) {
	s, sess := c.sess.s, c.sess
	if sess.revision != "" {
		sess.strange("initialize comes twice", c.m.raw)
		return nil, &rpcError{Code: -32600, Message: "Already initialized"}
	}
	all := s.speaks()
	sess.revision, sess.can = all[len(all)-1], c.params.Capabilities
	if slices.Contains(all, c.params.ProtocolVersion) {
		sess.revision = c.params.ProtocolVersion
	}
	if sess.id == "" { // Streamable HTTP
		sess.id = fmt.Sprint("session-", s.next("session"))
		s.given[sess.id] = true
		s.sessions = append(s.sessions, sess)
		if c.out.x != nil {
			c.out.x.session = sess.id
		}
		c.out.name, c.out.primes = fmt.Sprint(sess.id, ".0"), since(sess.revision, "2025-11-25")
		sess.posts = append(sess.posts, c.out)
	}
	return object{"protocolVersion": sess.revision, "capabilities": s.capabilities(sess.revision), "serverInfo": serverInfo(sess.revision)}, nil
}

func serverInfo(revision string) object {
	info := object{"name": "simulated", "version": "1.0.0"}
	if since(revision, "2025-06-18") {
		info["title"] = "A simulated server"
	}
	return info
}

func (s *Server) capabilities(revision string) object {
	all := object{"tools": object{"listChanged": true}, "prompts": object{"listChanged": true}, "logging": object{},
		"resources": object{"listChanged": true, "subscribe": true}}
	if since(revision, "2025-03-26") {
		all["completions"] = object{}
	}
	switch {
	case !s.o.Tasks:
	case revision == modernRevision:
		all["extensions"] = object{tasksExtension: object{}}
	case revision == "2025-11-25":
		all["tasks"] = object{"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	}
	return all
}

func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}
