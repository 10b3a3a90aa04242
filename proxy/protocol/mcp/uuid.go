package mcp

import (
	"crypto/rand"
	"fmt"
)

// NewUUID returns a random UUID (https://www.rfc-editor.org/rfc/rfc9562#section-5.4).
func NewUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
