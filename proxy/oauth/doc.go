// Package oauth has what dragoman's OAuth clients share. It depends neither on MCP nor on
// adapters.
//
// A [Store] keeps tokens across restarts and shares them with other processes. It has one
// file per account, which is replaced in one step, and a lock that the system releases
// when the process ends. The files are sealed with a key of the system's keyring if there
// is one.
//
// An [Account] is a sign-in to an MCP server. metadata.go finds the authorization server,
// signin.go registers dragoman there and exchanges a code for tokens, account.go renews these,
// and await.go lets requests wait for the user, with one browser tab at a time. dial.go decides
// which URLs and addresses a server may name. grants.go has the credentials that need no user.
package oauth
