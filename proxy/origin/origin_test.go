package origin

import (
	"reflect"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func TestChildGetsOnlyWhatItMay(t *testing.T) {
	ours := []string{"PATH=/bin", "SECRET=1", "DRAGOMAN_UPSTREAM_URL=x", "Path=C:"}
	got := Env(config.Upstream{PassEnv: []string{"PATH"}, Env: map[string]string{"KEY": "k"}}, ours)
	if want := []string{"PATH=/bin", "Path=C:", "KEY=k"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	got = Env(config.Upstream{PassEnv: []string{"*"}}, ours)
	if want := []string{"PATH=/bin", "SECRET=1", "Path=C:"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
