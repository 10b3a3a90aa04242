package rawio

// Watched says of what a Watch notifies a Watcher.
type Watched int

const (
	// Leaving is the end of the peer's sending, even if bytes before it are still unread.
	Leaving Watched = iota
	// Readable is that a Read would not wait, at once if that is so already. The Watcher is notified once.
	Readable
)

// Watcher is notified by a Watch.
type Watcher interface {
	// Notice must not block: the Watch notifies no other Watcher meanwhile.
	Notice()
}
