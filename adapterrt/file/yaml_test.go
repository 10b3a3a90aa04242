package file

import (
	"testing"
)

func TestScalarsAreYAML12(t *testing.T) {
	n, err := parseYAML([]byte("a: no\nb: on\nc: 2024-01-02\nd: 2024-01-02T03:04:05Z\ne: 010\nf: 1_000\ng: true\nh: 0x1F\ni: 0o17\nj: .5\nk: 1e3\nl: ~\nm: .inf\nn: '5'\no: +7\np: -0.50\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"no","b":"on","c":"2024-01-02","d":"2024-01-02T03:04:05Z","e":10,"f":"1_000","g":true,"h":31,"i":15,"j":0.5,"k":1e3,"l":null,"m":".inf","n":"5","o":7,"p":-0.50}`
	if got := string(n.JSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
