package handoff

// Rate is what SetRate has set: keys and bytes per second and source.
func (t *Transfer) Rate() (keys, bytes int64) { return t.rate.Load(), t.bytes.Load() }

// Paused tells whether SetPaused was called with true last.
func (t *Transfer) Paused() bool { return t.paused.Load() }
