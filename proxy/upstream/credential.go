package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/large"
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

// maxTries is how often a request is sent with a new credential. Credentials give up earlier.
const maxTries = 4

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
			header = append(header, Header{f.Name, strings.Clone(f.Value)})
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
	c.r.header = slices.DeleteFunc(c.r.header, func(f Header) bool { return f.Name == "Authorization" })
	if c.value == "" {
		return nil
	}
	c.r.header = append(c.r.header, Header{"Authorization", c.value})
	return nil
}

// readHead reads the head of the response. If the server refuses the credential and there is a
// new one, it sends the request once more.
func (x *exchange) readHead(c *conn) error {
	err := x.readOneHead(c)
	again := x.carried
	if again == nil {
		if refusal, ok := errors.AsType[*StatusError](err); ok && x.http.explain != nil {
			return x.http.explain(refusal)
		}
		return err
	}
	x.carried = nil
	defer x.http.drop(again)
	for tries := 0; ; tries++ {
		refusal, ok := errors.AsType[*StatusError](err)
		if !ok || refusal.Code != http.StatusUnauthorized && refusal.Code != http.StatusForbidden || tries == maxTries {
			return err
		}
		asked := time.Now()
		if no := again.by.Refused(x.ctx, again.value, refusal, tries); no != nil {
			if x.ctx.Err() != nil {
				return x.ctx.Err()
			}
			if _, passed := errors.AsType[*StatusError](no); passed {
				return no
			}
			return &CredentialError{no}
		}
		if !x.deadline.IsZero() { // which is for the server, not for the credential
			x.deadline = x.deadline.Add(time.Since(asked))
		}
		if err := again.renew(x.ctx); err != nil {
			return err
		}
		if c, err = x.resend(&again.r); err != nil {
			return err
		}
		err = x.readOneHead(c)
	}
}

// resend sends a request over a new connection, in the place of the one that was refused.
func (x *exchange) resend(r *request) (*conn, error) {
	buf := x.http.buffer()
	defer x.http.release(buf)
	var err error
	if buf.b, err = x.http.head.append(buf.b, *r); err != nil {
		return nil, err
	}
	x.abort()
	dialing, cancel := x.dialing()
	defer cancel()
	c, err := x.http.pool.fresh(dialing)
	if err != nil {
		return nil, x.unreached(err)
	}
	x.mu.Lock()
	x.conn = c
	closed := x.closed
	x.mu.Unlock()
	if closed || x.ctx.Err() != nil { // while there was no connection to abort
		x.abort()
		return nil, ErrClosed
	}
	if _, err := c.write(buf.b, r.content, x.silence); err != nil {
		return nil, x.failure("write", err)
	}
	return c, nil
}
