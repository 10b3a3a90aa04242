package store

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"slices"
	"sync"
)

// vault names keys and seals values. Without secrets it only adds the tags.
type vault struct {
	prefix  string
	secrets []*secret // the first names and seals
}

type secret struct {
	names, tags *mac
	box         cipher.AEAD // with random nonces, for values
	fixed       cipher.AEAD // with a nonce made of the text, so that a member of a set is always the same bytes
}

// newVault returns the vault of these keys, of any length.
func newVault(keys [][]byte, prefix string) *vault {
	v := &vault{prefix: prefix}
	for _, key := range keys {
		by := &mac{key: key}
		derive := func(use string) []byte { return by.sum([]byte("dragoman store " + use)) }
		aead := func(use string, make func(cipher.Block) (cipher.AEAD, error)) cipher.AEAD {
			block, _ := aes.NewCipher(derive(use)) // fails only for keys of other lengths than those of SHA-256
			a, _ := make(block)                    // fails only for blocks of other sizes than those of AES
			return a
		}
		v.secrets = append(v.secrets, &secret{
			&mac{key: derive("names")}, &mac{key: derive("tags")},
			aead("values", cipher.NewGCMWithRandomNonce), aead("members", cipher.NewGCM),
		})
	}
	return v
}

// is reports whether both have the same secrets.
func (v *vault) is(other *vault) bool {
	return slices.EqualFunc(v.secrets, other.secrets, func(a, b *secret) bool { return bytes.Equal(a.names.key, b.names.key) })
}

// mac makes sums with a key.
type mac struct {
	key  []byte
	free sync.Pool // of hash.Hash, since each operation needs some, and to begin one again costs less than to make one
}

func (m *mac) sum(parts ...[]byte) []byte {
	h, again := m.free.Get().(hash.Hash)
	if again {
		h.Reset()
	} else {
		h = hmac.New(sha256.New, m.key)
	}
	defer m.free.Put(h)
	for _, part := range parts {
		h.Write(part)
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// names returns how the engine knows a key: one name for each secret.
func (v *vault) names(k Key) ([]string, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	if len(v.secrets) == 0 {
		return []string{v.prefix + k.Kind + ":" + k.Name}, nil
	}
	names := make([]string, len(v.secrets))
	for i, s := range v.secrets {
		mac := s.names.sum([]byte(k.Kind), []byte(k.Name))
		names[i] = v.prefix + k.Kind + ":" + base64.RawURLEncoding.EncodeToString(mac[:18])
	}
	return names, nil
}

// tags returns the tags that value can have at k.
func (v *vault) tags(k Key, value []byte) [][]byte {
	if len(v.secrets) == 0 {
		mac := sha256.Sum256(value)
		return [][]byte{mac[:tagBytes]}
	}
	tags := make([][]byte, len(v.secrets))
	for i, s := range v.secrets {
		tags[i] = s.tags.sum([]byte(k.Kind), []byte(k.Name), value)[:tagBytes]
	}
	return tags
}

// seal returns what the engine keeps for value.
func (v *vault) seal(k Key, value []byte) []byte {
	out := make([]byte, 0, len(value)+overhead)
	out = append(out, v.tags(k, value)[0]...)
	if len(v.secrets) == 0 {
		return append(out, value...)
	}
	return v.secrets[0].box.Seal(out, nil, value, k.use())
}

// open returns the value of what seal has made.
func (v *vault) open(k Key, kept []byte) ([]byte, error) {
	if len(kept) < tagBytes {
		return nil, errUnreadable
	}
	if len(v.secrets) == 0 {
		return kept[tagBytes:], nil
	}
	for _, s := range v.secrets {
		if value, err := s.box.Open(nil, nil, kept[tagBytes:], k.use()); err == nil {
			return value, nil
		}
	}
	return nil, errUnreadable
}

// members returns the bytes that may stand for a member of the set k: the same ones each time, one for each secret.
func (v *vault) members(k Key, name []byte) [][]byte {
	if len(v.secrets) == 0 {
		return [][]byte{name}
	}
	all := make([][]byte, len(v.secrets))
	for i, s := range v.secrets {
		nonce := s.tags.sum([]byte(k.Kind), []byte(k.Name), []byte("member"), name)[:s.fixed.NonceSize()]
		all[i] = s.fixed.Seal(nonce[:len(nonce):len(nonce)], nonce, name, k.use())
	}
	return all
}

func (v *vault) openMember(k Key, kept []byte) ([]byte, error) {
	if len(v.secrets) == 0 {
		return kept, nil
	}
	for _, s := range v.secrets {
		n := s.fixed.NonceSize()
		if len(kept) < n {
			break
		}
		if name, err := s.fixed.Open(nil, kept[:n], kept[n:], k.use()); err == nil {
			return name, nil
		}
	}
	return nil, errUnreadable
}
