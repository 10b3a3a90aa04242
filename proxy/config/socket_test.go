//go:build linux || darwin

package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestListenAtSocket: the address and the mode of a unix socket, as people write them.
func TestListenAtSocket(t *testing.T) {
	for text, want := range map[string]fs.FileMode{
		"listen: unix:/run/x.sock":                                                    0o600,
		"listen: unix:///run/x.sock\nlisten_mode: \"0660\"":                           0o660,
		"listen: unix:/run/x.sock\nlisten_mode: 0666":                                 0o666,
		"listen: unix:/run/x.sock\nlisten_mode: '660'":                                0o660,
		"listen: unix:8808":                                                           0o600, // a host of this name
		"listen: unix:/run/x.sock\nauth: {tokens: [a]}\ncors: {origins: [https://a]}": 0o600,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Sources{File: path}.Read()
		if err != nil || c.SocketMode() != want {
			t.Errorf("%q: %v %v", text, c.SocketMode(), err)
		}
	}
}
