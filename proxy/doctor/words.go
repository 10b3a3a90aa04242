package doctor

import (
	"crypto/x509"
	"regexp"
	"slices"
)

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// keyName matches names of variables that servers need to log in somewhere.
var keyName = regexp.MustCompile(`(?i)(token|secret|passw|credential|_key|apikey|_pat)\b`)

// namesOf returns the names and addresses that a certificate is for.
func namesOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no name"
	}
	return few(names, 6)
}
