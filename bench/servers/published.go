package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
)

// published is the connection of a client of a published package, in a process of Node.js that other sessions use after it. What the
// server says is noted as the client's methods return it.
type published struct {
	ctx      context.Context
	drivers  *nodetest.Drivers
	driver   *nodetest.Driver // nil before the session and after its end
	config   map[string]any   // for peers/given.mjs
	folder   folder
	pace     pace
	patience time.Duration // how long the server's process may take to end
	notes    *transcript
}

// at returns the configuration of a client that reaches the server at a URL.
func (k kind) at(url string, sse bool) map[string]any {
	config := maps.Clone(k.published)
	config["transport"], config["url"] = "http", url
	if sse {
		config["transport"] = "sse"
	}
	return config
}

// starting returns the configuration of a client that starts the server. The packages start commands in an environment of their
// own, so env makes that of the run.
func (k kind) starting(f folder, command []string, env map[string]string) map[string]any {
	config := maps.Clone(k.published)
	args := append([]string{"-i", "-C", f.work()}, f.environment(env)...)
	config["transport"], config["command"], config["args"], config["stderr"] = "stdio", "env", append(args, command...), f.stderr()
	return config
}

// stderr is the file of what the processes of a published client's session write.
func (f folder) stderr() string { return filepath.Join(f.root, "stderr") }

// saidTo returns the end of a file of text.
func saidTo(file string) string {
	var t tail
	text, _ := os.ReadFile(file) // without it there is nothing to quote
	t.Write(text)
	return t.String()
}

func (p *published) begin(limit time.Duration) (map[string]any, bool) {
	var err error
	if p.driver, err = p.drivers.Take(); err != nil {
		return map[string]any{"failed": err.Error()}, false
	}
	config := maps.Clone(p.config)
	config["root"], config["patience"] = "file://"+p.folder.work(), p.patience.Milliseconds()
	answer := p.do("connect", config, limit)
	modern, _ := answer["modern"].(bool)
	delete(answer, "modern")
	return answer, modern
}

func (p *published) request(method string, params map[string]any, limit time.Duration) map[string]any {
	params = maps.Clone(params)
	delete(params, "_meta") // the client has tokens of its own
	return p.do("request", map[string]any{"method": method, "params": params}, limit)
}

func (p *published) listen(filter map[string]any) map[string]any {
	if answer := p.do("listen", map[string]any{"notifications": filter}, p.pace.answer); len(answer) > 0 {
		return answer
	}
	return nil
}

func (p *published) cancel(params map[string]any) map[string]any {
	return p.do("cancel", map[string]any{"params": params, "after": p.pace.quiet.Milliseconds()}, p.pace.answer)
}

func (p *published) notify(method string) {
	p.do("notify", map[string]any{"method": method}, p.pace.answer)
}

func (p *published) settle() {
	p.do("settle", map[string]any{"quiet": p.pace.quiet.Milliseconds()}, p.pace.answer)
}

func (p *published) close() {
	p.do("close", nil, p.pace.answer)
	if p.driver != nil {
		p.drivers.Give(p.driver)
		p.driver = nil
	}
}

// do makes a step, notes what came beside its answer, and returns that.
func (p *published) do(step string, config map[string]any, limit time.Duration) map[string]any {
	if p.driver == nil {
		return map[string]any{"failed": "the client has ended"}
	}
	config = maps.Clone(config)
	if config == nil {
		config = map[string]any{}
	}
	config["do"], config["timeout"] = step, limit.Milliseconds()
	ctx, cancel := context.WithTimeout(p.ctx, limit+stopTime+p.patience)
	defer cancel()
	printed, err := p.driver.Run(ctx, "given.mjs", config)
	var m map[string]any
	if err == nil {
		m, err = decode(p.folder.normal(bytes.TrimSpace(printed)))
	}
	if err != nil { // which the client's process does not survive
		p.drivers.Fail(p.driver)
		p.driver = nil
		return map[string]any{"failed": fmt.Sprintf("the client failed in %s: %.200s", step, p.folder.normal([]byte(err.Error())))}
	}
	each(m["told"], p.notes.noteTold)
	each(m["asked"], p.notes.noteAsked)
	delete(m, "told")
	delete(m, "asked")
	if m["ended"] == true {
		return map[string]any{"failed": "the connection ended"}
	}
	return m
}

// each calls note with each of the messages in a list.
func each(list any, note func(method string, params map[string]any)) {
	messages, _ := list.([]any)
	for _, m := range messages {
		m, _ := m.(map[string]any)
		method, _ := m["method"].(string)
		params, _ := m["params"].(map[string]any)
		note(method, params)
	}
}
