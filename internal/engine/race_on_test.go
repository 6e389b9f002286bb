//go:build race || heaparena

package engine

// raceEnabled says that the arena is on the heap, with the race detector or with all
// that a build for it has but the detector.
const raceEnabled = true
