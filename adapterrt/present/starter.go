package present

import (
	"strings"
)

// Starter returns a commented adapter file for a new adapter called name, which must be
// a valid adapter name.
func Starter(name string) string {
	return strings.ReplaceAll(starter, "NAME", name)
}

const starter = `---
# What the adapter is. The file is called NAME-adapter.md.
name: NAME
type: adapter
version: "0.1.0" # quoted, so that it is a string
description: "What the API is about, in one sentence"

# Where the API is: https, with an optional path prefix, without a slash at the end.
target:
  base_url: "https://api.example.com/v1"
  transport: http
  protocol: rest
  serialization: json
  # headers: {X-Api-Version: "2"}
  # timeout_ms: 30000

# How to authenticate. Credentials stay in the environment; the file has only the names of the variables.
# auth:
#   type: bearer # or api_key, basic, oauth, aws-sig4, mtls
#   token_env: EXAMPLE_TOKEN

# What the API allows, and how long a call waits for its turn.
# rate_limits: {requests_per_minute: 60, burst_limit: 10, max_wait_ms: 2000}

# After so many calls in a row without an answer, the API is left alone for a while.
# breaker: {failures: 5, open_ms: 10000}

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

What people should know. The adapter test command runs the examples, offline.

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
