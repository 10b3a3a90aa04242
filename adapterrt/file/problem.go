package file

import (
	"fmt"
	"slices"
	"strconv"
)

// Severity is the severity of a [Problem].
type Severity string

// An adapter with an Error is not loaded; one with a Warning is.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// The codes of problems that are found when adapter files are loaded.
const (
	SchemaParseError         = "SCHEMA_PARSE_ERROR"
	SchemaMissingField       = "SCHEMA_MISSING_FIELD"
	SchemaInvalidType        = "SCHEMA_INVALID_TYPE"
	SchemaInvalidName        = "SCHEMA_INVALID_NAME"
	SchemaInvalidValue       = "SCHEMA_INVALID_VALUE"
	SchemaDuplicateName      = "SCHEMA_DUPLICATE_NAME"
	SchemaUnresolvedRef      = "SCHEMA_UNRESOLVED_REF"
	SchemaUnknownField       = "SCHEMA_UNKNOWN_FIELD"
	SchemaEmbeddedCredential = "SCHEMA_EMBEDDED_CREDENTIAL"
	PluginNotFound           = "PLUGIN_NOT_FOUND"
	ProtocolInvalidMapping   = "PROTOCOL_INVALID_MAPPING"
	AuthConfigInvalid        = "AUTH_CONFIG_INVALID"
)

// Problem is one mistake in an adapter file.
type Problem struct {
	Path     string   `json:"path"` // operations.read[0].params.owner.type; "" for the file as a whole
	Message  string   `json:"message"`
	Expected string   `json:"expected,omitempty"`
	Received string   `json:"received,omitempty"`
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // from 1; 0 if the problem belongs to no single line
}

// String returns the problem on one line, in the format of compilers.
func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
	}
	s += ": " + string(p.Severity) + ": "
	if p.Path != "" {
		s += p.Path + ": "
	}
	s += p.Message
	if p.Expected != "" {
		s += ", expected " + p.Expected
	}
	if p.Received != "" {
		s += ", received " + p.Received
	}
	return s + " [" + p.Code + "]"
}

// LoadError says that adapter files were refused. Problems holds the problems of all files,
// including warnings.
type LoadError struct{ Problems []Problem }

func (e *LoadError) Error() string {
	n, first := 0, ""
	for _, p := range e.Problems {
		if p.Severity == Error {
			if n++; n == 1 {
				first = p.String()
			}
		}
	}
	if n == 1 {
		return "adapters: " + first
	}
	return fmt.Sprintf("adapters: %d errors, the first: %s", n, first)
}

// HasError reports whether one of the problems is an Error.
func HasError(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Error })
}
