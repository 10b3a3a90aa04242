package session

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// TestRefusalWhenTheLastReaderLeaves: the page may be closed after it was asked whether there is a reader.
func TestRefusalWhenTheLastReaderLeaves(t *testing.T) {
	new(Table).observeRefused(new(observe.Peers), []byte(`{}`), mcp.Fail(mcp.SessionUnknown, ""))
}
