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
// most 2,048 bytes long. It is "" if there are no adapters.
func Instructions(adapters []string) string {
	if len(adapters) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Schema first: before an operation you do not know, call introspect (params {\"query\":\"operations\",\"name\":\"NAME\"}) for its typed parameters. ")
	b.WriteString("Send {\"operation\":\"NAME\",\"params\":{...}}; objects and arrays are JSON values, not strings. ")
	if len(adapters) > 1 {
		b.WriteString("Several APIs share the tools: where a name is ambiguous, set adapter, or write ADAPTER.NAME. ")
	} else {
		b.WriteString("All operations belong to one adapter; ids of connections go where parameters ask for them. ")
	}
	b.WriteString("Read little: page with first and after, narrow with fields and filters.")
	b.WriteString("\nResults are {success,data} or {success:false,error:{code,message,details}}; mend VALIDATION errors by their details and try again.")
	b.WriteString(" An operation that needs confirmation returns a token: ask the user, then repeat the request with params._confirmation.")
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
