package config

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// What is wrong where other machines can reach the listener and allowed_hosts is empty, and what to do.
const (
	NoHosts  = "clients reach this listener only by an IP address: requests that name another host are refused with 403"
	SetHosts = "set allowed_hosts (--allow-host) to the names in the clients' URLs, such as [mcp.example.com]"
)

// What is wrong where other machines can reach the listener and clients need no token, what to do, and what to set where nothing is wrong.
const (
	NoTokens  = "can be reached from other machines without a token"
	SetTokens = `auth.tokens: ["${DRAGOMAN_TOKEN}"], or a loopback address in listen`
	OrTrust   = ", or auth.trust_network: true where the network keeps others out"
)

// shortestToken is the least length of a token of clients at an address that other machines can reach.
const shortestToken = 16

// placeholder matches what examples have in place of a token.
var placeholder = pattern.Later(`(?i)replace|change[-_ ]?(me|it|this)|placeholder|your[-_ ]?(own|new|secret|token|api|key|bearer)|^<.*>$|^\[.*\]$|^x+$`)

// Weakness says why a token of clients can be guessed; "" if it cannot.
func Weakness(token string) string {
	switch {
	case placeholder().MatchString(token):
		return "is a placeholder"
	case len(token) < shortestToken:
		return fmt.Sprintf("is shorter than %d characters", shortestToken)
	case fewLetters(token):
		return "repeats a few characters"
	}
	return ""
}

// fewLetters reports whether a text has at most three different characters.
func fewLetters(text string) bool {
	seen := map[rune]bool{}
	for _, r := range text {
		seen[r] = true
	}
	return len(seen) <= 3
}
