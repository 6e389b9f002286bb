package engine

// SlotKeys calls fn for about max keys of slot, served or not, from a position on
// that an earlier call has returned; 0 is the first. done says that none follow. A
// key that is there all the while is given at least once. key is borrowed until fn
// returns; fn runs without any lock.
func (e *Engine) SlotKeys(slot uint16, at uint64, max int, fn func(key []byte)) (next uint64, done bool) {
	s, _ := e.at(slot)
	slot &= Slots - 1
	b := e.newBatch()
	defer func() { e.freeBatch(b) }()
	for max > 0 && at < scanEnd {
		b.reset()
		s.mu.Lock()
		now := e.now()
		at, _ = s.step(slot, at, min(max, stepEntries), now, func(_ loc, r record, _ uint64) { s.copyTo(b, r, now, false) })
		s.unlock()
		for i := range b.items {
			key, _ := b.get(i, false)
			fn(key)
		}
		max -= len(b.items) + 1 // a step over expired keys counts too
	}
	return at, at >= scanEnd
}

// SubscribeAll subscribes to every shard. The feeds share one channel, wake, that
// receives after events came to any of them; Fresh tells to which.
func (e *Engine) SubscribeAll(size int, wake chan struct{}) ([]*Feed, error) {
	feeds := make([]*Feed, 0, len(e.shards))
	for i := range e.shards {
		f, err := e.subscribe(i, nil, size, wake)
		if err != nil {
			for _, f := range feeds {
				f.Close()
			}
			return nil, err
		}
		feeds = append(feeds, f)
	}
	return feeds, nil
}

// Fresh tells whether events came since the last call. It takes no lock.
func (f *Feed) Fresh() bool { return f.fresh.Load() && f.fresh.Swap(false) }
