package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Locked runs do while no other call, in this process or another, has locked the account id. The
// first line of id begins the file's name. An error says that the account could not be locked
// and that do did not run.
func (s *Store) Locked(ctx context.Context, id string, do func(Entry)) error {
	if len(id) > maxID {
		return fmt.Errorf("cannot store tokens: the server's URL and the settings of the account are longer than %d bytes", maxID)
	}
	ctx, stop := context.WithTimeout(ctx, lockWait)
	defer stop()
	s.mu.Lock()
	e := s.entries[id]
	if e == nil {
		e = &entry{lock: make(chan struct{}, 1)}
		s.entries[id] = e
	}
	s.mu.Unlock()
	select {
	case e.lock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("another call has locked the stored tokens: %w", ctx.Err())
	}
	defer func() { <-e.lock }()
	if s.kind == Shared {
		return s.lockedInEngine(ctx, e, id, do)
	}
	h := &held{store: s, entry: e, id: id}
	if s.kind != Memory {
		unlock, err := h.lockFile(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	do(h)
	return nil
}

// peek returns the stored data of an account without locking it; nil if there is none or it cannot be
// read.
func (s *Store) peek(id string) []byte {
	switch s.kind {
	case Memory:
		return nil
	case Shared:
		return s.peekEngine(id)
	}
	dir, err := s.location()
	if err != nil {
		return nil
	}
	h := &held{store: s, entry: new(entry), id: id, path: filepath.Join(dir, fileName(id))}
	data, err := h.Get()
	if err != nil {
		return nil
	}
	return data
}

// files returns the content of all files, in the order of their names.
func (s *Store) files() (all []kept, err error) {
	switch s.kind {
	case Memory:
		return nil, nil
	case Shared:
		return s.listEngine()
	}
	dir, err := s.directory()
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		h := &held{store: s, entry: new(entry), path: path}
		text, err := h.read()
		var k kept
		if err == nil && json.Unmarshal(text, &k) == nil && k.For != "" && filepath.Base(path) == fileName(k.For) {
			all = append(all, k)
		}
	}
	return all, nil
}
