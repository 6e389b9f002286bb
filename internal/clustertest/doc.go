// Package clustertest runs clusters inside one test process. It owns two
// networks: Real nodes over loopback sockets with gossip, and Sim nodes over an
// in-memory network with faults, for virtual time (testing/synctest). The
// membership of a Sim is real gossip over that network, or told by the test, which
// then decides who learns what when. Stories about a Sim are scripts in testdata
// (DESIGN.md has their commands, and which of them holds which anomaly).
//
// It is for tests only and never part of a program. Its types are safe for
// concurrent use; Close of a cluster waits for everything that it started.
package clustertest
