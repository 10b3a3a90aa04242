// Package redisstore is an engine of package store: a server with the Redis protocol, alone, behind Sentinel, or a Cluster.
//
// The client is rueidis. It adds 0.9 MB to a program (go-redis 3.0 MB), sends what is asked at the same time over one connection,
// gives up at the deadline of each operation while the server is stopped, and speaks with Redis and Valkey. valkey-go is the
// same code by the same author, and follows it.
//
// Commands are those of Redis 6.2, which Valkey has too. Each names one key, so that a Cluster may put keys where it likes; what
// must happen at once is one command, or a script.
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// Options says where the server is.
type Options struct {
	Network   string   // "tcp" or "unix"
	Addresses []string // host:port, or a socket's path; several for a Cluster, or of Sentinels
	Database  int
	Sentinel  string // the name of the server at the Sentinels; "" if the addresses are those of servers

	// TLS and credentials are asked for at each connection.

	TLS              func() (*tls.Config, error) // nil for none
	Username         string
	Password         func() (string, error) // nil for none
	SentinelPassword string
}

// Engine is a server with the Redis protocol. It connects when it is first used, and again after the connection is lost.
type Engine struct {
	options    rueidis.ClientOption
	connecting singleflight.Group

	mu     sync.Mutex
	client rueidis.Client // nil before the first connection
	closed bool
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
}

const (
	dialTimeout = 2 * time.Second
	// silence is how long a connection may be silent although something was asked, before it counts as lost. It is longer than the
	// time limit of an operation, so that a server that was only slow for a moment keeps its connections.
	silence = 2 * time.Second
	// buffers are those of a connection, for reading and for writing.
	buffers = 64 << 10
)

// New returns an engine that has not connected yet.
func New(o Options) *Engine {
	e := new(Engine)
	e.ctx, e.stop = context.WithCancel(context.Background())
	dial := func(ctx context.Context, address string, d *net.Dialer, secure *tls.Config) (net.Conn, error) {
		if o.Network == "unix" {
			return d.DialContext(ctx, "unix", address)
		}
		if secure == nil {
			return d.DialContext(ctx, "tcp", address)
		}
		secure, err := o.TLS()
		if err != nil {
			return nil, err
		}
		return (&tls.Dialer{NetDialer: d, Config: secure}).DialContext(ctx, "tcp", address)
	}
	credentials := func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		if o.Password == nil {
			return rueidis.AuthCredentials{Username: o.Username}, nil
		}
		secret, err := o.Password()
		return rueidis.AuthCredentials{Username: o.Username, Password: secret}, err
	}
	var secure *tls.Config // says only whether to use TLS
	if o.TLS != nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	e.options = rueidis.ClientOption{
		InitAddress: o.Addresses, SelectDB: o.Database, TLSConfig: secure, DialCtxFn: dial,
		AuthCredentialsFn: credentials, ClientName: "dragoman",
		Dialer: net.Dialer{Timeout: dialTimeout, KeepAlive: silence / 2}, ConnWriteTimeout: silence,
		ReadBufferEachConn: buffers, WriteBufferEachConn: buffers,
		DisableCache: true, DisableRetry: true, AlwaysPipelining: true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	}
	if o.Sentinel != "" {
		e.options.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Sentinel, TLSConfig: secure, Dialer: e.options.Dialer, ClientName: "dragoman",
			Password: o.SentinelPassword,
		}
	}
	return e
}

// connected returns the client. Where there is none yet, it connects, at most until ctx ends.
func (e *Engine) connected(ctx context.Context) (rueidis.Client, error) {
	e.mu.Lock()
	client, closed := e.client, e.closed
	e.mu.Unlock()
	switch {
	case closed:
		return nil, rueidis.ErrClosing
	case client != nil:
		return client, nil
	}
	select {
	case done := <-e.connecting.DoChan("", e.connect):
		if done.Err != nil {
			return nil, done.Err
		}
		return done.Val.(rueidis.Client), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(e.options.InitAddress, ", "), ctx.Err())
	}
}

func (e *Engine) connect() (any, error) {
	client, err := rueidis.NewClient(e.options)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(e.options.InitAddress, ", "), err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		client.Close()
		return nil, rueidis.ErrClosing
	}
	e.client = client
	return client, nil
}

// Close implements [store.Engine].
func (e *Engine) Close() error {
	e.stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.client != nil {
		e.client.Close()
	}
	return nil
}

// do sends one command.
func (e *Engine) do(ctx context.Context, command func(b rueidis.Builder) rueidis.Completed) rueidis.RedisResult {
	client, err := e.connected(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return client.Do(ctx, command(client.B()))
}

// run runs a script.
func (e *Engine) run(ctx context.Context, s *rueidis.Lua, key string, args ...string) rueidis.RedisResult {
	client, err := e.connected(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return s.Exec(ctx, client, []string{key}, args)
}

// named makes an error of the client one of those that a [store.Engine] returns.
func named(err error) error {
	if err == nil {
		return nil
	}
	if rueidis.IsRedisNil(err) {
		return store.ErrAbsent
	}
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if !ok {
		return err
	}
	text := answer.Error()
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "UNKILLABLE":
		return err
	}
	switch {
	case strings.Contains(text, "OOM command not allowed"):
		return fmt.Errorf("%w: %s", store.ErrFull, text)
	case strings.Contains(text, "max number of clients reached"):
		return err
	}
	return fmt.Errorf("%w: %s", store.ErrRejected, text)
}

// Ping implements [store.Engine].
func (e *Engine) Ping(ctx context.Context) error {
	return named(e.do(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Ping().Build() }).Error())
}

// Get implements [store.Engine].
func (e *Engine) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := e.do(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() }).AsBytes()
	return value, named(err)
}

// Take implements [store.Engine].
func (e *Engine) Take(ctx context.Context, key string) ([]byte, error) {
	value, err := e.do(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Getdel().Key(key).Build() }).AsBytes()
	return value, named(err)
}

// Set implements [store.Engine].
func (e *Engine) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return named(e.do(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Set().Key(key).Value(rueidis.BinaryString(value)).PxMilliseconds(ttl.Milliseconds()).Build()
	}).Error())
}

// Add implements [store.Engine].
func (e *Engine) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	err := named(e.do(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Set().Key(key).Value(rueidis.BinaryString(value)).Nx().PxMilliseconds(ttl.Milliseconds()).Build()
	}).Error())
	if errors.Is(err, store.ErrAbsent) { // the answer where something is there
		return false, nil
	}
	return err == nil, err
}

// Delete implements [store.Engine].
func (e *Engine) Delete(ctx context.Context, key string) error {
	return named(e.do(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Del().Key(key).Build() }).Error())
}

// Leave implements [store.Engine].
func (e *Engine) Leave(ctx context.Context, set string, members ...[]byte) error {
	return named(e.do(ctx, func(b rueidis.Builder) rueidis.Completed {
		c := b.Zrem().Key(set).Member(rueidis.BinaryString(members[0]))
		for _, m := range members[1:] {
			c = c.Member(rueidis.BinaryString(m))
		}
		return c.Build()
	}).Error())
}

// Publish implements [store.Engine].
func (e *Engine) Publish(ctx context.Context, channel string, message []byte) error {
	return named(e.do(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Publish().Channel(channel).Message(rueidis.BinaryString(message)).Build()
	}).Error())
}

// EvictionPolicy returns what the server does when its memory is full, such as noeviction, and false if it does not say.
func (e *Engine) EvictionPolicy(ctx context.Context) (string, bool) {
	said, err := e.do(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Arbitrary("CONFIG", "GET").Args("maxmemory-policy").Build()
	}).AsStrMap()
	return said["maxmemory-policy"], err == nil && said["maxmemory-policy"] != ""
}

// Version returns the server's name and version, as "redis 7.0.15".
func (e *Engine) Version(ctx context.Context) string {
	text, err := e.do(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Info().Section("server").Build() }).ToString()
	if err != nil {
		return ""
	}
	said := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			said[name] = value
		}
	}
	if v := said["valkey_version"]; v != "" {
		return "valkey " + v
	}
	return "redis " + said["redis_version"]
}
