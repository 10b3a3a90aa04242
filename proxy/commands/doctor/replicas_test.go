package doctor

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestReplicas checks the lines about the key and the other replicas.
func TestReplicas(t *testing.T) {
	key := file(t, "key", strings.Repeat("ab", 32)+"\n"+strings.Repeat("cd", 32)+"\n", 0o600)
	broken := file(t, "broken", "short", 0o600)
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
	peers := func(file string, all ...string) func(*config.Config) {
		return func(c *config.Config) { c.Session.KeyFile, c.Bridge.Peers = file, all }
	}
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"none":    {func(*config.Config) {}, nil},
		"key":     {peers(key), []string{print}},
		"broken":  {peers(broken), []string{"FAIL " + broken + ": session.key_file " + broken + ": line 1: not 32 bytes in base64 or hex → head -c 32 /dev/urandom | base64 > FILE makes one; all replicas need the same"}},
		"answers": {peers(key, now), []string{print, "ok " + now + ": the replica answers in TIME", "ok " + now + ": the clock of the replica agrees with that of this machine"}},
		"late":    {peers(key, late), []string{print, "ok " + late + ": the replica answers in TIME", "warn " + late + ": the clock of the replica is *"}},
		"unknown": {peers(key, "no-such-host.invalid:1"), []string{print, "FAIL no-such-host.invalid:1: the name no-such-host.invalid cannot be resolved: *"}},
		"refuses": {peers(key, peertest.NoListener), []string{print, "warn " + peertest.NoListener + ": the replica refuses the connection → it may be this one, which does not run yet; otherwise start it, or correct bridge.peers"}},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "refuses" {
				t.Skip("the error differs")
			}
			got := examine(t, with(c.change), "replicas")
			for i := range got {
				if strings.Contains(got[i], "answers in") {
					got[i] = someTime.ReplaceAllString(got[i], "TIME")
				}
			}
			want(t, got, c.want...)
		})
	}
}

// TestReplicaOverTLS checks that a replica with the same certificate is accepted, and another one only if it is verified.
func TestReplicaOverTLS(t *testing.T) {
	ca := newAuthority(t)
	now := time.Now()
	pair, cert, key := ca.issue("127.0.0.1", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0))
	_, otherCert, otherKey := ca.issue("elsewhere.example", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0))
	sealing := file(t, "key", strings.Repeat("ab", 32), 0o600)
	for name, c := range map[string]struct {
		cert, key, ca string
		ok            bool
	}{"the same": {cert, key, "", true}, "verified": {otherCert, otherKey, ca.file, true}, "unknown": {otherCert, otherKey, "", false}} {
		addr := serveTLS(t, pair)
		got := examine(t, with(func(cfg *config.Config) {
			cfg.TLS = config.TLS{Cert: c.cert, Key: c.key}
			cfg.Session.KeyFile, cfg.Bridge.Peers, cfg.Bridge.PeerCAFile = sealing, []string{addr}, c.ca
		}), "replicas")
		if text := strings.Join(got, "\n"); strings.Contains(text, "ok "+addr+": the replica answers") != c.ok {
			t.Errorf("%s: %s", name, text)
		}
	}
}
