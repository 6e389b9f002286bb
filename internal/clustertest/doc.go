// Package clustertest runs clusters inside one test process. It owns two
// networks: Real nodes over loopback sockets with gossip, and Sim nodes over an
// in-memory network with scripted membership, for virtual time
// (testing/synctest), where a test decides who learns what when.
//
// It is for tests only and never part of a program. Its types are safe for
// concurrent use; Close of a cluster waits for everything that it started.
package clustertest
