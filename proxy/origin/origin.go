package origin

import (
	"context"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin/share"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Origin says how connections to the server are made. Its functions may be called concurrently.
type Origin struct {
	// Connect opens a connection and sends initialize on it.
	Connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	// Resume returns the connection of a session that has an id at the server. It is nil if a
	// session ends with its connection.
	Resume func(id, version string) *upstream.Begun
	// Restarts says that the server is a process, which can be started again after it has ended.
	Restarts bool
	// Open opens a connection without sending anything. It is nil if servers are known to be
	// handshake servers.
	Open func(ctx context.Context) (*upstream.Begun, error)
	// Shared is the process that all sessions share; nil if each has its own.
	Shared *share.Sharing
	// Ready returns an error if the server cannot be reached. It is nil if that cannot be checked.
	Ready func(ctx context.Context) error
	// Renew makes an origin for the same server from another configuration. It may be nil.
	Renew func(cfg config.Config, log *zap.Logger) (Origin, error)
	// Dialer has the connections to a server at a URL; nil for others.
	Dialer *upstream.Dialer
	// Certificates are those of connections to the server; nil if there are none.
	Certificates *Certificates
	// Credential is what requests to the server carry; nil for none.
	Credential *Credential
	// Credentials makes credentials; nil where there never is one.
	Credentials *Credentials
	// Close releases what the connections share; may be nil.
	Close func()
	// World is where the server is. Logins, adapters and other replicas are reached in it, too.
	World World
	// Memory is the memory for large messages of the server; nil if it is not limited.
	Memory *large.Memory
	// Stderr has who watches what the server's process writes to its stderr; nil if there is none.
	Stderr *pipes.Watch
}

// Share makes all sessions share one process.
func (o *Origin) Share() {
	o.Shared = share.New()
	o.Close = o.Shared.Close
}

// Opened returns an origin that opens a connection with open and then sends initialize on it. piped says
// that all messages of the server come on one stream.
func Opened(piped bool, open func(ctx context.Context) (upstream.Conn, error)) Origin {
	return Origin{Connect: func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
		conn, err := open(ctx)
		if err != nil {
			return nil, err
		}
		b := &upstream.Begun{Conn: conn}
		if piped {
			b.Standing, err = conn.Listen(context.WithoutCancel(ctx), upstream.ListenOptions{})
		}
		if err == nil {
			b.Answer, err = conn.Send(ctx, initialize)
		}
		if err != nil {
			conn.Close(ctx)
			return nil, err
		}
		return b, nil
	}}
}

// Env returns the environment of the server's process: the variables that it may inherit, and
// those of the configuration.
func Env(u config.Upstream, ours []string) []string {
	env := upstream.AllowEnv(ours, u.PassEnv, u.SecretNames)
	for name, value := range u.Env {
		env = append(env, name+"="+value)
	}
	return env
}
