package transform

// Size returns how many bytes and entries the store holds.
func (s *Store) Size() (bytes, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, len(s.entries)
}
