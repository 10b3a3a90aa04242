package file

import (
	"path/filepath"
	"strings"
)

// AtHome returns a path in which ~ at the beginning is replaced by the home directory. A shell does that too, but not behind = or in
// quotes, and not in files.
func AtHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && home != "" && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		return home + rest
	}
	return path
}

// place returns the path that a value is, which may begin with ~.
func (c *checker) place(v *node) string {
	if c.opt.Getenv == nil {
		return v.text
	}
	home, _ := c.opt.Getenv("HOME")
	return AtHome(v.text, home)
}
