package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

func fingerprint(value string) string {
	if value == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// The text that stands for a value that grants access.
const (
	handleOpen  = "[handle "
	handleClose = "]"
)

// handled returns what a message or text shows in the place of a value that grants access. What is such a text already stays.
func handled(value string) string {
	if inner, ok := strings.CutPrefix(value, handleOpen); ok {
		if inner, ok = strings.CutSuffix(inner, handleClose); ok && len(inner) == 16 && strings.Trim(inner, "0123456789abcdef") == "" {
			return value
		}
	}
	if value == "" || value == Struck {
		return value
	}
	return handleOpen + fingerprint(value) + handleClose
}

// Struck stands in the place of a secret.
const Struck = secret.Struck

// minSecret is the length below which a value is too common to be struck out wherever it is.
const minSecret = secret.Shortest
