package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

const e2eToken = "correct-horse-battery-staple"

// TestShimToAGuardedProxy runs clients with the local command, which connects with a token, over TLS with a private
// authority, to a proxy that refuses all other clients. This setup replaces a forwarded port. The transcripts must be
// the same as without the two proxies.
func TestShimToAGuardedProxy(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	proxy := build(t)
	ca, cert, key := privateCA(t)
	guarded := config(t, fmt.Sprintf("tls: {cert: %q, key: %q}\nauth: {tokens: ['${E2E_TOKEN}']}\n", cert, key))
	byFlag := []string{"--config", config(t, fmt.Sprintf("upstream: {ca_file: %q}\n", ca)), "--header", "X-Dragoman-Token: ${E2E_TOKEN}"}
	byFile := []string{"--config", config(t, fmt.Sprintf("upstream: {ca_file: %q, headers: {X-Dragoman-Token: %s}}\n", ca, e2eToken))}

	cells := []cell{
		{client: goSDK("2024-11-05"), server: goServer("2025-11-25"), down: stdio, up: streamable},
		{client: goSDK("2025-11-25"), server: goServer("2025-03-26"), down: stdio, up: stdio},
		{client: goSDK("2025-06-18"), server: goServer("2025-11-25"), down: stdio, up: withSSE},
	}
	if m, err := installPeers(); err == nil {
		cells = append(cells, cell{client: m.typescript("1.32.2", "2025-11-25", all...), server: m.everything("2025.9.25", "2025-06-18", all...), down: stdio, up: streamable})
		cells = append(cells, cell{client: m.typescript("1.12.3", "2025-03-26", all...), server: m.everything("2026.8.31", "2025-11-25", all...), down: stdio, up: stdio})
	}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			mark := markOf(fmt.Sprintf("guarded-%p", t))
			over := c.up
			if over == withSSE && c.server.refuses != "" {
				over = stdio
			}
			alone := direct(ctx, c.client, c.server, over)
			to, stop, err := c.server.open(c.server.revision, c.up, mark)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			through := outcome{}
			flags := []string{"--config", guarded}
			through.err = proxy.serve(ctx, streamable, to, flags, func(far endpoint) (err error) {
				if !strings.HasPrefix(far.url, "https://") {
					return fmt.Errorf("it serves at %s", far.url)
				}
				credentials := byFlag
				if !c.client.reads { // the TypeScript SDK gives its children a small environment
					credentials = byFile
				}
				shim := proxy.args("stdio", far, credentials...)
				through.steps, err = c.client.run(ctx, endpoint{over: stdio, command: shim, stderr: to.stderr})
				return err
			})
			through.log = to.stderr.String()
			if pids := leftovers(mark); len(pids) > 0 {
				t.Errorf("left behind: %s", pids)
			}
			if strings.Contains(through.log, e2eToken) {
				t.Error("the token is in the log")
			}
			for i, e := range alone.steps { // the shim speaks the newest revision, whatever the revision of its client
				if methodOf()[e.Step] == "tools/list" {
					alone.steps[i].Result = withoutDraft07(e.Result)
				}
			}
			check(t, c, alone, through)
		})
	}
}

// TestShimAtAProxyThatRefusesIt checks the error that a client gets with no token, with a wrong one, or without the authority.
func TestShimAtAProxyThatRefusesIt(t *testing.T) {
	testset.Need(t, testset.Peers)
	proxy := build(t)
	ca, cert, key := privateCA(t)
	guarded := config(t, fmt.Sprintf("tls: {cert: %q, key: %q}\nauth: {tokens: [%s]}\n", cert, key, e2eToken))
	to := endpoint{over: stdio, command: []string{os.Args[0], goServerArg, "2025-11-25", "x"}, stderr: &output{}}
	err := proxy.serve(t.Context(), streamable, to, []string{"--config", guarded}, func(far endpoint) error {
		for _, c := range []struct{ name, config, header, want string }{
			{"no token", fmt.Sprintf("upstream: {ca_file: %q}", ca), "X-A: b", "a token is required"},
			{"a wrong token", fmt.Sprintf("upstream: {ca_file: %q}", ca), "X-Dragoman-Token: wrong-secret", "the token is not valid"},
			{"an unknown authority", "", "X-Dragoman-Token: " + e2eToken, "certificate"},
		} {
			log := &output{}
			shim := proxy.args("stdio", far, "--config", config(t, c.config), "--header", c.header)
			_, err := goSDK("2025-11-25").run(t.Context(), endpoint{over: stdio, command: shim, stderr: log})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the client got %v; want %q\n%s", c.name, err, c.want, log)
			}
			if said := fmt.Sprint(err, log); strings.Contains(said, "wrong-secret") || strings.Contains(said, e2eToken) {
				t.Errorf("%s: a token is in %s", c.name, said)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v\n%s", err, to.stderr)
	}
}

// config writes a configuration file.
func config(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// privateCA creates an authority, and a certificate for 127.0.0.1 that it signs, and writes both to files.
func privateCA(t *testing.T) (ca, cert, key string) {
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	made := func(is, by *x509.Certificate, private *ecdsa.PrivateKey, signer *ecdsa.PrivateKey) []byte {
		is.SerialNumber, is.NotBefore, is.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, is, by, &private.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	var keys [2]*ecdsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "e2e authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "e2e"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	ca = write("ca.pem", "CERTIFICATE", made(root, root, keys[0], keys[0]))
	cert = write("cert.pem", "CERTIFICATE", made(leaf, root, keys[1], keys[0]))
	secret, err := x509.MarshalPKCS8PrivateKey(keys[1])
	if err != nil {
		t.Fatal(err)
	}
	return ca, cert, write("key.pem", "PRIVATE KEY", secret)
}
