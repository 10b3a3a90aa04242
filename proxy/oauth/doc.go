// Package oauth has what dragoman's OAuth clients share. It depends neither on MCP nor on
// adapters.
//
// A [Store] keeps tokens across restarts and shares them with other processes. It has one
// file per account, which is replaced in one step, and a lock that the system releases
// when the process ends. The files are sealed with a key of the system's keyring if there
// is one.
package oauth
