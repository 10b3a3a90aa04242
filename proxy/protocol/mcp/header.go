package mcp

// Header is one header of a response.
type Header struct{ Name, Value string }
