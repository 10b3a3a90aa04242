package command

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

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// loginTime is how long a person has to log in.
const loginTime = 10 * time.Minute

var errLoginInMemory = errors.New("credential_store is memory, so the tokens would be lost when this command ends: set it to auto, keyring or store")

func adapterLoginCommand(s *adapterSettings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "login NAME | --list",
		Short: "Log in to the API of an adapter and store its tokens",
		Long: "Log in, as a person, to the API of an adapter whose file has auth of type oauth with an\n" +
			"authorization_url or a device_authorization_url. The tokens are stored for serve, stdio and\n" +
			"call: in the directory that credentials names, encrypted if there is a keyring. A running\n" +
			"process uses them from its next call on.\n\n" + exitHelp,
		Example: "  dragoman adapter login github-api\n" +
			"  dragoman adapter login github-api --device\n" +
			"  dragoman adapter login github-api --paste    # the browser is on another machine\n" +
			"  dragoman adapter login --list                # which adapters are logged in, and until when",
	}
	list := cmd.Flags().Bool("list", false, "list the adapters that store tokens, and what is stored")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if *list {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}
	device := cmd.Flags().Bool("device", false, "log in on another device, with a code")
	paste := cmd.Flags().Bool("paste", false, "read the address of the browser's last page from stdin")
	quiet := cmd.Flags().Bool("no-browser", false, "print the address of the login instead of opening a browser")
	cmd.MarkFlagsMutuallyExclusive("device", "paste", "list")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *list {
			return s.listLogins(cmd)
		}
		cfg, err := config.Sources{File: s.config, Environ: os.Environ()}.Read()
		if err == nil && cfg.CredentialStore == string(oauth.Memory) {
			err = errLoginInMemory
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
			err = fmt.Errorf("no login within %v", loginTime)
		}
		if err != nil {
			return withCode(exitServer, fmt.Errorf("%s", printable(err.Error())))
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "adapter %s is logged in\n", a.Name)
		return err
	}
	return cmd
}

// listLogins prints the stored login of each adapter that stores tokens.
func (s *adapterSettings) listLogins(cmd *cobra.Command) error {
	return s.loaded(cmd, func(rt *adapterrt.Runtime) error {
		return tabulate(cmd.OutOrStdout(), "ADAPTER\tSERVER\tLOGIN\tTOKEN UNTIL", func(row func(...any)) {
			for _, a := range rt.Adapters() {
				st, err := rt.Stored(cmd.Context(), a.Name)
				if err != nil {
					continue
				}
				until := "-"
				if !st.Expires.IsZero() {
					until = st.Expires.Local().Format(time.DateTime)
				}
				row(a.Name, st.Server, st.State, until)
			}
		})
	})
}

// browserLogin is a login in a browser, on this machine or on another.
type browserLogin struct {
	say    io.Writer
	open   bool
	pasted io.Reader // from which the browser's last address is read; nil if the browser comes back to this process

	byDevice func() string // the command for a login on another device, "" if there is none; may be nil
}

func (b browserLogin) login(ctx context.Context, l *credential.Login) error {
	at, err := oauth.Listen(l.Back)
	if err != nil {
		return err
	}
	defer at.Close()
	visit, err := l.Visit(ctx, at.URL)
	if err != nil {
		return err
	}
	brought, err := b.Visit(ctx, visit.URL, at, visit.State)
	if err != nil {
		return err
	}
	return visit.Finish(ctx, brought)
}

// Visit shows the login page at address. It returns the query of the redirect that at receives from the browser,
// or of the redirect URL that the person pastes. It implements [oauth.Browser].
func (b browserLogin) Visit(ctx context.Context, address string, at *oauth.Callback, state string) (url.Values, error) {
	if b.pasted != nil || !b.open || oauth.OpenBrowser(address) != nil {
		fmt.Fprintf(b.say, "Log in at this address:\n\n  %s\n\n", printable(address))
		if b.byDevice != nil && b.pasted == nil {
			if command := b.byDevice(); command != "" {
				fmt.Fprintf(b.say, "If no browser on this machine can open it, stop here and run this for a login on another device:\n\n  %s\n\n", printable(command))
			}
		}
	} else {
		fmt.Fprintf(b.say, "Log in in the browser. If none has opened, open this address:\n\n  %s\n\n", printable(address))
	}
	if b.pasted == nil {
		return at.Wait(ctx, state)
	}
	fmt.Fprintln(b.say, "After the login, the browser shows an error page, because dragoman is on another machine. Paste the address of that page here:")
	return pastedAddress(b.pasted)
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
	sayCode(say, d.URL, d.Code, d.Whole)
	return d.Wait(ctx)
}

// sayCode tells the user to enter a code on another device. whole is a page that has the code already; "" for none.
func sayCode(say io.Writer, page, code, whole string) {
	fmt.Fprintf(say, "Open %s on any device and enter the code %s\n", printable(page), printable(code))
	if whole != "" {
		fmt.Fprintf(say, "or open %s\n", printable(whole))
	}
}

func adapterLogoutCommand(s *adapterSettings) *cobra.Command {
	return &cobra.Command{
		Use:   "logout NAME",
		Short: "End the login of an adapter",
		Long: "Delete the stored tokens of an adapter. If its file has a revocation_url, the OAuth server is asked to\n" +
			"revoke them; otherwise they stay valid at the API until they expire or are revoked there. An adapter\n" +
			"with a refresh token in its configuration uses that token again.\n\n" + exitHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			rt, a, err := s.find(cmd, args[0])
			if err != nil {
				return err
			}
			defer rt.Close()
			revoked, why, err := rt.Logout(cmd.Context(), a.Name)
			if err != nil {
				return err
			}
			said := "deleted here"
			if revoked {
				said = "revoked, and deleted here"
			}
			if _, err = fmt.Fprintf(cmd.OutOrStdout(), "the tokens of adapter %s are %s\n", a.Name, said); err == nil && why != nil {
				err = withCode(exitServer, fmt.Errorf("cannot revoke the tokens, which stay valid at the API until they expire: %s", printable(why.Error())))
			}
			return err
		},
	}
}
