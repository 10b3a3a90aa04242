package peertest

import (
	"context"
	"testing"

	"github.com/tidwall/gjson"
)

// NewLocal returns a server without a transport, whose connections the test makes itself: each message is a [Server.Turn].
func NewLocal(script func(*Turn)) *Server {
	return &Server{Script: script, sessions: sessions{life: context.Background()}}
}

// Use says which test a server without a transport belongs to.
func (s *Server) Use(t *testing.T) { s.T, s.t = t, t }

// Turn returns the turn of a message to a server without a transport, after First. The server gets the message with Got.
func (s *Server) Turn(ctx context.Context, m Message, to Local) *Turn {
	u := &Turn{Server: s, Ctx: ctx, Text: m.Text, ID: gjson.Get(m.Text, "id").Raw, Method: gjson.Get(m.Text, "method").String(), Header: m.Header, local: to}
	s.begin(u)
	return u
}

// Got adds a message to those that a server without a transport got.
func (s *Server) Got(m Message) { s.add(m) }
