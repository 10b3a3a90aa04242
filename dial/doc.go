// Package dial opens the TCP connections on which dragoman is the client, and notices those that are dead.
//
// A connection is dead if its peer, or what lies between, forgot it without a word: the machine slept, a NAT or a firewall
// dropped it, a network was left. The system keeps such a connection open for a quarter of an hour after something was sent. Here it is closed
// when sent bytes are not acknowledged for 25 s ([Watch], on Linux), or when the system's probes of a quiet connection are not
// answered for as long (everywhere). A peer that acknowledges what it gets and does not read it is alive.
//
//   - dial.go: names and addresses;
//   - zone.go: which addresses a peer may make a program call;
//   - conn.go: a net.Conn that fails when it is dead;
//   - watch.go: what finds the dead ones; state.go: what the system says of one, in state_linux.go and state_other.go.
package dial
