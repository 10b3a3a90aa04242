package redisstore

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestCluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	var nodes []*storetest.Redis
	var addresses []string
	for range 3 {
		n := storetest.StartRedis(t, "cluster-enabled yes", "cluster-node-timeout 2000")
		nodes, addresses = append(nodes, n), append(addresses, n.Address)
	}
	for i, slots := range []string{"0 5000", "5001 11000", "11001 16383"} {
		nodes[i].Ask("CLUSTER ADDSLOTSRANGE " + slots)
		host, port, _ := net.SplitHostPort(nodes[0].Address)
		if i > 0 {
			nodes[i].Ask("CLUSTER MEET " + host + " " + port)
		}
	}
	w := open(t, Options{Network: "tcp", Addresses: addresses}, 5*time.Second)
	peertest.Eventually(t, "the cluster is whole", func() bool {
		for i := range 50 {
			if w.Set(ctx, key(string(rune('a'+i))), nil, time.Minute) != nil {
				return false
			}
		}
		return true
	})
	storetest.Contract(t, func(*testing.T) store.Engine {
		return New(Options{Network: "tcp", Addresses: addresses[:1]}) // one is enough
	})
	for i, n := range nodes {
		if n.Ask("DBSIZE") == ":0" {
			t.Errorf("node %d has no keys", i)
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel() // it waits most of the time
	first := storetest.StartRedis(t)
	host, port, _ := net.SplitHostPort(first.Address)
	second := storetest.StartRedis(t, "replicaof "+host+" "+port, "repl-diskless-sync-delay 0")
	if first.Ask("CONFIG SET repl-diskless-sync-delay 0") != "+OK" {
		t.Fatal("the first server has other settings")
	}
	watch := storetest.StartSentinel(t, "main", first.Address)
	w := open(t, Options{Network: "tcp", Addresses: []string{watch.Address}, Sentinel: "main"}, time.Second)
	w.works(t)
	peertest.Eventually(t, "the Sentinel knows both servers", func() bool {
		return strings.HasPrefix(watch.Ask("SENTINEL FAILOVER main"), "+OK")
	})
	peertest.Eventually(t, "the second server takes over", func() bool {
		// A Sentinel closes the connections of a server's clients when it gives the server another role:
		// https://redis.io/docs/latest/develop/reference/sentinel-clients/#sentinel-failover-disconnection
		role, roleErr := second.TryAsk("ROLE")
		set, setErr := second.TryAsk("SET test 1")
		return roleErr == nil && setErr == nil && role == "*3" && set == "+OK"
	})
	first.Stop()
	w.works(t)
	if second.Ask("DBSIZE") == ":1" {
		t.Error("the second server has no keys of the store")
	}
}
