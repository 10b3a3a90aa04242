package fit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestGradesOfLines(t *testing.T) {
	for line, want := range map[string]grade{
		"request served in 12 ms":                           plain,
		"warning: unused variable":                          weak,
		"ERROR retry failed":                                wrong,
		"FATAL cannot open the ledger":                      grave,
		"panic: runtime error: index out of range":          grave,
		"Caused by: com.acme.NoCurrency: no currency":       grave,
		"java.lang.IllegalStateException: closed":           wrong,
		"requests.exceptions.ConnectionError: refused":      wrong,
		"ActiveRecord::RecordNotFoundError (no such order)": wrong,
		// paths, names, options
		"/rustc/9fc6b431/library/std/src/panicking.rs":             plain,
		"  0: std::panicking::begin_panic_handler":                 plain,
		"GET https://acme.example/error/list 200":                  plain,
		"import { handleError } from './errors.js'":                plain,
		"com.acme.error.ExceptionTranslator.invoke(Invoke.java:1)": plain,
		"go build -fail-fast ./...":                                plain,
		"@acme/error-handler@1.2.0":                                plain,
		// nothing happened
		"0 errors, 0 failed":             plain,
		"no errors":                      plain,
		"Failures: 0, Errors: 0":         plain,
		"ok=12 unreachable=0 failed=0":   plain,
		`{"error":null,"failed":false}`:  plain,
		"10 errors":                      wrong,
		"ok=12 unreachable=0 failed=1":   wrong,
		`{"error_message":"not there"}`:  wrong,
		"CREATE_FAILED Orders":           wrong,
		"Warning  FailedMount  2m  kube": wrong,
		// states
		"      Reason:       CrashLoopBackOff":              state,
		"      Reason:       OOMKilled":                     state,
		"      Exit Code:    137":                           state,
		"      Exit Code:    0":                             plain,
		"    Restart Count:  29":                            state,
		"    Restart Count:  0":                             plain,
		"    Ready:          False":                         state,
		"  api  Pending  0  3m":                             state,
		"| api | terminated | 3m |":                         state,
		"  DiskPressure     True    KubeletHasDiskPressure": state,
		"  MemoryPressure   False   KubeletHasSufficient":   plain,
		"Pending changes are shown below":                   plain,
		"3f2a  web  Exited (137) 2 hours ago  web-1":        state,
		"Process completed with exit code 137.":             state,
		"path=/orders status=503 ms=30001":                  state,
		"path=/orders status=200 ms=3":                      plain,
		"(code=exited, status=203/EXEC)":                    state,
		"(code=killed, signal=KILL)":                        state,
		"< HTTP/2 502":                                      state,
		"< HTTP/1.1 404 Not Found":                          state,
		"error: no configuration file provided":             wrong,
		"errors: no":                                        plain,
		`"GET /orders HTTP/1.1" 500 812 "-"`:                state,
		`"GET /orders HTTP/1.1" 404 812 "-"`:                plain,
		"Slave_SQL_Running: No":                             state,
		"\tboth modified:   src/cart.ts":                    state,
		"<<<<<<< HEAD":                                      state,
		"52/74 Test #52: net ........***Timeout  60.02 sec": state,
		"├── UNMET PEER DEPENDENCY react@17.0.2":            wrong,
		// what the line itself says it is
		"7:3  warning  Unexpected var, use let or const":   weak,
		"a.c:7:3: warning: 'errno' is not used here":       weak,
		"10:00:01 INFO [api] the list of errors is loaded": weak,
		"level=info msg=\"failed jobs were counted\"":      weak,
		"[INFO] BUILD FAILURE":                             wrong,
		"WARN java.lang.IllegalStateException: closed":     wrong,
		"INFO panic: no memory":                            grave,
		"error: the level info is not allowed":             wrong,
		"information about failed jobs":                    wrong,
		// plans
		"  # aws_db_instance.orders will be destroyed": grave,
		"  # aws_db_instance.orders will be created":   plain,
		"ledger, Deployment (apps) has been removed:":  grave,
		"Plan: 7 to add, 4 to change, 2 to destroy.":   grave,
		"    - 1 to delete":                            grave,
		// other languages
		"Fehler: die Datei wurde nicht gefunden": wrong,
		"Ошибка соединения":                      wrong,
		"错误 订单 7714 没有货币":                        wrong,
		"エラー: ファイルがありません":                        wrong,
	} {
		if _, g := look([]byte(line)); g != want {
			t.Errorf("%q has grade %d, not %d", line, g, want)
		}
	}
}

func TestFramesOfTraces(t *testing.T) {
	for line, want := range map[string]bool{
		"\tat com.acme.Panic.call(Panic.java:12)":                                true,
		"    at Object.<anonymous> (/srv/a.js:1:2)":                              true,
		"   at Acme.Errors.Run() in /src/Errors.cs:line 12":                      true,
		`  File "/srv/errors.py", line 12, in fail`:                              true,
		"   4: core::panicking::panic_fmt":                                       true,
		"    #3 0x55d0c1 in acme::fail() /src/fail.cpp:3:4":                      true,
		"#4 /srv/Error.php(12): Acme\\Error->fail()":                             true,
		"\t/srv/panic.go:12 +0x1d":                                               true,
		"\tfrom /srv/errors.rb:12:in 'fail'":                                     true,
		"    (plug 1.16.0) lib/plug/error.ex:12: Plug.Error.call/2":              true,
		"E/AndroidRuntime( 77): \tat android.app.Fail.run(Fail.java:1)":          true,
		"2026-11-20T09:13:00Z ERROR api     at fail (/srv/fail.js:1:2)":          true,
		"thread 'main' panicked at src/main.rs:3:5:":                             false,
		"java.lang.IllegalStateException: closed":                                false,
		"at 09:13 the job ended":                                                 true, // alone it is no trace
		"from here on it fails":                                                  false,
		"#12 Fix the build":                                                      false,
		"3: handleErrors(x, error = function(e) NULL)":                           true,
		"1: one of many":                                                         false,
		"a line of text":                                                         false,
		"2026-11-20T09:13:00Z INFO orders_api: request served path=/orders/7000": false,
	} {
		if got := isFrame([]byte(line), []byte(strings.TrimLeft(line, " \t"))); got != want {
			t.Errorf("%q: %t", line, got)
		}
	}
}

// TestRowsThatStandOut checks tables of each kind: which rows have a cell that its column nearly never has.
func TestRowsThatStandOut(t *testing.T) {
	for name, row := range map[string]string{
		"blanks": "web-%d   1/1   %s   %dd\n", "one blank": "10:%02d:00 api %s took %d ms\n", "bars": "| web-%d | 2 | %s | %d |\n", "box": "│ web-%d │ 2 │ %s │ %d │\n",
		"tabs": "web-%d\t%s\t%d\n", "commas": "web-%d,2,%s,%d\n", "semicolons": "web-%d;2;%s;%d\n", "JSON": `{"id":%d,"how":"%s","n":%d}` + "\n",
	} {
		for _, n := range []int{6, 60, 6000} {
			var in strings.Builder
			in.WriteString(fmt.Sprintf(row, 1, "how", 2))
			odd := n * 2 / 3
			for i := range n {
				how := "green"
				if i == odd {
					how = "amber"
				}
				fmt.Fprintf(&in, row, i%60, how, i*7%90+1)
			}
			p := New([]Part{{Text: []byte(in.String())}}, Options{Most: 10})
			if s := p.survey(1); len(s.odd) == 0 || s.odd[0] != odd+1 && n < mostRows {
				t.Errorf("%s, %d rows: %v instead of %d", name, n, s.odd[:min(len(s.odd), 5)], odd+1)
			}
		}
	}
}

// TestItemsThatStandOut checks lists of objects in JSON, and states deep in an item.
func TestItemsThatStandOut(t *testing.T) {
	for name, item := range map[string]string{
		"a value": `{"name":"n","phase_of":"amber"}`, "one more member": `{"name":"n","phase_of":"green","held":true}`, "another number": `{"name":"n","phase_of":"green","left":0}`,
		"a state in its fields": `{"name":"n","phase_of":"green","properties":{"Status":{"type":"status","status":{"id":"7","name":"Blocked"}}}}`,
		"a message":             `{"name":"n","phase_of":"green","message":"(service web) was unable to place a task"}`,
		"another value in it":   `{"name":"n","phase_of":"green","spec":{"kind":{"colour":"amber"}}}`,
		"a state in it":         `{"name":"n","phase_of":"green","status":{"containerStatuses":[{"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}`,
	} {
		in := `{"items":[` + strings.Repeat(`{"name":"web","phase_of":"green"},`, 30) + item + "," + strings.Repeat(`{"name":"web","phase_of":"green"},`, 30) + `{"name":"last","phase_of":"green"}]}`
		if out, _ := fitted([]byte(in), 350); !strings.Contains(string(out), `"n"`) {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// TestRowsOfHTMLThatStandOut checks tables of HTML: in lines, in one line, and with a row in several lines.
func TestRowsOfHTMLThatStandOut(t *testing.T) {
	for name, row := range map[string]string{
		"a line":        "<tr><td>web-%d</td><td>%s</td></tr>\n",
		"one line":      "<tr><td>web-%d<td>%s",
		"several lines": "<tr class=\"row\">\n<td class=\"name\"><a href=\"#\">web-%d</a></td>\n<td>\n  <b>%s</b>\n</td>\n</tr>\n",
		"capitals":      "<TR>\n<TD>web-%d\n<TD>%s\n",
	} {
		var in strings.Builder
		in.WriteString("<table><tr><th>Name</th><th>How</th></tr>\n")
		for i := range 90 {
			how := "green"
			if i == 55 {
				how = "amber"
			}
			fmt.Fprintf(&in, row, i, how)
		}
		in.WriteString("</table>\n")
		if out, _ := fitted([]byte(in.String()), in.Len()/4); !strings.Contains(string(out), "web-55") || !strings.Contains(string(out), "amber") {
			t.Errorf("%s: %s", name, out)
		}
	}
	for _, in := range []string{strings.Repeat("<td", 1<<20), strings.Repeat("<tr><td>", 1<<18), strings.Repeat("<table><td><", 1<<18), "<td><tr><td>"} {
		oddRowsOf([]byte(in))
	}
}

// TestNumbersThatStandOut checks which numbers of a column are much larger than the others.
func TestNumbersThatStandOut(t *testing.T) {
	for odd, usual := range map[string]string{"187G": "%dK", "7811Mi": "%dMi", "99.71%": "%d.12%", "91234": "%d", "4.1 GB": "%d MB", "100.0%": "0.0%"} {
		var in strings.Builder
		for i := range 80 {
			size := strings.Replace(usual, "%d", strconv.Itoa(i*7%80+1), 1)
			if i == 33 {
				size = odd
			}
			fmt.Fprintf(&in, "web-%d\t%s\n", i, size)
		}
		p := New([]Part{{Text: []byte(in.String())}}, Options{Most: 10})
		if s := p.survey(1); len(s.odd) == 0 || s.odd[0] != 33 || len(s.odd) > 5 {
			t.Errorf("%s: rows %v", odd, s.odd)
		}
	}
}

// TestItemsThatStandOutAmongErrors checks a list in which each item says that it is an error.
func TestItemsThatStandOutAmongErrors(t *testing.T) {
	var items []string
	for i := range 40 {
		count := i*7%30 + 1
		if i == 23 {
			count = 90212
		}
		items = append(items, fmt.Sprintf(`{"id":%d,"level":"error","title":"E%d","count":"%d"}`, i, i, count))
	}
	if out, _ := fitted([]byte("["+strings.Join(items, ",")+"]"), 700); !strings.Contains(string(out), "90212") {
		t.Errorf("%s", out)
	}
}

// TestSurveyIsLinear checks that a text that is ten times as long takes about ten times as long to rank, whatever
// is in it. The bound is far above what is measured.
func TestSurveyIsLinear(t *testing.T) {
	for name, line := range map[string]string{
		"rows": "web-%d   1/1   Running   0   12d\n", "errors": "panic error fail %d status: 503 exit code 3\n", "names": "error_error_error_%d/error/error::error\n",
		"frames": "\tat com.acme.Panic%d.call(Panic.java:12)\n", "quotes": `"a,"%d,"` + "\n",
	} {
		took := func(n int) time.Duration {
			text := []byte(strings.Repeat(fmt.Sprintf(line, 7), n))
			best := time.Hour
			for range 3 {
				best = min(best, peertest.ProcessorTime(func() { New([]Part{{Text: text}}, Options{Most: 100}) }))
			}
			return best
		}
		if few, many := took(2000), took(20_000); many > 60*few+time.Second {
			t.Errorf("%s: %v for 2,000 lines, and %v for 20,000", name, few, many)
		}
	}
}
