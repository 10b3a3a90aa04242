package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// typescript2 returns the client of the published packages of the 2.x line. mode is how it chooses the revision:
// "legacy", "auto" or a pin on one revision. It leaves out the steps in not.
func (m modules) typescript2(mode any, revision string, not map[string]string) *client {
	transports := all
	if mode != "legacy" {
		transports = []transport{streamable, stdio}
	}
	name := "TypeScript client 2.4.0"
	if mode == "auto" {
		name += " as it is"
	}
	return &client{name: name, revision: revision, transports: transports, run: func(ctx context.Context, to endpoint) (transcript, error) {
		return runNodeClient(ctx, to, map[string]any{"sdk": filepath.Join(string(m), "@modelcontextprotocol", "client"), "mode": mode, "not": not})
	}}
}

// pinned returns the mode of a client that speaks one revision only.
func pinned(revision string) any { return map[string]any{"pin": revision} }

// typescriptServer2 returns a server written with the published packages of the 2.x line, which by default serve both eras
// with the same handlers. For the newest revision it serves only clients without a session, otherwise only clients with
// one. Each is therefore the reference for the other, by the packages' own translation between the eras.
func (m modules) typescriptServer2(revision string) *server {
	return m.typescriptServer2Of(revision, func(asked string) string {
		if asked == newest {
			return "modern"
		}
		return "legacy"
	})
}

// typescriptServer2OfBothEras returns the same server with the packages' default, which serves both eras.
func (m modules) typescriptServer2OfBothEras() *server {
	s := m.typescriptServer2Of("2025-11-25", func(string) string { return "both" })
	s.name += " as it is"
	return s
}

// typescriptServer2Of returns the server for the eras that belong to a revision.
func (m modules) typescriptServer2Of(revision string, eras func(asked string) string) *server {
	return &server{
		name: "TypeScript server 2.4.0", revision: revision, only: revision == newest, declares: true,
		transports: []transport{stdio, streamable},
		command: func(revision, mark string) []string {
			return append(m.server2(stdio, eras(revision)), mark)
		},
		serve: func(revision string, over transport) (string, func(), error) {
			url, err := m.open2(eras(revision))
			return url, func() {}, err
		},
	}
}

// server2 returns the command that starts the server on a transport. On HTTP it takes the eras from the path.
func (m modules) server2(over transport, eras string) []string {
	config, err := json.Marshal(map[string]any{"modules": string(m), "transport": over, "eras": eras})
	if err != nil {
		panic(err)
	}
	return []string{"node", filepath.Join("peers", "server2.mjs"), string(config)}
}

// opened2 counts the servers that open2 has opened.
var opened2 atomic.Int32

// open2 returns the URL of a server that no other caller gets. All are in one process, because its start takes longer than what a
// test does with a server.
func (m modules) open2(eras string) (url string, err error) {
	base, err := shared.at("server2", func() (string, func(), error) { return onLoopback("server2", m.server2(streamable, "")[1:]...) })
	return fmt.Sprintf("%s/%s/%d/mcp", base, eras, opened2.Add(1)), err
}
