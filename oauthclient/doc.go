// Package oauthclient sends the requests of an OAuth client to the endpoints of an authorization server, and reads their
// answers: tokens, refusals, and what is neither.
//
// A [Client] authenticates with a secret, with an [Assertion] that a private key has signed, or only names itself. It
// neither stores tokens nor knows where they come from: the logins at MCP servers (proxy/auth/oauth) and the credentials of
// adapters (adapterrt/credential) use it, and put its errors into words of their own. The texts of an authorization server
// in a [Refusal] are as it has sent them, so that the caller can remove what people must not see.
package oauthclient
