package dial

import "net/netip"

// A Zone is the part of the network that an address is in. They are in order, from the outside to the inside.
type Zone int

const (
	Public   Zone = iota
	Private       // of a network that the internet does not lead to
	Loopback      // of this machine
	// Never are addresses that a peer must not make a program call: those of the machine's own link, among them the metadata
	// services of clouds, which hand out credentials, and those of no single machine.
	Never
)

// zones are the networks that are not public; the first one that an address is in counts. The addresses are those of
// https://www.iana.org/assignments/iana-ipv4-special-registry and
// https://www.iana.org/assignments/iana-ipv6-special-registry, and of the metadata services that are not on the link.
var zones = []struct {
	network netip.Prefix
	zone    Zone
}{
	{netip.MustParsePrefix("100.100.100.200/32"), Never}, // Alibaba Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), Never},   // Azure
	{netip.MustParsePrefix("192.0.0.192/32"), Never},     // Oracle Cloud
	{netip.MustParsePrefix("fd00:ec2::/112"), Never},     // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), Never},   // Google Cloud
	{netip.MustParsePrefix("169.254.0.0/16"), Never},
	{netip.MustParsePrefix("fe80::/10"), Never},
	{netip.MustParsePrefix("0.0.0.0/8"), Never},
	{netip.MustParsePrefix("::/128"), Never},
	{netip.MustParsePrefix("224.0.0.0/4"), Never},
	{netip.MustParsePrefix("ff00::/8"), Never},
	{netip.MustParsePrefix("255.255.255.255/32"), Never},

	{netip.MustParsePrefix("127.0.0.0/8"), Loopback},
	{netip.MustParsePrefix("::1/128"), Loopback},

	{netip.MustParsePrefix("10.0.0.0/8"), Private},
	{netip.MustParsePrefix("172.16.0.0/12"), Private},
	{netip.MustParsePrefix("192.168.0.0/16"), Private},
	{netip.MustParsePrefix("100.64.0.0/10"), Private}, // between a provider and its customers
	{netip.MustParsePrefix("192.0.0.0/24"), Private},
	{netip.MustParsePrefix("198.18.0.0/15"), Private}, // tests of networks
	{netip.MustParsePrefix("240.0.0.0/4"), Private},
	{netip.MustParsePrefix("fc00::/7"), Private},
	{netip.MustParsePrefix("fec0::/10"), Private},
}

// embedding are the networks of IPv6 addresses that lead to an IPv4 address. The first one that an address is in counts.
var embedding = []struct {
	network netip.Prefix
	at      int  // the first byte of the IPv4 address
	flipped bool // all its bits are
	least   Zone // of the address, whatever it leads to
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12, false, Public}, // NAT64: https://www.rfc-editor.org/rfc/rfc6052
	// NAT64 of a local network, which may have the IPv4 address elsewhere: https://www.rfc-editor.org/rfc/rfc8215
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12, false, Private},
	{netip.MustParsePrefix("2002::/16"), 2, false, Public}, // 6to4: https://www.rfc-editor.org/rfc/rfc3056
	{netip.MustParsePrefix("2001::/32"), 12, true, Public}, // Teredo: https://www.rfc-editor.org/rfc/rfc4380
	{netip.MustParsePrefix("::/96"), 12, false, Public},    // https://www.rfc-editor.org/rfc/rfc4291#section-2.5.5.1
}

// ZoneOf returns the zone of an address. An IPv4 address counts as itself in whatever IPv6 address it is embedded. What is no address is
// in the zone Never.
func ZoneOf(a netip.Addr) Zone {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return Never
	}
	for _, z := range zones {
		if z.network.Contains(a) {
			return z.zone
		}
	}
	b := a.As16()
	for _, e := range embedding {
		if !e.network.Contains(a) {
			continue
		}
		inner := [4]byte(b[e.at:])
		for i := range inner {
			if e.flipped {
				inner[i] = ^inner[i]
			}
		}
		return max(e.least, ZoneOf(netip.AddrFrom4(inner)))
	}
	return Public
}
