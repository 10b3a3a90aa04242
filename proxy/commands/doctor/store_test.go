package doctor

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

// TestSharedStore checks the lines about the store.
func TestSharedStore(t *testing.T) {
	key := fileWith(t, "key", strings.Repeat("ab", 32), 0o600)
	good := storetest.StartRedis(t, "requirepass right", "maxmemory-policy noeviction")
	limited := storetest.StartRedis(t)
	limited.Ask("ACL SETUSER default -@all +hello +auth +ping +client +info")
	evicts := storetest.StartRedis(t, "maxmemory-policy allkeys-lru")
	gone := storetest.StartRedis(t)
	gone.Stop()
	at := func(url, password string) func(*config.Config) {
		return func(c *config.Config) {
			c.Session.KeyFile = key
			c.Store.URL, c.Store.Password = url, password
		}
	}
	goodURL, evictsURL, goneURL := "redis://"+good.Address, "unix://"+evicts.Socket, "redis://"+gone.Address
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"none":           {func(*config.Config) {}, nil},
		"answers":        {at(goodURL, "right"), []string{"ok " + goodURL + ": redis VERSION answers in TIME"}},
		"wrong password": {at(goodURL, "wrong one"), []string{"FAIL " + goodURL + ": the store refuses the user or the password: WRONGPASS *"}},
		"no password":    {at(goodURL, ""), []string{"FAIL " + goodURL + ": the store wants a password → set store.password_file or store.password"}},
		"database":       {at(goodURL+"/99", "right"), []string{"FAIL " + goodURL + "/99: the store refuses what dragoman needs: DB index is out of range → check the database in store.url*"}},
		"evicts": {at(evictsURL, ""), []string{"ok " + evictsURL + ": redis VERSION answers in TIME",
			"warn " + evictsURL + ": maxmemory-policy is allkeys-lru: when the store is full, it drops *"}},
		"rights": {at("unix://"+limited.Socket, ""), []string{"ok unix://" + limited.Socket + ": redis VERSION answers in TIME",
			"FAIL unix://" + limited.Socket + ": the store refuses what dragoman needs: NOPERM *"}},
		"gone": {at(goneURL, ""), []string{"FAIL " + goneURL + ": the store does not answer: *"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := examine(t, with(c.change), "store")
			for i := range got {
				if before, after, ok := strings.Cut(got[i], ": redis "); ok {
					_, after, _ = strings.Cut(after, " ")
					got[i] = before + ": redis VERSION " + someTime.ReplaceAllString(after, "TIME")
				}
				if strings.Contains(got[i], "wrong one") {
					t.Errorf("the password is shown: %s", got[i])
				}
			}
			want(t, got, c.want...)
		})
	}
}
