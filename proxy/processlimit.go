package proxy

import (
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/session"
)

// errGaveWay is the reason why a session ended so that another client could have a process.
var errGaveWay = errors.New("the idle session was ended to free a process for another client: session.max_processes is reached")

// idleSession is a session whose process may be stopped to free its place.
type idleSession struct {
	since time.Time
	end   func() bool // returns false if the session is in use again
}

// giveWay ends the session that was idle for the longest time, of the clients for which the
// function of returns true. It returns false if there is none. It does not wait until the process
// has ended.
func (srv *Server) giveWay(of func(client string) bool) bool {
	if srv.Now().Origin.Shared != nil {
		return false // all sessions share one process
	}
	for {
		var oldest *idleSession
		note := func(s idleSession) {
			if oldest == nil || s.since.Before(oldest.since) {
				oldest = &s
			}
		}
		srv.Table.Each(func(s *session.Session) {
			if of(s.RunsFor) && s.Lanes != nil && s.Open.None() {
				note(idleSession{time.Unix(0, s.Used.Load()), func() bool {
					if !srv.Table.Drop(s) {
						return false
					}
					srv.Retire(s, errGaveWay)
					return true
				}})
			}
		})
		srv.sse.EachIdle(of, func(since time.Time, end func(error) bool) {
			note(idleSession{since, func() bool { return end(errGaveWay) }})
		})
		srv.Modern.EachIdle(of, func(since time.Time, end func() bool) { note(idleSession{since, end}) })
		if oldest == nil {
			return false
		}
		if oldest.end() {
			srv.Host.Log.Info("session ended to free a process for another client: session.max_processes is reached")
			return true
		}
	}
}
