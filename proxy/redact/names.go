package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// class says what the name of a value tells of it.
type class uint8

const (
	plain  class = iota
	hidden       // the value is a secret
	handle       // the value grants access to something of the protocol
)

// secretWords are the words that make a name that of a secret, without case, dashes, underscores, dots and blanks.
var secretWords = []string{
	"token", "secret", "passw", "passphrase", "credential", "authorization", "cookie",
	"apikey", "accesskey", "privatekey", "signingkey", "encryptionkey",
}

// handleNames are the names of values that grant access, in the same form.
var handleNames = map[string]bool{
	"requeststate": true, "mcpsessionid": true, "sessionid": true, "taskid": true,
	"cursor": true, "nextcursor": true, "endcursor": true, "pagetoken": true, "nextpagetoken": true,
	"confirmation": true, "confirmationtoken": true,
}

// harmlessNames have a word for a secret in them and are no secrets.
var harmlessNames = map[string]bool{"progresstoken": true, "tokentype": true, "tokenizer": true}

// classify returns the class of the value that has this name.
func classify(name, value string) class {
	var buf [64]byte
	b := buf[:0]
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '-' || c == '_' || c == '.' || c == ' ':
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		default:
			b = append(b, c)
		}
	}
	n := string(b)
	switch {
	case handleNames[n]:
		return handle
	case harmlessNames[n]:
		return plain
	}
	for _, word := range secretWords {
		if strings.Contains(n, word) {
			if word == "token" && strings.Contains(n, "tokens") && isCount(value) {
				continue // a number of tokens
			}
			return hidden
		}
	}
	return plain
}

// isCount reports whether a value is a number of things.
func isCount(value string) bool {
	for i := 0; i < len(value); i++ {
		if c := value[i]; (c < '0' || c > '9') && c != ',' && c != '.' {
			return false
		}
	}
	return value != "" && len(value) <= 12
}

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
