// Package peertest has the MCP servers and clients of tests: peers over real sockets and pipes that do what the test says,
// and remember what they got. A server over any transport answers each message in a function:
//
//	s := peertest.NewServer(t, peertest.Stdio, func(u *peertest.Turn) {
//		if u.Method == "tools/call" {
//			u.Say(progress)                                   // before the response
//			u.Answer(200, result(u.ID))                       // the response; Stdio and SSE have no status
//		}
//	})
//	s.At()                                                    // where the proxy under test finds it
//	client := peertest.NewClient(t, peertest.Endpoint{URL: url})
//	client.Initialize(translate.Latest().Name, "{}")
//	got := client.Say(call).Next()                            // what the client gets for one message
//	s.Gets(1, "tools/call")                                   // waits for the first one; Text, Target and Header say what came
//
// [Replies] answer by method. With [Server.Sessions] the server knows its sessions, and can lose them: see [Turn.Open],
// [Server.Forget] and [Server.Crash]. [Turn.Asks] sends the client a question and waits for the answer. A server over HTTP
// writes the response itself where a test is about HTTP: see [Turn.Web], [Turn.Hijack], [Server.Every] and
// [Server.TLS]. [Accept] serves a protocol of the test's own.
//
// In a bubble of testing/synctest, servers and clients of a test for which [InMemory] was called meet in memory, so that no time is spent on
// waiting; [Listen], [Dial], [Web] and [WebClient] are for peers of the test's own.
//
// [Eventually] waits for what no event tells of, and [NoLeaks] for goroutines to end. A server without a
// transport ([NewLocal]) is for tests in a bubble. Only tests import this package.
package peertest
