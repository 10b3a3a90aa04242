// Package tests has the tests of the whole proxy, from one socket or pipe to the other. peertest has the servers and clients that
// they play; testset says which tests need a program, minutes or the network.
package tests
