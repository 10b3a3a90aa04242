package command

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// manager is the service manager, such as systemd, that has started the process and wants to know its state. Nothing waits for it,
// except the end of the process, for lastWords. The methods of a nil manager do nothing.
type manager struct {
	log    *zap.Logger
	notify func(state string) error
	states chan string // to be sent, in this order
	end    chan struct{}
	sent   chan struct{}

	mu      sync.Mutex
	serves  bool // ready was called
	stopped bool // stopping was called
}

// maxStates is how many states wait for the manager. Those that find no room are dropped.
const maxStates = 16

// managerOf returns the manager that the environment names, or nil if there is none.
func managerOf(getenv func(string) string, log *zap.Logger) *manager {
	if getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	return newManager(log, func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	})
}

// newManager returns the manager to which notify sends.
func newManager(log *zap.Logger, notify func(state string) error) *manager {
	m := &manager{log: log, notify: notify, states: make(chan string, maxStates), end: make(chan struct{}), sent: make(chan struct{})}
	go m.run()
	return m
}

func (m *manager) run() {
	defer close(m.sent)
	warned := false
	send := func(state string) {
		if err := m.notify(state); err != nil && !warned {
			warned = true
			m.log.Warn("cannot notify the service manager", zap.Error(err))
		}
	}
	for {
		select {
		case state := <-m.states:
			send(state)
		case <-m.end:
			for len(m.states) > 0 {
				send(<-m.states)
			}
			return
		}
	}
}

// say sends a state if it may be sent now. m.mu must be held.
func (m *manager) say(state string, may bool) {
	if !may {
		return
	}
	select {
	case m.states <- state:
	default:
	}
}

// ready says that clients are served.
func (m *manager) ready() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serves = true
	m.say(daemon.SdNotifyReady, !m.stopped)
}

// reloading says that files are read again, until reloaded is called.
func (m *manager) reloading() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(daemon.SdNotifyReloading+"\n"+daemon.SdNotifyMonotonicUsec(), m.serves && !m.stopped)
}

// reloaded says that the files were read.
func (m *manager) reloaded() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(daemon.SdNotifyReady, m.serves && !m.stopped)
}

// stopping says that no new clients are served.
func (m *manager) stopping() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(daemon.SdNotifyStopping, !m.stopped)
	m.stopped = true
}

// close says stopping, unless that was said, and waits until everything is sent.
func (m *manager) close() {
	if m == nil {
		return
	}
	m.stopping()
	close(m.end)
	select {
	case <-m.sent:
	case <-time.After(lastWords):
	}
}

// watch says twice in each period that the process is alive, as long as alive says so, until stop is called. A period of 0 is for a
// manager that does not want to know.
func (m *manager) watch(period time.Duration, alive func(context.Context) bool) (stop func()) {
	if m == nil || period <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(period / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if aliveWithin(ctx, period/4, alive) {
					m.mu.Lock()
					m.say(daemon.SdNotifyWatchdog, true)
					m.mu.Unlock()
				}
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

func aliveWithin(ctx context.Context, limit time.Duration, alive func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return alive(ctx)
}

// answers returns a function that reports whether the listener of this process at an address answers a request for /livez. scheme is
// http or https.
func answers(scheme string, at net.Addr) func(context.Context) bool {
	return func(ctx context.Context) bool {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, at.Network(), at.String())
		}
		client := &http.Client{Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it speaks to itself, and sends no secret
		}}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost/livez", nil)
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	}
}
