//go:build !unix

package node

// cpuSeconds is not known here.
func cpuSeconds() (user, system float64) { return 0, 0 }
