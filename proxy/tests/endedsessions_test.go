package tests

import "testing"

// TestEndedSessionsAreTold to the page and counted, with a server on a pipe, and with one over HTTP, whose sessions could be resumed.
func TestEndedSessionsAreTold(t *testing.T) {
	for name, front := range map[string]func(t *testing.T) testServer{
		"a pipe": func(t *testing.T) testServer { return front(t, legacyServer(`{"tools":{}}`, nil)) },
		"HTTP": func(t *testing.T) testServer {
			return severalOf(t, newSessionServer(t, "2025-06-18", ""), 1)[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := front(t)
			ring, end := observedBy(srv)
			defer end()
			session := srv.initialize("2025-06-18")
			if r := srv.exchange(t.Context(), "DELETE", session, ""); r.status >= 300 {
				t.Fatalf("%+v", r)
			}
			eventually(t, "the session", func() bool { return len(ring.Ended()) == 1 })
			if s := ring.Ended()[0]; s.Why != "its client has ended it" || s.ClientRevision != "2025-06-18" || s.Session == "" || s.Ended == "" {
				t.Errorf("%+v", s)
			}
			if n := measured(t, srv, "mcp_server_session_duration_seconds", "mcp_protocol_version=2025-06-18", "error_type="); n != 1 {
				t.Errorf("%d sessions are counted", n)
			}
		})
	}
}
