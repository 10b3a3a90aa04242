package peertest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// SSEClient is a client on HTTP+SSE.
type SSEClient struct {
	T    *testing.T
	In   *bufio.Reader // its stream, for a test that reads it in a goroutine
	Body io.Closer     // of the stream
	HTTP *http.Client
	base string
	uri  string
}

// NewSSEClient opens the stream of what serves HTTP+SSE at this base URL.
func NewSSEClient(t *testing.T, base string) *SSEClient {
	t.Helper()
	c := &SSEClient{T: t, HTTP: WebClient(t), base: base}
	res, err := c.HTTP.Get(c.base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("GET /sse: %d", res.StatusCode)
	}
	c.Body, c.In = res.Body, bufio.NewReader(res.Body)
	c.uri = c.Next()
	return c
}

// Event returns the next event, byte by byte, without comments.
func (c *SSEClient) Event() (text string) {
	c.T.Helper()
	for {
		line, err := c.In.ReadString('\n')
		switch {
		case err != nil:
			c.T.Fatal(err)
		case line == "\n" && text != "":
			return text
		case line != "\n" && line[0] != ':':
			text += line
		}
	}
}

// Next returns the data of the next event.
func (c *SSEClient) Next() string {
	c.T.Helper()
	_, data, _ := strings.Cut(c.Event(), "data: ")
	return strings.TrimSuffix(data, "\n")
}

// Post sends a message, which must be accepted.
func (c *SSEClient) Post(body string, header ...string) {
	c.T.Helper()
	req, err := http.NewRequest(http.MethodPost, c.base+c.uri, strings.NewReader(body))
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		c.T.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusAccepted {
		c.T.Fatal(fmt.Sprint(res.StatusCode, err))
	}
}
