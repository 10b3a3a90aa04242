package clean

import (
	"regexp"
	"testing"
)

// TestPatterns: all of them compile, which a program finds out only when it needs them.
func TestPatterns(t *testing.T) {
	all := []func() *regexp.Regexp{
		connections, filePaths, innerHosts, plainWords, privateNets, programErrors, secretShapes, sqlGoesOn,
		sqlIsOpen, sqlVerb, stackLines, userInfo,
	}
	for _, f := range sqlForms {
		all = append(all, f.begins)
	}
	for _, compile := range all {
		compile()
	}
}
