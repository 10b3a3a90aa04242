package present

import (
	"strconv"
	"strings"
)

// maxInstructions is the largest number of bytes of the instructions, and maxLead that of their first line, without the
// operator's words: some clients show no more.
const maxInstructions, maxLead = 2048, 512

// Instructions returns what a model should know about all the tools together, for the
// result of initialize. Its first line can be read alone: in at most 512 characters of ASCII it says how to find
// schemas, tell connections apart, filter and page. Behind that it has the operator's words, which have no line break. All
// of it has at most 2,048 bytes if words has at most 500. It is "" if there are no adapters. mode must not be Auto.
func Instructions(mode Mode, adapters []string, words string) string {
	if len(adapters) == 0 {
		return ""
	}
	var b strings.Builder
	token := "params._confirmation"
	several := len(adapters) > 1
	switch mode {
	case Discrete:
		b.WriteString("Schema first: each tool is one operation of an HTTP API; read its inputSchema, and look up ids and values that you do not know with tools that read. ")
		b.WriteString("Filters are typed: objects and arrays are JSON values, not strings. ")
		if several {
			b.WriteString("Where APIs have like tools, choose by the prefix ADAPTER_. ")
		}
		token = "the argument _confirmation"
	case Search:
		b.WriteString("Schema first: say to search_operations in a few words what you want; call what its signatures mark [read] with call_read, the rest with call_write, ")
		b.WriteString("and ask describe_operations for more. Send {\"operation\":\"NAME\",\"params\":{...}}; filters are typed: objects and arrays are JSON values, not strings. ")
		if several {
			b.WriteString("Ambiguous names: ADAPTER.NAME. ")
		}
	default:
		b.WriteString("Schema first: before an operation you do not know, call introspect (params {\"query\":\"operations\",\"name\":\"NAME\"}) for its typed parameters. ")
		b.WriteString("Send {\"operation\":\"NAME\",\"params\":{...}}; typed filters: objects and arrays are JSON values, not strings. ")
		if several {
			b.WriteString("Where a name is ambiguous, set adapter, or write ADAPTER.NAME. ")
		} else {
			b.WriteString("All operations belong to one adapter. ")
		}
	}
	b.WriteString("Of several connections, name one with connection_id; do not guess. ")
	b.WriteString("Read little: page with first and after, narrow with fields and filters.")
	if words != "" {
		b.WriteString(" " + words)
	}
	b.WriteString("\nResults are {success,data} or {success:false,error:{code,message,details}}; mend VALIDATION errors by their details and try again.")
	b.WriteString(" An operation that needs confirmation returns a token: ask the user, then repeat the request with " + token + ".")
	b.WriteString(" Wait as long as a rate limit says.")
	b.WriteString(" You see what this client may use: what is missing or denied stays so; tell the user, and look for no other credential.")
	b.WriteString(" Before you subscribe to events, read which of them the API has, and how it delivers and signs them.\nAdapters: ")
	for i, a := range adapters {
		if b.Len()+len(a)+30 > maxInstructions {
			b.WriteString(" and " + strconv.Itoa(len(adapters)-i) + " more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a)
	}
	b.WriteString(".")
	return b.String()
}
