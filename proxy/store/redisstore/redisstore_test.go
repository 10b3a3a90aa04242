package redisstore

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

func TestRedis(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := storetest.StartRedis(t)
	for network, address := range map[string]string{"tcp": r.Address, "unix": r.Socket} {
		t.Run(network, func(t *testing.T) {
			storetest.Contract(t, func(*testing.T) store.Engine {
				return New(Options{Network: network, Addresses: []string{address}})
			})
		})
	}
}
