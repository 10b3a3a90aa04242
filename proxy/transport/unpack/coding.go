package unpack

import (
	"fmt"
	"strings"
)

// MaxWindow is the largest window that a decoder is given, in bytes. It is that of RFC 9659.
const MaxWindow = 8 << 20

// Coding is a content coding. See https://www.rfc-editor.org/rfc/rfc9110#section-8.4.1.
type Coding uint8

// The codings.
const (
	Identity Coding = iota
	Gzip
	Deflate // with the header of zlib, or raw, as some servers send it
	Brotli
	Zstd
)

var names = [...]string{Identity: "identity", Gzip: "gzip", Deflate: "deflate", Brotli: "br", Zstd: "zstd"}

func (c Coding) String() string { return names[c] }

// UnknownError is a Content-Encoding that is not decoded.
type UnknownError struct {
	Encoding string // at most 100 bytes of it
	Several  bool   // it names more than one coding
}

func (e *UnknownError) Error() string {
	if e.Several {
		return fmt.Sprintf("response with the Content-Encoding %q: only one is decoded", e.Encoding)
	}
	return fmt.Sprintf("response with the Content-Encoding %q, expected none, gzip, deflate, br or zstd", e.Encoding)
}

// Of returns the coding that a Content-Encoding names. The error is an [*UnknownError].
func Of(encoding []byte) (Coding, error) {
	found := Identity
	for name := range strings.SplitSeq(string(encoding[:min(len(encoding), 1000)]), ",") {
		c := Identity
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "", "identity":
			continue
		case "gzip", "x-gzip":
			c = Gzip
		case "deflate":
			c = Deflate
		case "br":
			c = Brotli
		case "zstd":
			c = Zstd
		}
		if c == Identity || found != Identity {
			return Identity, &UnknownError{string(encoding[:min(len(encoding), 100)]), found != Identity}
		}
		found = c
	}
	return found, nil
}
