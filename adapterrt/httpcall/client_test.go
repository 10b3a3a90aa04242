package httpcall

import (
	"net/netip"
	"testing"
)

// TestCloudAddressesAreDenied lists the addresses at which clouds give secrets to every local process.
func TestCloudAddressesAreDenied(t *testing.T) {
	for _, address := range []string{"169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"} {
		if allowedAddress(netip.MustParseAddr(address), false) {
			t.Errorf("%s may be called", address)
		}
	}
	for _, address := range []string{"198.18.0.1", "192.0.0.1", "240.0.0.1", "fec0::1", "fd12:3456::1"} {
		if allowedAddress(netip.MustParseAddr(address), true) {
			t.Errorf("%s passes for public", address)
		}
	}
}

func TestErrorMessages(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"a"}`:                               "a",
		`{"message":{"x": 1}}`:                          `{"x":1}`,
		`{"message":null,"error":"b"}`:                  "b",
		`{"error":{"message":"c"}}`:                     "c",
		`{"error":{"code":1},"detail":"d"}`:             "d",
		`{"errors":["a",{"message":"b"},{"x": [1]},5]}`: `a; b; {"x":[1]}; 5`,
		`{"title":"t"}`:                                 "t",
		`{"message":"","error":"e"}`:                    "e",
		`{"error":5,"error_description":"e"}`:           "e",
		`{"errors":[]}`:                                 "500 Internal Server Error",
		`[1]`:                                           "500 Internal Server Error",
		`"text"`:                                        "500 Internal Server Error",
		``:                                              "500 Internal Server Error",
	} {
		if got := errorMessage([]byte(body), 500); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestAddressPolicy(t *testing.T) {
	for address, want := range map[string][2]bool{ // allowed by default, allowed with publicOnly
		"8.8.8.8": {true, true}, "2606:4700::1111": {true, true},
		"127.0.0.1": {true, false}, "::1": {true, false}, "10.0.0.1": {true, false}, "192.168.1.1": {true, false}, "100.64.0.1": {true, false}, "fd00::1": {true, false},
		"::ffff:10.0.0.1": {true, false}, "64:ff9b::a00:1": {true, false},
		"169.254.169.254": {}, "169.254.0.1": {}, "fe80::1": {}, "fd00:ec2::254": {}, "100.100.100.200": {}, "224.0.0.1": {}, "ff02::1": {}, "0.0.0.0": {}, "::": {}, "0.1.2.3": {},
		"255.255.255.255": {}, "::ffff:169.254.169.254": {}, "64:ff9b::a9fe:a9fe": {}, "2002:a9fe:a9fe::": {},
	} {
		a := netip.MustParseAddr(address)
		if got := [2]bool{allowedAddress(a, false), allowedAddress(a, true)}; got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
}
