package upstream

import (
	"context"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Credential is what requests to a server carry in Authorization, if it changes: a token that
// expires. The client's own Authorization is not sent then. Its methods are called by many
// goroutines.
type Credential interface {
	// Header returns the value of Authorization; "" for none yet.
	Header(ctx context.Context) (string, error)
	// Refused is called when the server has refused a request with this value. tries is how many
	// times it refused the same request with other values before. Refused returns nil if there is
	// another value now: the request is then sent once more. Otherwise the caller gets the returned
	// error, which may be another *StatusError, in place of refusal.
	Refused(ctx context.Context, value string, refusal *StatusError, tries int) error
}

// CredentialError says that a request could not be sent, or was refused, for lack of a credential.
type CredentialError struct{ Err error }

func (e *CredentialError) Error() string { return e.Err.Error() }

func (e *CredentialError) Unwrap() error { return e.Err }

// carried is a request that carries a credential, with memory of its own, so that it can be sent
// once more. That of a large request counts against the budget of messages.
type carried struct {
	by    Credential
	r     request
	value string
}

// carry adds the credential to r, and returns what it takes to send r again.
func (h *HTTP) carry(ctx context.Context, r *request) (*carried, error) {
	if h.credential == nil {
		return nil, nil
	}
	c := h.spare.Get().(*carried)
	content, header := c.r.content[:0], c.r.header[:0]
	c.by, c.r = h.credential, *r
	if len(r.content) > large.Size {
		var err error
		if content, err = h.memory.Alloc(ctx, large.RequestWait, large.RequestCopy, len(r.content)); err != nil {
			return nil, err
		}
	}
	c.r.content = append(content, r.content...)
	for _, f := range r.header {
		if !strings.EqualFold(f.Name, "Authorization") {
			header = append(header, mcp.Header{Name: f.Name, Value: strings.Clone(f.Value)})
		}
	}
	c.r.header = header
	if err := c.renew(ctx); err != nil {
		return nil, err
	}
	r.header = c.r.header
	return c, nil
}

// drop lets another request use the memory of c.
func (h *HTTP) drop(c *carried) {
	if cap(c.r.content) > keepBuffer {
		c.r.content = nil
	}
	clear(c.r.header) // its values may be secrets
	c.value = ""
	h.spare.Put(c)
}

// renew sets the header to the credential's value of now.
func (c *carried) renew(ctx context.Context) (err error) {
	if c.value, err = c.by.Header(ctx); err != nil {
		return &CredentialError{err}
	}
	c.r.header = slices.DeleteFunc(c.r.header, func(f mcp.Header) bool { return f.Name == "Authorization" })
	if c.value == "" {
		return nil
	}
	c.r.header = append(c.r.header, mcp.Header{Name: "Authorization", Value: c.value})
	return nil
}
