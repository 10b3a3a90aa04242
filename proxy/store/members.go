package store

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

const (
	// MaxMember bounds the name of a member of a set.
	MaxMember = 256
	// MaxMembers bounds a set. Of more members, those that would expire first leave.
	MaxMembers  = 1 << 20
	membersPage = 1000
)

// Join makes name a member of a set until ttl is over. To join again sets the expiry.
func (s *Store) Join(ctx context.Context, set Key, name []byte, ttl time.Duration) error {
	names, err := s.vault.Load().names(set)
	if err != nil {
		return err
	}
	if err := lasts(ttl); err != nil {
		return err
	}
	if len(name) > MaxMember {
		return fmt.Errorf("join %s: %w: a member of %d bytes", set.Kind, ErrTooLarge, len(name))
	}
	member := s.vault.Load().members(set, name)[0]
	return s.ask(ctx, "join", set, func(ctx context.Context) error { return s.engine.Join(ctx, names[0], member, ttl, MaxMembers) })
}

// Leave removes name from a set.
func (s *Store) Leave(ctx context.Context, set Key, name []byte) error {
	names, err := s.vault.Load().names(set)
	if err != nil {
		return err
	}
	all := s.vault.Load().members(set, name)
	for _, at := range names {
		if err := s.ask(ctx, "leave", set, func(ctx context.Context) error { return s.engine.Leave(ctx, at, all...) }); err != nil {
			return err
		}
	}
	return nil
}

// Members calls each with the members of a set, the one that expires last first, and asks the engine once for every thousand of
// them. A member that joins meanwhile may be missing, and one may come twice. It ends when each returns false.
func (s *Store) Members(ctx context.Context, set Key, each func(Member) bool) error {
	names, err := s.vault.Load().names(set)
	if err != nil {
		return err
	}
	for _, at := range names {
		for skip, more := 0, true; more && skip < MaxMembers; skip += membersPage {
			var page []Member
			if err := s.ask(ctx, "members", set, func(ctx context.Context) (err error) {
				page, err = s.engine.Members(ctx, at, skip, membersPage)
				return err
			}); err != nil {
				return err
			}
			more = len(page) == membersPage
			for _, m := range page {
				name, err := s.vault.Load().openMember(set, m.Name)
				if err != nil {
					continue // not one of ours
				}
				if !each(Member{bytes.Clone(name), m.Expires}) {
					return nil
				}
			}
		}
	}
	return nil
}
