package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Reached returns the address, host:port, at which other replicas reach the listener of this one.
func (s *Store) Reached(listener net.Addr) (string, error) {
	if s.Advertise != "" {
		return s.Advertise, nil
	}
	at, err := netip.ParseAddrPort(listener.String())
	if err != nil {
		return "", fmt.Errorf("the listener %s is not on TCP", listener)
	}
	host, port := at.Addr().Unmap(), fmt.Sprint(at.Port())
	if pod, err := netip.ParseAddr(s.PodIP); err == nil {
		return net.JoinHostPort(pod.String(), port), nil
	}
	here, local := s.towards()
	switch {
	case host.IsLoopback() && !local:
		return "", errors.New("the listener is at the loopback address " + host.String() + ", and the store is on another machine")
	case !host.IsUnspecified():
		return net.JoinHostPort(host.WithZone("").String(), port), nil
	case !here.IsValid():
		return "", errors.New("no address of this machine is known: the listener is at all of them, and there is no route to the store")
	}
	return net.JoinHostPort(here.String(), port), nil
}

// towards returns the address of this machine on the way to the store; local says that the store is on this machine too.
func (s *Store) towards() (here netip.Addr, local bool) {
	at, err := s.Server()
	if err != nil {
		return netip.Addr{}, false
	}
	if at.Network == "unix" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	for _, place := range at.Addresses {
		conn, err := net.Dial("udp", place) // nothing is sent
		if err != nil {
			continue
		}
		from, err := netip.ParseAddrPort(conn.LocalAddr().String())
		conn.Close()
		if err == nil {
			return from.Addr().Unmap().WithZone(""), from.Addr().Unmap().IsLoopback()
		}
	}
	return netip.Addr{}, false
}

// OnThisMachine reports whether the server at URL is on this machine.
func (s *Store) OnThisMachine() bool {
	_, local := s.towards()
	return local
}
