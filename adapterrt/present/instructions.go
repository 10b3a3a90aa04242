package present

import (
	"strconv"
	"strings"
)

// maxInstructions is the largest number of bytes of the instructions. The first leadInstructions
// bytes must be understandable alone, for clients that show no more.
const maxInstructions, leadInstructions = 2048, 512

// Instructions returns what a model should know about all the tools together, for the
// result of initialize. Its first 512 characters can be read alone. It is ASCII and at
// most 2,048 bytes long. It is "" if there are no adapters. mode must not be Auto.
func Instructions(mode Mode, adapters []string) string {
	if len(adapters) == 0 {
		return ""
	}
	var b strings.Builder
	token := "params._confirmation"
	switch mode {
	case Discrete:
		b.WriteString("Each tool is one operation of an HTTP API; objects and arrays are JSON values, not strings. ")
		token = "the argument _confirmation"
	case Search:
		b.WriteString("Say in a few words to search_operations what you want to do. It answers with signatures: call those marked [read] with call_read and the others with call_write. ")
		b.WriteString("Send {\"operation\":\"NAME\",\"params\":{...}}; objects and arrays are JSON values, not strings. Ask describe_operations where a signature does not say enough. ")
	default:
		b.WriteString("Schema first: before an operation you do not know, call introspect (params {\"query\":\"operations\",\"name\":\"NAME\"}) for its typed parameters. ")
		b.WriteString("Send {\"operation\":\"NAME\",\"params\":{...}}; objects and arrays are JSON values, not strings. ")
		if len(adapters) > 1 {
			b.WriteString("Several APIs share the tools: where a name is ambiguous, set adapter, or write ADAPTER.NAME. ")
		} else {
			b.WriteString("All operations belong to one adapter; ids of connections go where parameters ask for them. ")
		}
	}
	b.WriteString("Read little: page with first and after, narrow with fields and filters.")
	b.WriteString("\nResults are {success,data} or {success:false,error:{code,message,details}}; mend VALIDATION errors by their details and try again.")
	b.WriteString(" An operation that needs confirmation returns a token: ask the user, then repeat the request with " + token + ".")
	b.WriteString(" Wait as long as a rate limit says.\nAdapters: ")
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
