package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// send sends one message, and returns the status and the last message of the answer.
func (c *client) send(ctx context.Context, message string, header http.Header) (int, gjson.Result, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.URL(), strings.NewReader(message))
	if err != nil {
		return 0, gjson.Result{}, err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, gjson.Result{}, err
	}
	defer resp.Body.Close()
	text, err := readAll(resp.Body)
	if i := strings.LastIndex(text, "data: "); i >= 0 && !strings.HasPrefix(text, "{") {
		text = text[i+len("data: "):]
	}
	return resp.StatusCode, gjson.Parse(text), err
}

// leave deletes the session, and waits until no replica knows it.
func (c *client) leave(ctx context.Context) error {
	id := c.session.ID()
	if err := c.session.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if why := c.stream.refused(); why != "" {
		return fmt.Errorf("the DELETE was refused: %s", why)
	}
	for unknown, began := 0, time.Now(); unknown < c.s.plan.Replicas; {
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, c.name)
		status, got, err := c.send(ctx, message, http.Header{"Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {c.revision}})
		if err != nil {
			return err
		}
		took := time.Since(began)
		switch {
		case status == http.StatusNotFound:
			if unknown++; unknown == c.s.plan.Replicas && took > markTime {
				c.results.late()
			}
			continue
		case took > heardTime:
			return fmt.Errorf("a deleted session got status %d: %.200s", status, got.Raw)
		}
		unknown = 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// task makes a call that becomes a task, and requests its state until it has its result. The published SDK for Go has
// no tasks.
func (c *client) task(ctx context.Context) error {
	text := c.text("job")
	got, err := c.sendModern(ctx, "tools/call", "job", fmt.Sprintf(`"name":"job","arguments":{"text":%q}`, text))
	if err != nil {
		return err
	}
	id := got.Get("result.taskId").Str
	if id == "" {
		return fmt.Errorf("no task: %.300s", got.Raw)
	}
	for {
		got, err := c.sendModern(ctx, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		if err != nil {
			return err
		}
		switch got.Get("result.status").Str {
		case "working":
		case "completed":
			if has := got.Get("result.result.content.0.text").Str; has != text {
				return fmt.Errorf("got %.300s, want %q", got.Raw, text)
			}
			return nil
		default:
			return fmt.Errorf("state of the task: %.300s", got.Raw)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *client) sendModern(ctx context.Context, method, name, params string) (gjson.Result, error) {
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"fleet","version":"1"}}}}`,
		method, params, translate.Modern())
	status, got, err := c.send(ctx, message, http.Header{"Mcp-Protocol-Version": {translate.Modern()}, "Mcp-Method": {method}, "Mcp-Name": {name}})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", status, got.Raw)
	}
	return got, err
}
