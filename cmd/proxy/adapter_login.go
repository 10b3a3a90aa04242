package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/oauth"
)

// loginTime is how long a person has to log in.
const loginTime = 10 * time.Minute

func adapterLoginCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to the API of an adapter and store its tokens",
		Long: "Log in, as a person, to the API of an adapter whose file has auth of type oauth with an\n" +
			"authorization_url or a device_authorization_url. The tokens are stored for serve, stdio and\n" +
			"call: in the directory that credentials names, sealed where there is a keyring. A running\n" +
			"process takes them with its next call.\n\n" + exitHelp,
		Example: "  dragoman adapter login github-api\n" +
			"  dragoman adapter login github-api --device\n" +
			"  dragoman adapter login github-api --paste    # the browser is on another machine",
		Args: cobra.ExactArgs(1),
	}
	device := cmd.Flags().Bool("device", false, "log in on another device, with a code")
	paste := cmd.Flags().Bool("paste", false, "read the address that the browser ended at from stdin")
	quiet := cmd.Flags().Bool("no-browser", false, "print the address of the login instead of opening a browser")
	cmd.MarkFlagsMutuallyExclusive("device", "paste")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Sources{File: s.config, Environ: os.Environ()}.Read()
		if err == nil && cfg.CredentialStore == string(oauth.Memory) {
			err = errors.New("credential_store is memory: the login would end with this command")
		}
		if err != nil {
			return &exitError{exitUsage, err}
		}
		rt, a, err := s.find(cmd, args[0])
		if err != nil {
			return err
		}
		defer rt.Close()
		l, err := rt.Login(a.Name)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		ctx, stop := context.WithTimeout(cmd.Context(), loginTime)
		defer stop()
		switch {
		case *device && !l.Device:
			return &exitError{exitUsage, fmt.Errorf("adapter %s has no device_authorization_url", a.Name)}
		case *device || !l.Browser:
			err = loginByDevice(ctx, cmd.ErrOrStderr(), l)
		default:
			b := browserLogin{say: cmd.ErrOrStderr(), open: !*quiet}
			if *paste {
				b.pasted = cmd.InOrStdin()
			}
			err = b.login(ctx, l)
		}
		if errors.Is(err, context.DeadlineExceeded) && cmd.Context().Err() == nil {
			err = fmt.Errorf("nobody has logged in within %v", loginTime)
		}
		if err != nil {
			return withCode(exitServer, fmt.Errorf("%s", printable(err.Error())))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "adapter %s is logged in\n", a.Name)
		return err
	}
	return cmd
}

// browserLogin is a login in a browser, of this machine or of another.
type browserLogin struct {
	say    io.Writer
	open   bool
	pasted io.Reader // where the browser cannot come back; nil otherwise
}

func (b browserLogin) login(ctx context.Context, l *credential.Login) error {
	at, err := oauth.Listen(l.Back)
	if err != nil {
		return err
	}
	defer at.Close()
	visit, err := l.Visit(at.URL)
	if err != nil {
		return err
	}
	if b.pasted != nil || !b.open || oauth.OpenBrowser(visit.URL) != nil {
		fmt.Fprintf(b.say, "Log in at this address:\n\n  %s\n\n", printable(visit.URL))
	} else {
		fmt.Fprintf(b.say, "Log in in the browser. Where none has opened, this is the address:\n\n  %s\n\n", printable(visit.URL))
	}
	var brought url.Values
	if b.pasted == nil {
		brought, err = at.Wait(ctx, visit.State)
	} else {
		fmt.Fprintln(b.say, "The browser ends at a page that it cannot show. Paste that page's address here:")
		brought, err = pastedAddress(b.pasted)
	}
	if err != nil {
		return err
	}
	return visit.Finish(ctx, brought)
}

const maxPastedLine = 64 << 10

func pastedAddress(r io.Reader) (url.Values, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPastedLine)).ReadString('\n')
	if err != nil && line == "" {
		return nil, fmt.Errorf("no address: %w", err)
	}
	return oauth.Pasted(line)
}

func loginByDevice(ctx context.Context, say io.Writer, l *credential.Login) error {
	d, err := l.Begin(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(say, "Open %s on any device and enter the code %s\n", printable(d.URL), printable(d.Code))
	if d.Whole != "" {
		fmt.Fprintf(say, "or open %s\n", printable(d.Whole))
	}
	return d.Wait(ctx)
}

func adapterLogoutCommand(s *adapterSettings) *cobra.Command {
	return &cobra.Command{
		Use:   "logout NAME",
		Short: "Forget the stored tokens of an adapter",
		Long: "Forget the stored tokens of an adapter. They stay good at the API until they end or are revoked\n" +
			"there. An adapter with a refresh token in its configuration begins with that again.\n\n" + exitHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, a, err := s.find(cmd, args[0])
			if err != nil {
				return err
			}
			defer rt.Close()
			if err := rt.Forget(cmd.Context(), a.Name); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the tokens of adapter %s are forgotten here\n", a.Name)
			return err
		},
	}
}
