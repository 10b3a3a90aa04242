package upstream

import "testing"

// TestLogLinesInJSON: what loggers write to standard output is no message, also with members that messages have.
func TestLogLinesInJSON(t *testing.T) {
	for line, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                               true,
		`{"result":{"level":1,"time":2},"jsonrpc":"2.0","id":1}`:                             true,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`:       true,
		`{"level":30,"time":1764358800000,"pid":7,"hostname":"h","msg":"ready"}`:             false, // pino
		`{"name":"s","hostname":"h","pid":7,"level":30,"msg":"x","time":"2026-11-28","v":0}`: false, // bunyan
		`{"@timestamp":"2026-11-28T00:00:00Z","message":"up","log.level":"info"}`:            false, // Elastic's
		`{"time":"2026-11-28T00:00:00Z","level":"INFO","msg":"up","id":1,"result":{}}`:       false, // slog
		` {"id":"a","error":"x","level":"error","message":"failed","method":"GET"}`:          false,
		`[{"level":30,"msg":"a"},{"level":30,"msg":"b"}]`:                                    false,
		`[{"level":30,"msg":"a"},{"id":1}]`:                                                  true,
		`{"id":1,"result":{}}`:                                                               true, // broken, and no log line
		`{"message":"x"}`:                                                                    true,
		`{"level":30,"msg":"jsonrpc"}`:                                                       false,
		`{"level":30,"msg":"a"`:                                                              true, // the beginning of something
		`{"level":30,"msg":"sent","message":{"jsonrpc":"2.0"}}`:                              false,
		`{"level":30,"msg":"sent","last":{"jsonrpc":"2.0","id":1}}`:                          false,
		"\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"result":{}}`:                              true,
		"\xef\xbb\xbf" + `[{"jsonrpc":"2.0","id":1,"result":{}}]`:                            true,
		"\xef\xbb\xbf" + `{"level":30,"msg":"a"}`:                                            false,
		"\xef\xbb\xbf": false,
		"\xef\xbb":     false,
		`[]`:           true,
		`7`:            false,
		`"text"`:       false,
	} {
		if got := isMessage([]byte(line)); got != want {
			t.Errorf("%s: a message %v", line, got)
		}
	}
}
