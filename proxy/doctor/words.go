package doctor

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// keyName matches names of variables that servers need to log in somewhere.
var keyName = pattern.Later(`(?i)(token|secret|passw|credential|_key|apikey|_pat)\b`)

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

// few returns the first n of names, and how many more there are.
func few(all []string, n int) string {
	if len(all) > n {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:n], ", "), len(all)-n)
	}
	return strings.Join(all, ", ")
}
