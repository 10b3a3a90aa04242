package doctor

import (
	"crypto/x509"
	"fmt"
	"regexp"
	"strings"
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
	var names []string
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	const few = 6
	switch {
	case len(names) == 0:
		return "no name"
	case len(names) > few:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}
