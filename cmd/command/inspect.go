package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/inspect"
	"github.com/dragoman-proxy/dragoman/proxy/observe/instances"
	"github.com/dragoman-proxy/dragoman/proxy/observe/page"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/observe/redact"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

func inspectCommand() *cobra.Command {
	open := false
	cmd := &cobra.Command{
		Use:   "inspect [--open] [FILE]",
		Short: "Show a recording in a browser, or list the pages of running dragomans",
		Long: "With FILE, serve the page that shows calls, filled from a recording (--record FILE), and print its URL, until\n" +
			"Ctrl-C. Only this machine can open it, with the token in the URL.\n\n" +
			"Without FILE, list the pages of the dragomans that this user runs (--inspect), also of those that a client has\n" +
			"started.",
		Example: "  dragoman inspect calls.jsonl\n  dragoman inspect",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the page of FILE in a browser on this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return inspectFile(cmd.Context(), cmd.OutOrStdout(), args[0], open)
		}
		if open {
			return &exitError{exitUsage, errors.New("--open opens a recording: dragoman inspect --open FILE; a dragoman that is started with --open opens its own page")}
		}
		dir, err := instances.Dir()
		if err != nil {
			return err
		}
		return listPages(cmd.OutOrStdout(), dir)
	}
	return cmd
}

// listPages prints the pages of the instances in dir.
func listPages(out io.Writer, dir string) error {
	all, err := instances.List(dir)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "No dragoman of this user has a page: start one with --inspect, or name a recording.")
		return err
	}
	for _, i := range all {
		if _, err := fmt.Fprintf(out, "%s %s (process %d, since %s)\n    %s\n", i.Command, i.Server, i.PID, i.Started.Local().Format(time.DateTime), i.URL); err != nil {
			return err
		}
	}
	return nil
}

// inspectFile serves the page with a recording until ctx ends, and opens it in a browser if open says so.
func inspectFile(ctx context.Context, out io.Writer, name string, open bool) error {
	file, closer, err := recording.OpenFile(name)
	if err != nil {
		return withCode(exitUsage, err)
	}
	ring := observe.NewPast(redact.AsIs())
	skipped, err := recording.Play(file, ring)
	if err = errors.Join(err, closer.Close()); err != nil {
		return withCode(exitUsage, fmt.Errorf("%s: %w", name, err))
	}
	if skipped > 0 {
		fmt.Fprintf(stderr, "dragoman: left out: %s that are not of a recording, or were not written to their end\n", count(skipped, "line"))
	}
	head, token := file.Header(), inspect.NewToken()
	h, err := inspect.New(inspect.Options{
		Ring: ring, File: filepath.Base(name), Files: page.Files(), Token: token, Redactor: redact.AsIs(), AllowsHost: downstream.HostCheck(nil),
		Version: head.Version, Started: head.TS, Payloads: string(redact.Masked),
		Export: inspect.ExportHeader{Version: head.Version, Configuration: func() string { return head.Configuration }},
	})
	if err != nil {
		return err
	}
	defer h.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &fasthttp.Server{
		Handler: h.Serve, NoDefaultServerHeader: true, ReadTimeout: 30 * time.Second, MaxRequestBodySize: 1 << 10, Logger: quietLog{},
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	if _, err = fmt.Fprintf(out, "%s: %s\n\n    http://%s%s#token=%s\n\nCtrl-C ends it.\n", name, kept(ring), ln.Addr(), inspect.Path, token); err == nil {
		if open {
			if failed := oauth.OpenBrowser("http://" + ln.Addr().String() + inspect.Path + "#once=" + h.Invite()); failed != nil {
				fmt.Fprintln(stderr, "dragoman: cannot open it in a browser:", failed)
			}
		}
		select {
		case err = <-served:
			served <- nil
		case <-ctx.Done():
		}
	}
	h.Close() // ends the feeds, for which Shutdown would wait
	err = errors.Join(err, server.Shutdown())
	return errors.Join(err, <-served)
}

// kept says how much of a recording the page has: the ring drops the oldest calls of a large one.
func kept(ring *observe.Ring) string {
	switch first, last := ring.Bounds(); last {
	case 0:
		return "no calls"
	default:
		return fmt.Sprintf("call %d to call %d", first, last)
	}
}

// quietLog drops what fasthttp says about connections that break.
type quietLog struct{}

func (quietLog) Printf(string, ...any) {}
