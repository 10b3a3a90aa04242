package oauth

import (
	"crypto"
	"crypto/elliptic"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// privateKeyJWT is the token_endpoint_auth_method of a client with a [Key].
const privateKeyJWT = "private_key_jwt"

// Key is a private key with which a client authenticates, instead of a secret:
// https://www.rfc-editor.org/rfc/rfc7523#section-2.2.
type Key struct {
	ID               string // kid; "" to send none
	ForTokenEndpoint bool   // the proof names the token endpoint as its audience, and not the issuer

	method  jwt.SigningMethod
	private crypto.Signer
}

// ReadKey reads a private key in PEM: an EC key on the curve P-256, or an RSA key.
func ReadKey(path string) (*Key, error) {
	text, err := plaintext.Read(path, maxTokenFile)
	if err != nil {
		return nil, err
	}
	if ec, err := jwt.ParseECPrivateKeyFromPEM(text); err == nil {
		if ec.Curve != elliptic.P256() {
			return nil, fmt.Errorf("%s: an EC key must be on the curve P-256, for ES256", path)
		}
		return &Key{method: jwt.SigningMethodES256, private: ec}, nil
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM(text)
	switch {
	case errors.Is(err, jwt.ErrKeyMustBePEMEncoded):
		return nil, fmt.Errorf("%s holds no PEM block", path)
	case err != nil: // not its text, which might repeat parts of the file
		return nil, fmt.Errorf("%s holds no private key that can be used: an EC key on P-256 or an RSA key, without a password", path)
	case key.N.BitLen() < minRSA:
		return nil, fmt.Errorf("%s: an RSA key must have %d bits or more", path, minRSA)
	}
	return &Key{method: jwt.SigningMethodRS256, private: key}, nil
}

// minRSA is the least size of an RSA key for RS256: https://www.rfc-editor.org/rfc/rfc7518#section-3.3.
const minRSA = 2048

// assertion proves to an authorization server that a request is of the client id.
func (k *Key) assertion(id string, m *serverMetadata, now time.Time) (string, error) {
	audience := m.Issuer
	if k.ForTokenEndpoint {
		audience = m.Token
	}
	signed, err := oauthclient.Assertion(k.private, k.method, k.ID, id, audience, now)
	if err != nil {
		return "", fmt.Errorf("cannot sign with the client's key: %w", err)
	}
	return signed, nil
}

// maxTokenFile is the size of a token file that is read.
const maxTokenFile = 64 << 10
