package observe

import "testing"

// TestRowsSayWhatTheyAreAbout, as the messages show it, also if only the row of a call is kept.
func TestRowsSayWhatTheyAreAbout(t *testing.T) {
	for request, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a.txt"}}`:                                         "file:///a.txt",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"https://x/?k=hunter2"}}`:                                  "https://x/?k=…",
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///b"}}`:                                        "file:///b",
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///b"}}`:                                   "file:///b",
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{}}}`: "greet",
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"file:///{p}"}}}`:        "file:///{p}",
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`:                                             "debug",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"uri":"file:///c"}}}`:                        "",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":{"no":"text"}}}`:                                           `{"no":"text"}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read"}`:                                                                          "",
	} {
		calls := manyCalls(t, 6, func(o *Observer, _ int) {
			first := o.KeepFirst([]byte(request))
			whole := Copy{Raw: []byte(request), Size: len(request)}
			c := o.BeginWith(&Peers{Session: "s", ServerRevision: "2025-11-25"}, first, whole.head(), false)
			c.End("ok", "")
		})
		for _, n := range []uint64{1, 6} {
			d, ok := calls.Detail(n)
			if !ok || d.Short != (n == 6) || d.Row.Subject != want {
				t.Errorf("%s: call %d: %v %v %q, want %q", request, n, ok, d.Short, d.Row.Subject, want)
			}
		}
	}
}
