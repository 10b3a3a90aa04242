// Package credential adds an adapter's credentials to its requests.
//
// A file names where a credential is, never what it is. The [Keeper] finds it there,
// in the environment or in a file, each time it is needed, so that a renewed one is
// taken. A [Signer] belongs to one adapter: [Signer.Authorize] puts the credential
// into a request and notes its text among the request's secrets, so that no failure
// shows it; [Signer.Renew] replaces an OAuth token that the API refused.
//
// OAuth tokens are fetched by one caller at a time and kept in memory. Client
// certificates belong to the connection: see [PresentCertificate].
package credential
