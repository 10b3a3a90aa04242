// Package credential adds an adapter's credentials to its requests.
//
// An adapter file says where a credential is, never what it is. The [Keeper] reads it
// there, from the environment or from a file, each time it is needed, so that a renewed
// credential is used. A [Signer] belongs to one adapter: [Signer.Authorize] adds the
// credential to a request and to the request's list of secrets, so that no failure
// shows it; [Signer.Renew] replaces a token that the API refused.
//
// Only one call at a time fetches the token of an adapter; the others wait for it. Tokens
// are kept in memory, and the tokens of a login also in the [Store]. Client certificates
// belong to the connection: see [PresentCertificate].
package credential
