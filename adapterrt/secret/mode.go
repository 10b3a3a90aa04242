package secret

import (
	"fmt"
	"os"
	"runtime"
)

// OpenToOthers says what is wrong with the mode of a file with a secret, and what to do; "" if nothing is, or the file cannot be looked at.
//
// The group may read a file of another owner, which is how a volume of Kubernetes (fsGroup) or a file of root's gives a
// secret to a service. A file of our own needs no group.
func OpenToOthers(path string) (what, do string) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" {
		return "", "" // whatever reads it says so; or it has no mode
	}
	mode, wrong := info.Mode().Perm(), os.FileMode(0o027)
	if ownedByUs(info) {
		wrong = 0o077
	}
	can := ""
	switch mode &= wrong; {
	case mode&0o044 != 0 && mode&0o022 != 0:
		can = "read or change"
	case mode&0o044 != 0:
		can = "read"
	case mode&0o022 != 0:
		can = "change"
	default:
		return "", ""
	}
	return fmt.Sprintf("%s has mode %04o: other users of this machine can %s it", path, info.Mode().Perm(), can),
		"chmod 600 " + path + "; in Kubernetes defaultMode: 0400 or 0440 of the volume"
}
