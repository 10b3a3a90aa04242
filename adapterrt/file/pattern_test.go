package file

import (
	"regexp"
	"testing"
)

// TestPatterns: all of them compile, which a program finds out only when it needs them.
func TestPatterns(t *testing.T) {
	for _, compile := range []func() *regexp.Regexp{awsName, isoDate, placeholder, semVer, yamlLine} {
		compile()
	}
}
