// Package oauth has what OAuth clients of ours share. It knows neither MCP nor adapters.
//
// A [Store] keeps tokens over restarts and shares them with other processes: one file per
// account, replaced in one step, behind a lock that ends with its process. The files are
// sealed with a key of the system's keyring where there is one.
package oauth
