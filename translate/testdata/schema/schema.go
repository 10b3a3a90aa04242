// Package schema holds the official JSON Schema of each revision for programs that check what peers get. Tests read the files beside it.
package schema

import "embed"

// Files has REVISION.json for each revision.
//
//go:embed *.json
var Files embed.FS
