package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest returns what tells two configurations apart, without telling anything of them.
func (c *Config) Digest() string {
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
