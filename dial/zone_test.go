package dial

import (
	"net/netip"
	"testing"
)

// TestZoneOf: the zone of each kind of address, also in the clothes of IPv6.
func TestZoneOf(t *testing.T) {
	for text, want := range map[string]Zone{
		"203.0.113.1": Public, "8.8.8.8": Public, "2606:4700::1111": Public, "192.0.2.1": Public, "172.32.0.1": Public, "192.0.1.1": Public, "100.63.255.255": Public,
		"100.128.0.0": Public, "198.20.0.0": Public, "223.255.255.255": Public, "168.63.129.17": Public, "2001:4860:4860::8888": Public, "2003::1": Public, "64:ff9b:2::a00:1": Public,

		"10.0.0.1": Private, "172.16.0.1": Private, "172.31.255.255": Private, "192.168.1.1": Private, "fd00::1": Private, "fc00::1": Private, "fec0::1": Private,
		"100.64.0.1": Private, "100.100.100.201": Private, "198.18.0.1": Private, "240.0.0.1": Private, "192.0.0.1": Private, "fd00:ec2:0:1::1": Private,

		"127.0.0.1": Loopback, "127.8.9.1": Loopback, "::1": Loopback,

		"169.254.169.254": Never, "169.254.170.2": Never, "fe80::1": Never, "fe80::a9fe:a9fe": Never, "fe80::1%eth0": Never, "febf::1": Never,
		"fd00:ec2::254": Never, "fd00:ec2::23": Never, "fd20:ce::254": Never, "100.100.100.200": Never, "168.63.129.16": Never, "192.0.0.192": Never,
		"0.0.0.0": Never, "0.1.2.3": Never, "::": Never, "224.0.0.1": Never, "ff02::1": Never, "255.255.255.255": Never,

		"::ffff:203.0.113.1": Public, "::ffff:10.0.0.1": Private, "::ffff:127.0.0.1": Loopback, "::ffff:169.254.169.254": Never,
		"64:ff9b::203.0.113.1": Public, "64:ff9b::10.0.0.1": Private, "64:ff9b::127.0.0.1": Loopback, "64:ff9b::169.254.169.254": Never, "64:ff9b::100.100.100.200": Never,
		"64:ff9b:1::203.0.113.1": Private, "64:ff9b:1:a00:1::": Never, "64:ff9b:1:2:3:4:10.0.0.1": Private, "64:ff9b:1::7f00:1": Loopback, "64:ff9b:1::169.254.169.254": Never,
		"2002:cb00:7101::1": Public, "2002:a00:1::": Private, "2002:7f00:1::1": Loopback, "2002:a9fe:a9fe::1": Never, "2002:a83f:8110::": Never,
		"2001:0:1:2:3:4:34ff:8efe": Public, "2001::f5ff:fffe": Private, "2001::80ff:fffe": Loopback, "2001::5601:5601": Never,
		"::203.0.113.1": Public, "::10.0.0.1": Private, "::127.0.0.1": Loopback, "::169.254.169.254": Never, "::2": Never,
	} {
		if got := ZoneOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is in zone %d, want %d", text, got, want)
		}
	}
	if got := ZoneOf(netip.Addr{}); got != Never {
		t.Errorf("no address is in zone %d", got)
	}
}
