package process

import (
	"strings"
	"testing"
)

func TestServingSkipsOtherLines(t *testing.T) {
	url, err := serving(strings.NewReader("noise\n{\"msg\":\"other\",\"url\":\"http://wrong\"}\n{\"level\":\"info\",\"msg\":\"serving\",\"url\":\"http://right\"}\n"))
	if err != nil || url != "http://right" {
		t.Errorf("%q, %v", url, err)
	}
}

func TestCommandThatEndsTooEarlyIsQuoted(t *testing.T) {
	if _, err := serving(strings.NewReader("first\nlisten: address in use\n")); err == nil || err.Error() != "listen: address in use" {
		t.Errorf("error is %v", err)
	}
}
