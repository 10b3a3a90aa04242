package command

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
)

// documents reads descriptions of APIs.
type documents struct {
	in         io.Reader
	fetch      bool // https URLs are fetched
	files      int  // the most that a document may have
	publicOnly bool
	proxy      func(*http.Request) (*url.URL, error)
	roots      *x509.CertPool // nil for the system's
}

// read reads the document at a path or URL, or from standard input for "-".
func (r *documents) read(ctx context.Context, where string) (*openapi.Document, error) {
	switch {
	case where == "-":
		data, err := limited(r.in)
		if err != nil {
			return nil, err
		}
		return wrong(openapi.ReadMost("standard input", data, nil, r.files))
	case isURL(where):
		if !r.fetch {
			return nil, &exitError{exitUsage, errors.New("a URL is fetched only with --fetch")}
		}
		if _, err := documentURL(where); err != nil {
			return nil, withCode(exitUsage, err)
		}
		data, err := r.get(ctx, where, r.publicOnly)
		if err != nil {
			return nil, withCode(exitServer, err)
		}
		host, _ := url.Parse(where)
		return wrong(openapi.ReadMost(where, data, func(path string) ([]byte, error) {
			u, err := url.Parse(path)
			own := err == nil && u.Host == host.Host && u.Scheme == host.Scheme
			if !own && !strings.HasPrefix(path, "https://") {
				return nil, errors.New("only https URLs are fetched")
			}
			// A document must not make this machine call what only this machine can reach.
			return r.get(ctx, path, r.publicOnly || !own)
		}, r.files))
	}
	f, err := os.Open(where)
	if err != nil {
		return nil, withCode(exitUsage, err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, withCode(exitUsage, fmt.Errorf("%s is a directory, not a document", where))
	}
	data, err := limited(f)
	if err != nil {
		return nil, withCode(exitUsage, fmt.Errorf("%s: %w", where, err))
	}
	return wrong(openapi.ReadMost(filepath.Base(where), data, func(path string) ([]byte, error) {
		if strings.HasPrefix(path, "https://") {
			if !r.fetch {
				return nil, errors.New("a URL is fetched only with --fetch")
			}
			return r.get(ctx, path, true)
		}
		folder, err := os.OpenRoot(filepath.Dir(where)) // links do not lead out of it
		if err != nil {
			return nil, err
		}
		defer folder.Close()
		f, err := folder.Open(filepath.FromSlash(path))
		if err != nil {
			return nil, errors.New("the file cannot be read")
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
			return nil, errors.New("not a regular file")
		}
		return limited(f)
	}, r.files))
}

// wrong gives an error of a document its exit code.
func wrong(d *openapi.Document, err error) (*openapi.Document, error) {
	return d, withCode(exitUsage, err)
}

func limited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, openapi.MaxDocument+1))
	if err == nil && len(data) > openapi.MaxDocument {
		err = fmt.Errorf("larger than %d MiB", openapi.MaxDocument>>20)
	}
	return data, err
}

func isURL(where string) bool {
	return strings.HasPrefix(where, "https://") || strings.HasPrefix(where, "http://")
}

// documentURL returns a URL from which a document may be fetched: with https, or with http from this machine.
func documentURL(where string) (*url.URL, error) {
	u, err := url.Parse(where)
	switch {
	case err != nil:
		return nil, errors.New("the document's URL is not a URL") // whose text may hold a password
	case u.Scheme != "https" && (u.Scheme != "http" || !file.IsLocalHost(u.Hostname())) || u.Host == "" || u.User != nil:
		return nil, fmt.Errorf("%s: documents are fetched from https URLs without user and password, or from http://localhost", printable(u.Redacted()))
	}
	return u, nil
}

// maxMoves is the largest number of redirects on the way to a document.
const maxMoves = 3

// get fetches a document. No credential is sent.
func (r *documents) get(ctx context.Context, where string, publicOnly bool) ([]byte, error) {
	client := httpcall.NewClient(httpcall.Options{PublicOnly: publicOnly, Proxy: r.proxy, RootCAs: r.roots})
	defer client.CloseIdleConnections()
	client.Transport = unpack.Transport{RoundTripper: client.Transport}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for range maxMoves + 1 {
		u, err := documentURL(where)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
		res, err := client.Do(req)
		if err != nil {
			return nil, fmt.Errorf("%w; is the URL right, and can this machine reach it?", err)
		}
		data, err := limited(res.Body)
		res.Body.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
		case res.StatusCode >= 300 && res.StatusCode < 400 && res.Header.Get("Location") != "":
			next, err := u.Parse(res.Header.Get("Location"))
			if err != nil {
				return nil, fmt.Errorf("%s: redirected to no URL", u.Redacted())
			}
			if next.Scheme == "http" && u.Scheme != "http" { // a document elsewhere must not lead to this machine
				return nil, fmt.Errorf("%s: redirected to %s: documents are fetched from https URLs", u.Redacted(), printable(next.Redacted()))
			}
			where = next.String()
		case res.StatusCode != http.StatusOK:
			return nil, fmt.Errorf("%s: %s", u.Redacted(), res.Status)
		case bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 200)])), []byte("<!doctype")) || bytes.HasPrefix(bytes.TrimSpace(data[:min(len(data), 200)]), []byte("<html")):
			return nil, fmt.Errorf("%s is a web page, not a document: look for a link to its JSON or YAML", u.Redacted())
		default:
			return data, nil
		}
	}
	return nil, fmt.Errorf("%s: more than %d redirects", printable(where), maxMoves)
}
