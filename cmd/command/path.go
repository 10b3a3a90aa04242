package command

import (
	"fmt"
	"os"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// onePath is the value of a flag that names one file or directory. A ~ that no shell has replaced, as behind --config=, is replaced
// by the home directory.
type onePath struct {
	path  *string
	given bool
}

// Set takes the path. A second one is refused: it would silently replace the first, of which people expect that both count.
func (p *onePath) Set(path string) error {
	if p.given {
		return fmt.Errorf("is given twice, as %s and as %s: keep one", *p.path, path)
	}
	*p.path, p.given = atHome(path), true
	return nil
}

// String returns the path.
func (p *onePath) String() string {
	if p.path == nil {
		return ""
	}
	return *p.path
}

// Type is what the help says of the value.
func (p *onePath) Type() string { return "string" }

// atHome replaces ~ at the beginning of a path by the home directory.
func atHome(path string) string {
	return file.AtHome(path, config.Sources{Environ: os.Environ()}.Home())
}
