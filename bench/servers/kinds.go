package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
)

// A kind is one of clients.
type kind struct {
	name      string         // as findings name it
	revision  string         // the newest that it speaks
	published map[string]any // how peers/given.mjs makes the client of a published package; nil for a raw one
}

// rawKinds are clients that write the messages of one revision.
func rawKinds() (all []kind) {
	for _, revision := range revisions {
		all = append(all, kind{name: revision, revision: revision})
	}
	return all
}

// peersFolder has the published packages, from the root of the module.
const peersFolder = "cmd/proxy/e2e/peers"

// publishedKinds are the clients of the published packages that folder names: version 1 of the TypeScript SDK, which has a
// handshake, and version 2, which asks first whether it is needed.
func publishedKinds(lock *nodetest.Lock) ([]kind, error) {
	const one, two = "sdk-1.32.2", "@modelcontextprotocol/client"
	versions, err := lock.Versions(one, two)
	if err != nil {
		return nil, err
	}
	return []kind{
		{"sdk@" + versions[0], newestHandshake, map[string]any{"sdk": filepath.Join(lock.Modules(), one), "revision": newestHandshake}},
		{"client@" + versions[1], modernRevision, map[string]any{"sdk": filepath.Join(lock.Modules(), two), "mode": "auto"}},
	}, nil
}

// kinds returns all kinds of clients: without published ones, and why, where their packages are not installed.
func kinds(ctx context.Context, install bool) (all []kind, why string, err error) {
	lock, err := nodetest.ReadLock(peersFolder)
	if err != nil {
		return nil, "", fmt.Errorf("run it from the root of the module: %w", err)
	}
	if install {
		if err := lock.Install(ctx); err != nil {
			return nil, "", fmt.Errorf("install the published clients: %w", err)
		}
	}
	if !lock.Installed() {
		return rawKinds(), "without the published clients, which are not installed", nil
	}
	published, err := publishedKinds(lock)
	return append(rawKinds(), published...), "", err
}
