package httpcall

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// tlsProblem returns a message for a failed TLS handshake, or "" if err is another error.
func tlsProblem(err error) string {
	var (
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		verify  *tls.CertificateVerificationError
		op      *net.OpError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "certificate expired"
	case errors.As(err, &unknown):
		return "unknown authority"
	case errors.As(err, &name):
		return "name mismatch"
	case errors.As(err, &record), errors.As(err, &alert), errors.As(err, &verify), errors.As(err, &invalid),
		errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"), strings.Contains(err.Error(), "tls: "):
		return "handshake failed"
	}
	return ""
}
