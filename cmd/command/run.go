package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/memlimit"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/commands/demo"
	"github.com/dragoman-proxy/dragoman/proxy/commands/filter"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/translate"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve [--adapters DIR] (URL | -- COMMAND [ARG...])",
		Short: "Serve HTTP clients in front of a server",
		Example: "  dragoman serve http://127.0.0.1:3000/mcp\n" +
			"  dragoman serve https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'\n" +
			"  dragoman serve -- npx -y @modelcontextprotocol/server-everything\n" +
			"  dragoman serve --adapters ./adapters",
	}
	s := newSettings(cmd, listenFlags, upstreamFlags, signInFlags, adapterFlags, transformFlags, recordFlags, inspectFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := s.config(args)
		if err != nil {
			return err
		}
		return serve(cmd, cfg, proxy.New, newReloader(s, args, cfg), nil)
	}
	return cmd
}

func stdioCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stdio [--adapters DIR] (URL | -- COMMAND [ARG...])",
		Short: "Serve one client on stdin and stdout in front of a server",
		Example: "  dragoman stdio https://mcp.example.com/mcp    # signs in if the server requires it\n" +
			"  dragoman stdio https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'\n" +
			"  dragoman stdio -- npx -y @modelcontextprotocol/server-everything\n" +
			"  dragoman stdio --adapters ./adapters",
	}
	s := newSettings(cmd, upstreamFlags, shimFlags, adapterFlags, transformFlags, recordFlags, inspectFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := s.config(args)
		if err != nil {
			return err
		}
		log, level, err := adjustableLogger(cfg)
		if err != nil {
			return err
		}
		srv, err := proxy.New(cfg, log)
		if err != nil {
			return withCode(exitUsage, err) // a file that the configuration names
		}
		srv.RememberServer()
		ctx, end := context.WithCancel(cmd.Context())
		defer end()
		r := newReloader(s, args, cfg)
		r.applyTo(srv, log, level)
		w := &watcher{log: log, concerns: append(adapterConcerns(srv, cfg), r.concern()), ends: openTerminals().endsStdio, end: end}
		defer w.start(ctx)()
		countDroppedLines(srv)
		if err := srv.Record(); err != nil {
			return withCode(exitUsage, err)
		}
		withdraw, err := shimPage(srv, cfg, s.open, log)
		if err != nil {
			return err
		}
		defer withdraw()
		defer freeingMemory(ctx)()
		sayWaiting(stderr, os.Stdin, atTerminal)
		err = srv.ServePipe(ctx, os.Stdin, os.Stdout)
		if errors.Is(err, syscall.EPIPE) {
			log.Info("the client has closed dragoman's stdout: stopping")
			return nil
		}
		return withCode(exitServer, err)
	}
	return cmd
}

// serve listens and serves until the command's context ends. r reloads the configuration; it is nil if
// the configuration never changes. Unless say is nil, serve calls it with the endpoint, and the
// URL of the page if there is one, as soon as it listens.
func serve(cmd *cobra.Command, cfg config.Config, make func(config.Config, *zap.Logger) (*proxy.Server, error), r *reloader, say func(url, page string)) error {
	log, level, err := adjustableLogger(cfg)
	if err != nil {
		return err
	}
	srv, err := make(cfg, log)
	if err != nil {
		return withCode(exitUsage, err) // a file that the configuration names
	}
	countDroppedLines(srv)
	var warnings []func() // stand behind the line about what is served
	warn := func(message string, fields ...zap.Field) {
		warnings = append(warnings, func() { log.Warn(message, fields...) })
	}
	if cfg.Auth.Unused {
		warn(config.UnusedToken, zap.String("advice", config.UseOfToken))
	}
	ln, err := listen(cfg)
	if err != nil {
		return fmt.Errorf("%w: %s", err, elsewhere(err, cfg.Listen))
	}
	ops, err := admin(srv, cfg, ln.Addr(), warn)
	if err != nil {
		ln.Close()
		return err
	}
	page := ""
	if ops != nil {
		page = srv.PageURL(ops.Addr())
		defer announce(cfg, page, log)()
	}
	if err := srv.Record(); err != nil {
		ln.Close()
		return withCode(exitUsage, err)
	}
	if say != nil {
		say(srv.Endpoint(ln.Addr()), page)
	} else {
		showPage(page)
	}
	if open, _ := cmd.Flags().GetBool("open"); open && page != "" {
		openPage(srv.PageInvitation(ops.Addr()), log)
	}
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	service := managerOf(os.Getenv, log)
	defer service.close()
	if r != nil {
		r.applyTo(srv, log, level)
		w := &watcher{log: log, concerns: append(adapterConcerns(srv, cfg), r.concern()), ends: openTerminals().endsServe, end: end, manager: service}
		defer w.start(ctx)()
	}
	period, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager gets no signs of life", zap.Error(err))
	}
	alive := answers("http", ln.Addr())
	if ops != nil {
		alive = answers("http", ops.Addr())
	} else if cfg.TLS.Cert != "" {
		alive = answers("https", ln.Addr())
	}
	defer service.watch(period, alive)()
	srv.WhenServing(func() {
		for _, say := range warnings {
			say()
		}
		service.ready()
	})
	defer context.AfterFunc(ctx, service.stopping)()
	defer freeingMemory(ctx)()
	err = srv.Serve(ctx, ln)
	if errors.Is(err, setup.ErrLends) || errors.Is(err, setup.ErrUnverified) || errors.As(err, new(*setup.WeakTokenError)) || errors.As(err, new(*setup.OwnAddressError)) {
		return withCode(exitUsage, err)
	}
	return err
}

// elsewhere says what to do if dragoman cannot listen at addr.
func elsewhere(err error, addr string) string {
	switch do := "--listen (listen) chooses another address"; {
	case oauth.IsInUse(err):
		return do + "; " + holderOf(addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return do + ": one of this machine, such as 127.0.0.1:8808, or 0.0.0.0:8808 for all"
	case errors.Is(err, fs.ErrPermission):
		return do + ": ports below 1024 need a privilege"
	default:
		return do
	}
}

// holderOf says how to find out which process has an address.
func holderOf(addr string) string {
	return "dragoman doctor --listen " + config.AsTyped([]string{addr}) + " says which process has this one"
}

// listen opens the listener for clients.
func listen(cfg config.Config) (net.Listener, error) {
	if !unixsocket.Is(cfg.Listen) {
		return net.Listen("tcp", cfg.Listen)
	}
	path, err := unixsocket.Path(cfg.Listen)
	if err != nil {
		return nil, err
	}
	return unixsocket.Listen(path, cfg.SocketMode())
}

// freeingMemory gives memory back while no messages pass, until stop is called.
func freeingMemory(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var freeing sync.WaitGroup
	freeing.Go(func() { memlimit.WhileQuiet(ctx) })
	return func() {
		cancel()
		freeing.Wait()
	}
}

func countDroppedLines(srv *proxy.Server) {
	srv.Register(metrics.LogLinesDropped(func() float64 { return float64(stderr.Dropped()) }))
}

// admin opens the listener for probes, metrics and the page; it is nil if there is none. If the listener for clients is only for
// this machine, a failure is only warned of: another process on this machine, perhaps another dragoman, may use the address. The
// page then has another one. If no setting names the address, another port does as well.
func admin(srv *proxy.Server, cfg config.Config, clients net.Addr, warn func(string, ...zap.Field)) (net.Listener, error) {
	if cfg.Admin.Listen == "" && !cfg.Inspect.Enabled {
		return nil, nil
	}
	ln, err := net.Listen("tcp", cmp.Or(cfg.Admin.Listen, anyPort))
	if cfg.Admin.Movable && oauth.IsInUse(err) {
		ln, err = net.Listen("tcp", anyPort)
	}
	if err == nil {
		srv.Admin(ln)
		return ln, nil
	}
	do := "admin.listen chooses another address"
	switch {
	case oauth.IsInUse(err) && oauth.SamePort(cfg.Admin.Listen, clients):
		err, do = fmt.Errorf("dragoman itself listens at %s for clients (listen)", clients), "give admin.listen another port"
	case oauth.IsInUse(err):
		err = fmt.Errorf("another process has %s", cfg.Admin.Listen)
		do = "for a second dragoman on this machine, DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0 (admin.listen) takes a free port; " + holderOf(cfg.Admin.Listen)
	}
	if !setup.IsLoopback(clients) {
		return nil, fmt.Errorf("admin.listen: %w; %s", err, do)
	}
	why := []zap.Field{zap.Error(err), zap.String("advice", do)}
	if !cfg.Inspect.Enabled {
		warn("probes and metrics are not served", why...)
		return nil, nil
	}
	if ln, err = net.Listen("tcp", anyPort); err != nil {
		return nil, err
	}
	warn("the page, probes and metrics are at another address", append(why, zap.Stringer("address", ln.Addr()))...)
	srv.Admin(ln)
	return ln, nil
}

func runDemo(cmd *cobra.Command, s *settings, quiet bool) error {
	cfg, err := s.config(nil)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("inspect") || s.inspect {
		cfg.Inspect.Enabled, cfg.Inspect.Keep = true, true
	}
	out := cmd.OutOrStdout()
	var show func(demo.Exchange)
	if !quiet {
		queue := newLineQueue(out) // so that calls do not wait for the reader of out
		defer queue.Sync()         //nolint:errcheck // never fails
		show = (&transcript{out: queue}).print
	}
	build := func(cfg config.Config, log *zap.Logger) (*proxy.Server, error) { return proxy.NewDemo(cfg, log, show) }
	return serve(cmd, cfg, build, nil, func(url, page string) { introduce(out, url, page) })
}

// introduce prints how to use the built-in server at url, and first where the page is, if there is one.
func introduce(out io.Writer, url, page string) {
	if page != "" {
		fmt.Fprintf(out, "%s\n\n", page)
		fmt.Fprint(out, "shows the messages as they pass.\n\n")
	}
	entry := `{"type": "http", "url": "` + url + `"}`
	if unixsocket.Is(url) { // which clients reach through a dragoman of their own
		entry = `{"command": "dragoman", "args": ["stdio", "` + url + `"]}`
	}
	fmt.Fprintf(out, `A small MCP server of %[2]s is at

    %[1]s

for clients of %[2]s to %[4]s. In a client's configuration:

    {"mcpServers": {"dragoman": %[6]s}}

By hand:

    mcp() { curl -s -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "$@" %[5]s; echo; }

    mcp -D /tmp/dragoman-head -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%[3]s","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}'
    session=$(sed -n 's/\r$//; s/^[Mm]cp-[Ss]ession-[Ii]d: //p' /tmp/dragoman-head)
    mcp -H "Mcp-Session-Id: $session" -d '{"jsonrpc":"2.0","method":"notifications/initialized"}'
    mcp -H "Mcp-Session-Id: $session" -d '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'
    mcp -H "Mcp-Session-Id: $session" -d '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow","arguments":{"steps":3},"_meta":{"progressToken":1}}}'

Each request is shown here, as the client sent it and as the server got it, and its answer
(--quiet shows none). Stop with Ctrl-C. To use dragoman in front of your own server: dragoman serve URL

`, url, translate.Oldest().Name, translate.Latest().Name, translate.All()[0].Name, unixsocket.Curl(url), entry)
}

func translateCommand() *cobra.Command {
	var from, to string
	var report, explain, edge string
	var fromClient, fromServer bool
	cmd := &cobra.Command{
		Use:   "translate (--from REVISION --to REVISION | --edge SIDE) [--explain | --report[=full]] < messages.jsonl",
		Short: "Translate messages, one a line, from stdin to stdout",
		Long: "Translate messages, one a line, from stdin to stdout. Messages that the receiver would not get\n(dropped, answered on its behalf, refused) are reported on stderr, and with --report what was lost, which the\nreceiver misses, and what was changed, which was added, moved or empty: the first place of each rule, or with\n--report=full every place.\n\n" +
			"--explain says on stderr, for each message, what was removed, added, replaced or renamed, and which rule did\nthat, in words. The path of an added value is that in the translated message; all other paths, and\nthose before an arrow, are those in the message on stdin. --explain=json writes a line of JSON for each change.\n\n" +
			"A line may hold an array of messages, or {\"dir\":\"c2s\",\"message\":{…}}, in which dir names the sender:\nc2s for the client, s2c for the server.\n\n" +
			"What a proxy changes apart from the translation is left as it is: tool schemas in JSON Schema draft-07, which\n`dragoman probe` lists as C36, token budgets and adapters.\n\n" +
			"With --edge, the lines are a recording (--record FILE): the messages that came from that side are translated,\nfrom its revision to that of the other side, which the recording has.",
		Example: "  dragoman translate --from REVISION --to REVISION --report < messages.jsonl\n  dragoman translate --from REVISION --to REVISION --explain < messages.jsonl > translated.jsonl\n  dragoman translate --edge server --explain < recording.jsonl",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&edge, "edge", "", "read a recording, and translate what came from this side: client or server")
	cmd.Flags().StringVar(&from, "from", "", "revision of the messages")
	cmd.Flags().StringVar(&to, "to", "", "revision to translate them to")
	cmd.Flags().StringVar(&report, "report", "", "report on stderr what was lost and what was changed, as lines of JSON: short or full")
	cmd.Flags().Lookup("report").NoOptDefVal = string(filter.ReportShort)
	cmd.Flags().StringVar(&explain, "explain", "", "explain on stderr what was changed in each message, and by which rule: words or json")
	cmd.Flags().Lookup("explain").NoOptDefVal = string(filter.ExplainWords)
	cmd.Flags().BoolVar(&fromClient, "from-client", false, "the client sent all messages")
	cmd.Flags().BoolVar(&fromServer, "from-server", false, "the server sent all messages; without either flag, a response belongs to the request with its id")
	cmd.MarkFlagsMutuallyExclusive("from-client", "from-server", "edge")
	cmd.MarkFlagsMutuallyExclusive("explain", "report")
	s := newSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.config(nil)
		if err != nil {
			return err
		}
		f := filter.Filter{
			Options: cfg.Contract, Limits: cfg.Limits, Report: filter.Reporting(report), Explain: filter.Explaining(explain), Edge: edge,
			In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Notes: cmd.ErrOrStderr(),
		}
		switch {
		case f.Report != filter.ReportNone && f.Report != filter.ReportShort && f.Report != filter.ReportFull:
			return &exitError{exitUsage, fmt.Errorf("--report: %q is not short or full", report)}
		case f.Explain != filter.ExplainNone && f.Explain != filter.ExplainWords && f.Explain != filter.ExplainJSON:
			return &exitError{exitUsage, fmt.Errorf("--explain: %q is not words or json", explain)}
		case edge != "" && edge != recording.ClientEdge && edge != recording.ServerEdge:
			return &exitError{exitUsage, fmt.Errorf("--edge: %q is not client or server", edge)}
		case fromClient:
			f.By = filter.FromClient
		case fromServer:
			f.By = filter.FromServer
		}
		for _, at := range []struct {
			flag, name string
			rev        **translate.Revision
		}{{"--from", from, &f.From}, {"--to", to, &f.To}} {
			if at.name == "" && edge != "" {
				continue // the recording says it
			}
			if *at.rev, err = revision(at.flag, at.name); err != nil {
				return err
			}
		}
		sayReading(cmd)
		return f.Run()
	}
	return cmd
}

func revision(flag, name string) (*translate.Revision, error) {
	if name == "" {
		return nil, &exitError{exitUsage, fmt.Errorf("%s is missing: write --from REVISION --to REVISION, each one of %s", flag, strings.Join(translate.Names(), ", "))}
	}
	r := translate.Lookup(name)
	if r == nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s: %q is not a revision; there are %s", flag, name, strings.Join(translate.Names(), ", "))}
	}
	return r, nil
}
