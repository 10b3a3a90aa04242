package replicas

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/measure/load"
	"github.com/dragoman-proxy/dragoman/translate"
)

// send sends one message.
func (c *client) send(ctx context.Context, message string, header map[string]string) load.Answer {
	r, err := load.Request(ctx, http.MethodPost, c.s.URL(), message, header)
	if err != nil {
		return load.Answer{Err: err}
	}
	return load.Send(http.DefaultClient, r)
}

// lateDelete is counted for a deleted session that a replica still knew after markTime.
const lateDelete = "late delete"

// leave deletes the session, and waits until no replica knows it.
func (c *client) leave(ctx context.Context) error {
	id := c.session.ID()
	if err := c.session.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if why := c.stream.refusal.Load(); why != nil {
		return fmt.Errorf("the DELETE was refused: %s", why)
	}
	for unknown, began := 0, time.Now(); unknown < c.s.plan.Replicas; {
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, c.name)
		got := c.send(ctx, message, map[string]string{"Mcp-Session-Id": id, "Mcp-Protocol-Version": c.revision})
		if got.Err != nil {
			return got.Err
		}
		took := time.Since(began)
		switch {
		case got.Status == http.StatusNotFound:
			if unknown++; unknown == c.s.plan.Replicas && took > markTime {
				c.results.Good(lateDelete)
			}
			continue
		case took > heardTime:
			return fmt.Errorf("a deleted session got %.200v", got)
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
	got := c.send(ctx, message, map[string]string{"Mcp-Protocol-Version": translate.Modern(), "Mcp-Method": method, "Mcp-Name": name})
	if got.Err == nil && got.Status != http.StatusOK {
		return got.Last, fmt.Errorf("%.200v", got)
	}
	return got.Last, got.Err
}
