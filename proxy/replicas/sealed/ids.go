package sealed

import "crypto/subtle"

// ID names a process, or a call that waits in it.
type ID [16]byte

// Owner stands for the client that a session belongs to, as far as it is identified by
// something that stays while its credentials are refreshed: the token that opened the
// listener, and the header or the claims that bridge.principal names. It is a hash, and
// part of the sealed session id. Where bridge.principal is authorization the server
// judges each request, and nothing of it is in here. The zero mark stands for a client
// that nothing identifies.
type Owner [16]byte

// Is reports whether both stand for one client, in constant time.
func (m Owner) Is(other Owner) bool { return subtle.ConstantTimeCompare(m[:], other[:]) == 1 }
