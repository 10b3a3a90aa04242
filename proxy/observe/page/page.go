// Package page is the page that shows what passes through dragoman while it does: plain HTML, CSS and modules in JavaScript,
// which browsers load as they are here. types.d.ts describes what the page gets, and browsers never load it;
// npx -p typescript@7.0.2 tsc -p proxy/observe/page checks the modules against it.
//
// Everything that the page shows was written by a peer. It becomes text by way of textContent only, through safe of
// dom.js, which shows characters that hide or reorder text as escapes.
package page

import (
	"embed"
	"io/fs"
)

//go:embed page.html page.css *.js
var files embed.FS

// Files has the files of the page by their names: page.html is the page itself, the others stand beside it.
func Files() fs.FS { return files }
