package doctor

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
)

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return grouped(n) + " " + noun + "s"
}

// namesKey reports whether a variable has the name of what servers need to log in somewhere.
func namesKey(variable string) bool {
	upper := strings.ToUpper(variable)
	return secret.Named(variable) || strings.HasSuffix(upper, "_KEY") || strings.HasSuffix(upper, "_PAT")
}

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
