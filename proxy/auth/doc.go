// Package auth holds logins. What is sent to an authorization server is in oauthclient, beside proxy, which adapters use too.
//
//   - oauth keeps tokens, whatever they are for, and renews them;
//   - oauthrelay forwards the requests of OAuth clients to the server, and reads no token.
package auth
