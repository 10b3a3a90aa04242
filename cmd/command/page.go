package command

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/term"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe/instances"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// anyPort is the address of a page that has no address of its own.
const anyPort = "127.0.0.1:0"

// shimPage opens the listener of the page of a client on stdio, if there is a page. Several shims run on one machine, so
// each has a port of its own, which "dragoman inspect" finds.
func shimPage(srv *proxy.Server, cfg config.Config, open bool, log *zap.Logger) (withdraw func(), err error) {
	if !cfg.Inspect.Enabled {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", anyPort)
	if err != nil {
		return nil, err
	}
	srv.Admin(ln)
	if open {
		openPage(srv.PageInvitation(ln.Addr()), log)
	}
	return announce(cfg, srv.PageURL(ln.Addr()), log), nil
}

// openPage opens the page in a browser on this machine. Other users can read the address among the arguments of the browser's
// process, so it does not hold the token. A failure is only logged: the page can be opened by hand.
func openPage(address string, log *zap.Logger) {
	if err := oauth.OpenBrowser(address); err != nil {
		log.Warn("cannot open the live page in a browser", zap.Error(err), zap.String("advice", "dragoman inspect prints the URL of the page, for a browser on this machine"))
	}
}

// announce lets "dragoman inspect" find the page, and logs that. Nothing waits for the files that this takes. A failure is
// only logged.
func announce(cfg config.Config, page string, log *zap.Logger) (withdraw func()) {
	if page == "" {
		return func() {}
	}
	found := make(chan func(), 1)
	go func() { found <- announced(cfg, page, log) }()
	return func() { (<-found)() }
}

// announced does what announce promises.
func announced(cfg config.Config, page string, log *zap.Logger) (withdraw func()) {
	at, _, _ := strings.Cut(page, "#") // the rest is the token
	dir, err := instances.Dir()
	if err == nil {
		withdraw, err = instances.Announce(dir, instances.Instance{
			PID: os.Getpid(), URL: page, Server: cmp.Or(origin.Name(cfg.Upstream), adaptersOf(cfg), "with its built-in server"),
			Command: commandName(os.Args), Version: mcp.Version(), Started: time.Now(),
		})
	}
	if err != nil {
		log.Warn("cannot note where the live page is: dragoman inspect does not find it", zap.String("url", at), zap.Error(err))
		return func() {}
	}
	log.Info("the live page is served: dragoman inspect lists it with its token", zap.String("url", at))
	return withdraw
}

// adaptersOf names the adapters of a configuration; "" if it has none.
func adaptersOf(cfg config.Config) string {
	if len(cfg.Adapters.Sources) == 0 {
		return ""
	}
	return "adapters of " + strings.Join(cfg.Adapters.Sources, ", ")
}

// commandName returns the command that runs with these arguments, such as "serve".
func commandName(args []string) string {
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		return args[1]
	}
	return "dragoman" // without a command, or the flags before it
}

// showPage tells the person at the terminal where the page is. The URL holds the token, so it goes to no log.
func showPage(page string) {
	if page != "" && term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\nLive page: %s\n\n", page)
	}
}
