// Package oauth has what dragoman's OAuth clients share. It depends neither on MCP nor on
// adapters.
//
// A [Store] keeps tokens across restarts and shares them with other processes. It has one
// file per account, which is replaced in one step, and a lock that the system releases
// when the process ends. The files are sealed with a key of the system's keyring if there
// is one.
//
// An [Account] is a sign-in to an MCP server. metadata.go finds the authorization server,
// signin.go registers dragoman there and exchanges a code for tokens, device.go signs in a user
// on another device, record.go has what is stored of the account, refresh.go renews the tokens, and
// await.go lets requests wait for the user, with one browser tab at a time. stored.go lists the
// stored accounts and logs them out. tokenrequest.go sends requests to token endpoints, and
// clientkey.go signs for clients with a key. dial.go decides which URLs and addresses a server may
// name. grants.go has the credentials that need no user.
package oauth
