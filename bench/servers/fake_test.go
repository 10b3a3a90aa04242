package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain is also the servers and the proxies of the tests: this binary, started again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fake-server" {
		serveFake(os.Getenv("FAKE_SERVER"))
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "stdio" {
		proxyFake(os.Getenv("FAKE_PROXY"))
		return
	}
	os.Exit(m.Run())
}

// serveFake is a server of both eras on stdin and stdout that hangs or ends when its tools are listed, if manner says so.
func serveFake(manner string) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ ProtocolVersion string }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		answer := `"error":{"code":-32601,"message":"Method not found"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"` + m.Params.ProtocolVersion + `","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`
		case "server/discover":
			answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
				`"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}}}`
		case "ping":
			answer = `"result":{}`
		case "tools/list":
			switch manner {
			case "crashes":
				os.Stderr.WriteString("out of order\n")
				os.Exit(1)
			case "hangs":
				io.Copy(io.Discard, os.Stdin)
				return
			}
			answer = `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"greet","title":"Greet","description":"Greets","inputSchema":{"type":"object"}}]}`
		}
		os.Stdout.WriteString(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + "}\n")
	}
}

// proxyFake stands before the command behind "--", and replaces text in what the server writes: "OLD=NEW for REVISION" in one
// session, "OLD=NEW" in all.
func proxyFake(manner string) {
	command := os.Args[1:]
	for command[0] != "--" {
		command = command[1:]
	}
	change, revision, _ := strings.Cut(manner, " for ")
	from, to, _ := strings.Cut(change, "=")
	cmd := exec.Command(command[1], command[2:]...)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if cmd.Start() != nil {
		os.Exit(1)
	}
	reader := bufio.NewReader(os.Stdin)
	first, _ := reader.ReadBytes('\n')
	in.Write(first)
	go func() {
		io.Copy(in, reader)
		in.Close()
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Bytes()
		if bytes.Contains(first, []byte(revision)) {
			line = bytes.ReplaceAll(line, []byte(from), []byte(to))
		}
		os.Stdout.Write(append(bytes.Clone(line), '\n'))
	}
	cmd.Wait()
}
