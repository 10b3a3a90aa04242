package sealed

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// KeyBytes is the length of a key that session ids are sealed with.
const KeyBytes = 32

// ReadKeys returns the keys in file; without a file, one new random key.
func ReadKeys(file string) ([][]byte, error) {
	if file == "" {
		key := make([]byte, KeyBytes)
		rand.Read(key) // never fails
		return [][]byte{key}, nil
	}
	text, err := config.ReadSmall(file)
	if err != nil {
		return nil, fmt.Errorf("session.key_file: %w", err)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("session.key_file %s: %w", file, err)
	}
	return keys, nil
}

// parseKeys reads one or two lines with one key each. Its errors do not contain the
// keys.
func parseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		key := parseKey(strings.TrimSpace(line))
		switch {
		case key == nil:
			return nil, fmt.Errorf("line %d: not %d bytes in base64 or hex", i+1, KeyBytes)
		case len(keys) == 2:
			return nil, errors.New("more than two keys")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// parseKey returns the key in text, or nil if text holds none. The length of text says
// which encoding it is.
func parseKey(text string) []byte {
	var key []byte
	var err error
	switch len(text) {
	case hex.EncodedLen(KeyBytes):
		key, err = hex.DecodeString(text)
	case base64.StdEncoding.EncodedLen(KeyBytes):
		key, err = base64.StdEncoding.DecodeString(text)
		if err != nil {
			key, err = base64.URLEncoding.DecodeString(text)
		}
	case base64.RawStdEncoding.EncodedLen(KeyBytes):
		key, err = base64.RawStdEncoding.DecodeString(text)
		if err != nil {
			key, err = base64.RawURLEncoding.DecodeString(text)
		}
	}
	if err != nil || len(key) != KeyBytes {
		return nil
	}
	return key
}
