package credential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// assertion returns a signed JWT that authenticates the client:
// https://www.rfc-editor.org/rfc/rfc7523#section-3
func (s *Signer) assertion(id string) (string, error) {
	o := s.adapter.Auth.OAuth
	text, err := s.keeper.files.get(o.Key.File)
	if err != nil {
		return "", fmt.Errorf("client_key_file: %w", err)
	}
	key, err := privateKey([]byte(text))
	if err != nil {
		return "", fmt.Errorf("client_key_file %s: %w", o.Key.File, err)
	}
	method, err := signingMethod(o.Key.Algorithm, key)
	if err != nil {
		return "", fmt.Errorf("client_key_file %s: %w", o.Key.File, err)
	}
	return oauthclient.Assertion(key, method, o.Key.ID, id, o.URL, s.keeper.Now())
}

func privateKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it contains no PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("it contains no private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", key)
	}
	return signer, nil
}

// signingMethod returns the algorithm called name. If name is "", it returns the default
// algorithm for the type of key.
func signingMethod(name string, key crypto.Signer) (jwt.SigningMethod, error) {
	fits := ""
	switch k := key.(type) {
	case *rsa.PrivateKey:
		fits = "RS256 PS256"
	case *ecdsa.PrivateKey:
		if k.Curve == elliptic.P256() {
			fits = "ES256"
		}
	}
	switch {
	case fits == "":
		return nil, errors.New("the key must be an RSA key or an EC key on the curve P-256")
	case name == "":
		name = fits[:5]
	case name != fits[:5] && name != fits[max(0, len(fits)-5):]:
		return nil, fmt.Errorf("alg %s does not fit the key, which is for %s", name, fits)
	}
	return jwt.GetSigningMethod(name), nil
}
