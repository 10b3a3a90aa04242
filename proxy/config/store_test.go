package config

import (
	"net"
	"reflect"
	"strings"
	"testing"
)

func TestStoreURL(t *testing.T) {
	for _, c := range []struct {
		url, sentinel string
		want          StoreServer
		fault         string
	}{
		{"redis://redis", "", StoreServer{"tcp", []string{"redis:6379"}, 0, false}, ""},
		{"redis://redis:7000/3", "", StoreServer{"tcp", []string{"redis:7000"}, 3, false}, ""},
		{"rediss://[::1]:1/", "", StoreServer{"tcp", []string{"[::1]:1"}, 0, true}, ""},
		{"redis://[::1]", "", StoreServer{"tcp", []string{"[::1]:6379"}, 0, false}, ""},
		{"redis://a:1, b:2", "", StoreServer{"tcp", []string{"a:1", "b:2"}, 0, false}, ""},
		{"redis://a,b/2", "main", StoreServer{"tcp", []string{"a:26379", "b:26379"}, 2, false}, ""},
		{"unix:///run/r.sock", "", StoreServer{"unix", []string{"/run/r.sock"}, 0, false}, ""},
		{"unix:///run/r.sock?db=4", "", StoreServer{"unix", []string{"/run/r.sock"}, 4, false}, ""},
		{"redis://a,b/2", "", StoreServer{}, "a Cluster has database 0 only"},
		{"redis://user:hunter2@a", "", StoreServer{}, "store.username"},
		{"redis://a?x=hunter2", "", StoreServer{}, "has a query"},
		{"redis://", "", StoreServer{}, "which is not host:port"},
		{"redis://a:0", "", StoreServer{}, "which is not host:port"},
		{"redis://a:99999", "", StoreServer{}, "which is not host:port"},
		{"redis://a/x", "", StoreServer{}, "which is not a number"},
		{"redis://" + strings.Repeat("a,", 99) + "a", "", StoreServer{}, "more than 64 hosts"},
		{"unix://run/r.sock", "", StoreServer{}, "no absolute path"},
		{"unix:///r?x=1", "", StoreServer{}, `a parameter other than db: "x"`},
		{"http://a", "", StoreServer{}, "begins with redis://"},
		{"a:6379", "", StoreServer{}, "begins with redis://"},
	} {
		s := Store{URL: c.url, Sentinel: c.sentinel}
		got, err := s.Server()
		if c.fault == "" {
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: %+v, %v", c.url, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", c.url, err)
		}
	}
}

func TestStoreMistakes(t *testing.T) {
	good := func() Config {
		c := Default()
		c.Upstream.URL, c.Session.KeyFile, c.Store.URL = "http://a/mcp", "key", "redis://a"
		return c
	}
	for want, change := range map[string]func(*Config){
		"":                                   func(*Config) {},
		"store.url: set session.key":         func(c *Config) { c.Session.KeyFile = "" },
		"password or password_file":          func(c *Config) { c.Store.Password, c.Store.PasswordFile = "a", "b" },
		"need a url that begins with rediss": func(c *Config) { c.Store.CAFile = "a" },
		"client_cert and client_key":         func(c *Config) { c.Store.URL, c.Store.ClientCert = "rediss://a", "a" },
		"store.sentinel_password":            func(c *Config) { c.Store.SentinelPassword = "a" },
		"store.sentinel: needs the hosts":    func(c *Config) { c.Store.URL, c.Store.Sentinel = "unix:///a", "a" },
		"store.timeout":                      func(c *Config) { c.Store.Timeout = 0 },
		"store.max_value":                    func(c *Config) { c.Store.MaxValue = 1 },
		"store.prefix":                       func(c *Config) { c.Store.Prefix = "a{b}" },
		"store.advertise":                    func(c *Config) { c.Store.Advertise = "10.0.0.1" },
	} {
		c := good()
		change(&c)
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestAddressForOtherReplicas(t *testing.T) {
	for _, c := range []struct {
		listen, url, advertise, pod, want, fault string
	}{
		{"0.0.0.0:8808", "redis://127.0.0.1", "", "", "127.0.0.1:8808", ""},
		{"[::]:8808", "unix:///r", "", "", "127.0.0.1:8808", ""},
		{"[::]:8808", "unix:///r", "", "10.1.2.3", "10.1.2.3:8808", ""},
		{"[::]:8808", "unix:///r", "me.example:1", "10.1.2.3", "me.example:1", ""},
		{"10.9.9.9:8808", "redis://127.0.0.1", "", "", "10.9.9.9:8808", ""},
		{"127.0.0.1:8808", "redis://127.0.0.1", "", "", "127.0.0.1:8808", ""},
		{"127.0.0.1:8808", "redis://192.0.2.1", "", "", "", "loopback address 127.0.0.1"},
		{"127.0.0.1:8808", "redis://192.0.2.1", "", "fd00::1", "[fd00::1]:8808", ""},
		{"0.0.0.0:8808", "redis://no-such-host.invalid", "", "", "", "no address of this machine is known"},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		s := Store{URL: c.url, Advertise: c.advertise, PodIP: c.pod}
		got, err := s.Reached(at)
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
