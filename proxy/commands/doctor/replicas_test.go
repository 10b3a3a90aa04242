package doctor

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/storeconfig"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// registered returns what configures a store in which replicas with this setting have told that they are at these addresses.
func registered(t *testing.T, key string, now replicas.Settings, addresses ...string) func(*config.Config) {
	t.Helper()
	redis := storetest.StartRedis(t)
	change := func(c *config.Config) { c.Session.KeyFile, c.Store.URL = key, "unix://"+redis.Socket }
	cfg := config.Default()
	change(&cfg)
	keys, err := sealed.ReadKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	for n, address := range addresses {
		s, err := storeconfig.Open(&cfg, keys, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := replicas.New(replicas.Options{Self: sealed.ID{byte(n)}, Settings: func() replicas.Settings { return now }, Store: s, Log: zap.NewNop()})
		r.Register(address)
		t.Cleanup(func() { r.Close(); s.Close() })
	}
	return change
}

// TestReplicas checks the lines about the key and the other replicas.
func TestReplicas(t *testing.T) {
	key := fileWith(t, "key", strings.Repeat("ab", 32)+"\n"+strings.Repeat("cd", 32)+"\n", 0o600)
	broken := fileWith(t, "broken", "short", 0o600)
	now := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != config.ReplicasPath || r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	late := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	}))
	print := "info " + key + ": fingerprint of the key: 9a2db2e2, then 7969ec0f → compare it with that of the other replicas: it must be the same"
	with1 := func(file string) func(*config.Config) { return func(c *config.Config) { c.Session.KeyFile = file } }
	for name, c := range map[string]struct {
		change func(t *testing.T) func(*config.Config)
		want   []string
	}{
		"none":    {func(*testing.T) func(*config.Config) { return func(*config.Config) {} }, nil},
		"key":     {func(*testing.T) func(*config.Config) { return with1(key) }, []string{print}},
		"broken":  {func(*testing.T) func(*config.Config) { return with1(broken) }, []string{"FAIL " + broken + ": session.key_file " + broken + ": line 1: not 32 bytes in base64 or hex → head -c 32 /dev/urandom | base64 > FILE makes one; all replicas need the same"}},
		"answers": {func(t *testing.T) func(*config.Config) { return registered(t, key, replicas.Settings{}, now) }, []string{print, "ok " + now + ": the replica answers in TIME", "ok " + now + ": the clock of the replica agrees with that of this machine"}},
		"late":    {func(t *testing.T) func(*config.Config) { return registered(t, key, replicas.Settings{}, late) }, []string{print, "ok " + late + ": the replica answers in TIME", "warn " + late + ": the clock of the replica is *"}},
		"refuses": {func(t *testing.T) func(*config.Config) {
			return registered(t, key, replicas.Settings{}, peertest.NoListener)
		}, []string{print, "warn " + peertest.NoListener + ": the replica refuses the connection → if it has ended, the store forgets it within 10 s; otherwise set its store.advertise to an address at which this machine reaches it"}},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "refuses" {
				t.Skip("the error differs")
			}
			got := examine(t, with(c.change(t)), "replicas")
			for i := range got {
				if strings.Contains(got[i], "answers in") {
					got[i] = someTime.ReplaceAllString(got[i], "TIME")
				}
			}
			want(t, got, c.want...)
		})
	}
}

// TestReplicaOverTLS checks that a replica is accepted with the certificate that it has told, and with no other.
func TestReplicaOverTLS(t *testing.T) {
	ca := newAuthority(t)
	now := time.Now()
	pair, _, _ := ca.issue("127.0.0.1", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0))
	other, _, _ := ca.issue("127.0.0.1", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0))
	sealing := fileWith(t, "key", strings.Repeat("ab", 32), 0o600)
	for name, c := range map[string]struct {
		told replicas.Settings
		ok   bool
	}{"the one": {replicas.Settings{Certificate: &pair}, true}, "another": {replicas.Settings{Certificate: &other}, false}} {
		addr := serveTLS(t, pair)
		got := examine(t, with(registered(t, sealing, c.told, addr)), "replicas")
		if text := strings.Join(got, "\n"); strings.Contains(text, "ok "+addr+": the replica answers") != c.ok {
			t.Errorf("%s: %s", name, text)
		}
	}
}
