package present

import (
	"strings"
)

// Starter is a commented adapter file for a new adapter of that name, which must
// be one that adapters may have.
func Starter(name string) string {
	return strings.ReplaceAll(starter, "NAME", name)
}

const starter = `---
# What the adapter is. The file is called NAME-adapter.md.
name: NAME
type: adapter
version: "0.1.0" # quoted, or YAML makes a number of it
description: "What the API is about, in one sentence"

# Where the API lives. https, no slash at the end; a path prefix may follow.
target:
  base_url: "https://api.example.com/v1"
  transport: http
  protocol: rest
  serialization: json
  # headers: {X-Api-Version: "2"}
  # timeout_ms: 30000

# How to sign in. Credentials stay in the environment; only their names are here.
# auth:
#   type: bearer
#   token_env: EXAMPLE_TOKEN

operations:
  create:
    - name: create_item
      maps_to: "POST /items"
      description: "Create an item"
      params:
        title: {type: string, required: true, description: "What it is called"}
        tags: {type: array, items: {type: string}}
  read:
    - name: get_item
      maps_to: "GET /items/{id}"
      description: "Get one item"
      params:
        id: {type: string, required: true, description: "Which item"}
    - name: list_items
      maps_to: "GET /items"
      description: "List items"
      params:
        state: {type: string, enum: [open, closed, all], default: open}
  # update, delete and execute are like these.
---

# NAME

What people should know. The examples are played by the adapter test command, offline.

` + "```" + `golden
{"operation":"get_item","params":{"id":"7"}}
-- sends --
GET https://api.example.com/v1/items/7
-- receives --
200 application/json
{"id":"7","title":"First"}
-- want --
{"success":true,"data":{"id":"7","title":"First"}}
` + "```" + `
`
