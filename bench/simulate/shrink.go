package main

import (
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/judge"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
)

// shrinkTime bounds how long a script is shrunk.
const shrinkTime = 3 * time.Minute

// shrink returns the smallest script it finds from which nothing can be taken without that it stops failing.
func shrink(s *script.Script, fails func(*script.Script) bool) *script.Script {
	end := time.Now().Add(shrinkTime)
	try := func(change func(*script.Script)) bool {
		if time.Now().After(end) {
			return false
		}
		next := *s
		next.Clients, next.Settings, next.Steps = slices.Clone(s.Clients), slices.Clone(s.Settings), slices.Clone(s.Steps)
		change(&next)
		if !fails(&next) {
			return false
		}
		s = &next
		return true
	}
	for smaller := true; smaller; {
		smaller = false
		took := func(change func(*script.Script)) bool {
			ok := try(change)
			smaller = smaller || ok
			return ok
		}
		for i := len(s.Clients) - 1; i >= 0 && len(s.Clients) > 1; i-- {
			took(func(s *script.Script) {
				name := s.Clients[i].Name
				s.Clients = slices.Delete(s.Clients, i, i+1)
				s.Steps = slices.DeleteFunc(s.Steps, func(step script.Step) bool { return step.Who == name })
			})
		}
		for n := max(len(s.Steps)/2, 1); n > 0; n /= 2 {
			for at := len(s.Steps) - n; at > -n; at -= n {
				from := max(at, 0)
				if to := min(at+n, len(s.Steps)); to > from {
					took(func(s *script.Script) { s.Steps = slices.Delete(s.Steps, from, to) })
				}
			}
		}
		for i := len(s.Settings) - 1; i >= 0; i-- {
			took(func(s *script.Script) { s.Settings = slices.Delete(s.Settings, i, i+1) })
		}
		for s.Replicas > 1 && took(func(s *script.Script) { s.Replicas-- }) {
		}
		if s.Store && s.Replicas == 1 {
			took(func(s *script.Script) { s.Store = false })
		}
		if s.Portable {
			took(func(s *script.Script) { s.Portable = false })
		}
		for i := range s.Steps {
			for _, shorter := range []string{"100ms", "1s", "10s", "1m"} {
				of := func(text string) time.Duration { d, _ := time.ParseDuration(text); return d }
				if s.Steps[i].Verb != "wait" || of(shorter) >= of(s.Steps[i].Word(0)) ||
					took(func(s *script.Script) { s.Steps[i].Words = []string{shorter} }) {
					break
				}
			}
			for v := len(s.Steps[i].Values) - 1; v >= 0; v-- {
				took(func(s *script.Script) { s.Steps[i].Values = slices.Delete(slices.Clone(s.Steps[i].Values), v, v+1) })
			}
		}
	}
	return s
}

// fails returns whether a script fails in the way of kind: in two of three plays.
func (l *lane) fails(j job, kind string) func(*script.Script) bool {
	l.patience = 5 * time.Second // of a world of 10 ms
	return func(s *script.Script) bool {
		j.Script, j.Trace = s.String(), false
		failed := 0
		for play := range 3 {
			r := l.play(j)
			if slices.ContainsFunc(r.Violations, func(v judge.Violation) bool { return kindOf(v) == kind }) {
				failed++
			}
			if failed == 2 || play-failed == 1 {
				break
			}
		}
		return failed == 2
	}
}
