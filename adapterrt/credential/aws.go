package credential

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// signAWS makes o sign itself for a service of AWS when it is sent.
func (s *Signer) signAWS(o *httpcall.Outgoing, w *file.AWS, missing *[]string) *failure.Failure {
	var keys aws.Credentials
	for _, k := range [...]struct {
		from file.Credential
		to   *string
	}{{w.ID, &keys.AccessKeyID}, {w.Secret, &keys.SecretAccessKey}, {w.Session, &keys.SessionToken}} {
		if k.from == (file.Credential{}) {
			continue
		}
		v, f := s.valueOf(k.from, missing)
		if f != nil {
			return f
		}
		*k.to = v
		o.Secrets = append(o.Secrets, v)
	}
	// S3 takes a path as it is, and wants the digest of the body in a header:
	// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
	s3 := w.Service == "s3" || strings.HasPrefix(w.Service, "s3-") || strings.HasPrefix(w.Service, "s3express")
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = s3 })
	o.Sign = func(req *http.Request, body []byte) error {
		sum := sha256.Sum256(body)
		digest := hex.EncodeToString(sum[:])
		if s3 {
			req.Header.Set("X-Amz-Content-Sha256", digest)
		}
		req.Header.Del("Authorization") // of the request that was redirected
		return signer.SignHTTP(req.Context(), keys, req, digest, w.Service, w.Region, s.keeper.Now())
	}
	return nil
}
