package oauthrelay

import (
	"context"
	"net/http"
	"time"
)

// forOldClients returns the answer to a client of 2025-03-26, which looks for the authorization server at the origin of the server
// and would get notFound: a copy of the metadata of the first authorization server in the metadata of the protected resource. See
// https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#server-metadata-discovery.
func (r *Relay) forOldClients(ctx context.Context, method string, notFound *answer) (*answer, error) {
	r.copied.mu.Lock()
	now, fresh := r.copied.last, time.Now().Before(r.copied.until)
	r.copied.mu.Unlock()
	if !fresh {
		ch := r.learning.DoChan("copy", func() (any, error) { return r.copyMetadata(), nil })
		select {
		case done := <-ch:
			now = done.Val.(copied)
		case <-ctx.Done():
			return notFound, nil
		}
	}
	switch {
	case now.document == nil && now.err != nil:
		return notFound, &CopyError{now.err}
	case now.document == nil:
		return notFound, nil
	case method == http.MethodHead:
		now.document = nil
	}
	return &answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: now.document}, nil
}

// copyMetadata reads the metadata of the first authorization server that the server names. If that fails, what was
// read before stays valid.
func (r *Relay) copyMetadata() copied {
	ctx, cancel := context.WithTimeout(context.Background(), askFor)
	defer cancel()
	document, err := r.firstServer(ctx)
	r.copied.mu.Lock()
	defer r.copied.mu.Unlock()
	r.copied.until = time.Now().Add(goodFor)
	if err != nil {
		r.copied.until, document = time.Now().Add(failedFor), r.copied.last.document
	}
	r.copied.last = copied{document, err}
	return r.copied.last
}

func (r *Relay) firstServer(ctx context.Context) ([]byte, error) {
	for _, what := range [...]string{r.Server.EscapedPath(), ""} {
		var said resourceMetadata
		found, err := r.read(ctx, metadata[0]+what, &said)
		if err != nil {
			return nil, err
		}
		if found && len(said.Servers) > 0 {
			return r.Copy.AuthorizationServer(ctx, said.Servers[0])
		}
	}
	return nil, nil
}
