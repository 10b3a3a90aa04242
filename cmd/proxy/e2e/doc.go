// Package e2e is the end-to-end test of dragoman: published MCP clients talk to published MCP servers through it, over
// every pair of transports and between revisions, and neither side may see a difference.
//
// Every client runs one scenario (peers/scenario.json) and writes a transcript of it. The transcript of the same client
// with the same server and no proxy is the reference: through the proxy, each step must equal the reference, changed by
// the few rules in expect_test.go if the proxy speaks another revision to the server than to the client.
//
//	peers/        published TypeScript clients and servers: versions, scenario, the runner of the clients; bench/servers plays them, too
//	nodetest/     installs them, and runs many clients in one process
//	node_test.go, driver_test.go start those for the tests
//	eras_test.go  clients with a handshake and servers without one, and servers of both eras; modern_test.go the
//	              other way round, asked_test.go several questions to users at once
//	gosdk_*.go    the official Go SDK as client and as server
//	jsonserver_…  a published HTTP API (api/) behind an adapter (testdata/): by the runtime alone, then by clients
//	signin…_test.go logins by the local command; TestShimsShareALogin is also a soak
//	browser_test.go web pages in Chromium that log in: peers/page.html, and the published Inspector
//	proxy_test.go builds and starts the proxy, and checks that it ends well
//	conformance/  the official conformance suite, the Node 22 that it needs, and servers for it
//
// That suite's scenarios for servers run with the Go SDK's conformance server, directly and through the proxy: what passes
// directly must pass through the proxy (conformance_test.go). Those of one era also run through the proxy in front of a
// server of the other, written for them with a published SDK (conformance_eras_test.go).
//
// The peers in TypeScript need Node 20 and npm and are installed once into the user's cache folder; without Node the
// tests between Go peers still run. With -short nothing is built or started. With -v the tests end with a table of the
// combinations that ran:
//
//	go test -v -run 'Test.*Peers' ./cmd/proxy/e2e
package e2e
