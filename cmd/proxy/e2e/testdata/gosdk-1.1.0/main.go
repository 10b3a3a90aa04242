// Command gosdk-1.1.0 calls tools with an old Go SDK, as caller.mjs does with the
// TypeScript SDKs: it prints the names of the tools, and each line on stdin is a call.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "dragoman-e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Args[1]}, nil)
	if err != nil {
		log.Fatal(err)
	}
	print := json.NewEncoder(os.Stdout)
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	names := []string{}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	_ = print.Encode(map[string]any{"tools": names})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var call mcp.CallToolParams
		if err := json.Unmarshal(in.Bytes(), &call); err != nil {
			log.Fatal(err)
		}
		if result, err := session.CallTool(ctx, &call); err != nil {
			_ = print.Encode(map[string]any{"error": err.Error()})
		} else {
			_ = print.Encode(map[string]any{"result": result})
		}
	}
	_ = session.Close()
}
