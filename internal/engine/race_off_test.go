//go:build !race && !heaparena

package engine

const raceEnabled = false
