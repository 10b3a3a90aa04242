package toolindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate"
)

// listing is a server whose list has these pages. It counts the requests.
type listing struct {
	pages []string
	asked int
	fails error
	slow  time.Duration
}

func (l *listing) as() Ask { return Ask{translate.Latest(), l.ask} }

func (l *listing) ask(params string) ([]byte, error) {
	l.asked++
	time.Sleep(l.slow)
	if l.fails != nil {
		return nil, l.fails
	}
	page := 0
	_, _ = fmt.Sscanf(params, `"cursor":"%d"`, &page)
	next := ""
	if page+1 < len(l.pages) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
	}
	return []byte(`{"tools":[` + l.pages[page] + `]` + next + `}`), nil
}

func TestLookReadsTheWholeListOnce(t *testing.T) {
	l := listing{pages: []string{
		`{"name":"a","outputSchema":{"type":"object"},"inputSchema":{"properties":{"limit":{}}}}`,
		`{"name":"b","execution":{"taskSupport":"required"}}`,
		`{"name":"c","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":"X"}}}}`,
	}}
	var x Index
	for range 2 {
		for _, name := range []string{"b", "a", "c"} {
			tool, err := x.Look(t.Context(), name, l.as())
			if err != nil || !tool.Listed || tool.TaskOnly != (name == "b") || (len(tool.Arguments) == 1) != (name == "c") || (tool.Narrowing() == "limit") != (name == "a") {
				t.Errorf("%s: %+v %v", name, tool, err)
			}
			text, how := tool.OutputSchema()
			if want := map[bool]transform.Schemas{true: transform.Seen, false: transform.None}[name == "a"]; how != want || (string(text) == `{"type":"object"}`) != (name == "a") {
				t.Errorf("%s: %s %v", name, text, how)
			}
		}
	}
	if l.asked != 3 {
		t.Errorf("asked for %d pages", l.asked)
	}
}

// TestUnlistedTool: a tool that is not listed is looked for once, and again when the list has
// changed.
func TestUnlistedTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listing{pages: []string{`{"name":"a"}`}}
		var x Index
		for range 3 {
			time.Sleep(time.Minute)
			if tool, err := x.Look(t.Context(), "new", l.as()); err != nil || tool.Listed {
				t.Errorf("%+v %v", tool, err)
			}
		}
		if _, how := (Tool{}).OutputSchema(); how != transform.Unknown || l.asked != 1 {
			t.Errorf("%v, asked %d times", how, l.asked)
		}
		l.pages = []string{`{"name":"new"}`}
		x.Forget()
		if tool, err := x.Look(t.Context(), "new", l.as()); err != nil || !tool.Listed || l.asked != 2 {
			t.Errorf("%+v %v, asked %d times", tool, err, l.asked)
		}
	})
}

// TestManyUnknownNamesReadTheListOnceInAWhile: calls with names of tools that do not exist do not
// make dragoman read the list again and again.
func TestManyUnknownNamesReadTheListOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listing{pages: []string{``}}
		var x Index
		for i := range 1000 {
			if _, err := x.Look(t.Context(), fmt.Sprint(i), l.as()); err != nil {
				t.Fatal(err)
			}
		}
		if l.asked != 1 {
			t.Errorf("asked %d times", l.asked)
		}
	})
}

func TestAFailureIsRememberedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listing{pages: []string{`{"name":"a"}`}, fails: errors.New("not now")}
		var x Index
		for range 3 {
			if _, err := x.Look(t.Context(), "a", l.as()); !errors.Is(err, l.fails) {
				t.Error(err)
			}
		}
		if l.asked != 1 {
			t.Errorf("asked %d times", l.asked)
		}
		l.fails = nil
		time.Sleep(retryAfter + freshness + time.Millisecond)
		if tool, err := x.Look(t.Context(), "a", l.as()); err != nil || !tool.Listed {
			t.Errorf("%+v %v", tool, err)
		}
	})
}

// TestWhatFailuresSayOfTheNextCall: that a connection ended says nothing soon after; that the server refuses the list, or is slow to fail, does.
func TestWhatFailuresSayOfTheNextCall(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		slow  time.Duration
		asked int
	}{
		"an ended connection": {errors.New("the connection ended"), 0, 2},
		"a refusal":           {&mcp.ServerError{Raw: []byte(`{"code":-32601,"message":"Method not found"}`)}, 0, 1},
		"a silent server":     {errors.New("no answer"), 10 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := listing{pages: []string{`{"name":"a"}`}, fails: c.fails, slow: c.slow}
				var x Index
				for range 2 {
					if _, err := x.Look(t.Context(), "a", l.as()); err == nil {
						t.Error("it was found")
					}
					time.Sleep(freshness + time.Millisecond)
				}
				if l.asked != c.asked {
					t.Errorf("asked %d times, not %d", l.asked, c.asked)
				}
			})
		})
	}
}

// TestWaitingCallsEndWithTheirContexts: one call reads. The others wait for it no longer than
// their own contexts, and known tools are found meanwhile.
func TestWaitingCallsEndWithTheirContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := listing{pages: []string{`{"name":"a"}`}, slow: time.Minute}
		var x Index
		x.Learn([]byte(`{"result":{"tools":[{"name":"known"}]}}`), zap.NewNop())
		var readers sync.WaitGroup
		for range 5 {
			readers.Go(func() {
				if tool, err := x.Look(t.Context(), "a", l.as()); err != nil || !tool.Listed {
					t.Errorf("%+v %v", tool, err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, known := x.Find("known"); !known {
			t.Error("not known")
		}
		if tool, err := x.Look(t.Context(), "known", l.as()); err != nil || !tool.Listed {
			t.Errorf("%+v %v", tool, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := x.Look(ctx, "a", l.as()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		readers.Wait()
		if l.asked != 1 {
			t.Errorf("asked %d times", l.asked)
		}
	})
}

// TestAListThatChangesWhileItIsRead: what was read while the list changed is used for the call that
// has asked, and is not kept.
func TestAListThatChangesWhileItIsRead(t *testing.T) {
	l := listing{pages: []string{`{"name":"a"}`, `{"name":"b"}`}}
	var x Index
	ask := Ask{translate.Latest(), func(params string) ([]byte, error) {
		if params != "" {
			x.Forget()
		}
		return l.ask(params)
	}}
	if tool, err := x.Look(t.Context(), "a", ask); err != nil || !tool.Listed {
		t.Errorf("%+v %v", tool, err)
	}
	for _, name := range []string{"a", "b"} {
		if _, known := x.Find(name); known {
			t.Errorf("%s is kept", name)
		}
	}
	if _, err := x.Look(t.Context(), "other", ask); err != nil {
		t.Error(err)
	}
	if _, known := x.Find("other"); known {
		t.Error("said to be absent from a list that is gone")
	}
}

// TestAClientThatLeaves: a client that leaves says nothing about the list.
func TestAClientThatLeaves(t *testing.T) {
	l := listing{pages: []string{`{"name":"a"}`}}
	var x Index
	ctx, leave := context.WithCancel(t.Context())
	if _, err := x.Look(ctx, "a", Ask{translate.Latest(), func(string) ([]byte, error) { leave(); return nil, ctx.Err() }}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if tool, err := x.Look(t.Context(), "a", l.as()); err != nil || !tool.Listed {
		t.Errorf("%+v %v", tool, err)
	}
}

// TestEndlessListsAreReadUpToABound: pages without an end, and cursors that repeat, are read no further than a
// bound.
func TestEndlessListsAreReadUpToABound(t *testing.T) {
	for name, ask := range map[string]func(n int) string{
		"a cursor that stands still": func(int) string { return `"x"` },
		"cursors in a circle":        func(n int) string { return fmt.Sprintf(`"%d"`, n%50) },
		"ever new cursors":           func(n int) string { return fmt.Sprintf(`"%d"`, n) },
	} {
		var x Index
		n := 0
		found, err := x.Look(t.Context(), "a", Ask{translate.Latest(), func(string) ([]byte, error) {
			n++
			return fmt.Appendf(nil, `{"tools":[{"name":"a"}],"nextCursor":%s}`, ask(n)), nil
		}})
		if err != nil || !found.Listed || n > mcp.MaxPages || n > 51 && name != "ever new cursors" {
			t.Errorf("%s: %d pages, %v", name, n, err)
		}
	}
}

// TestToolsBehindAnEmptyCursor: they are found if the server's revision knows an empty cursor.
func TestToolsBehindAnEmptyCursor(t *testing.T) {
	for _, r := range translate.All() {
		var x Index
		tool, err := x.Look(t.Context(), "b", Ask{r, func(params string) ([]byte, error) {
			if params == "" {
				return []byte(`{"tools":[{"name":"a"}],"nextCursor":""}`), nil
			}
			return []byte(`{"tools":[{"name":"b"}]}`), nil
		}})
		if err != nil || tool.Listed != r.EmptyCursor {
			t.Errorf("%s: %+v %v", r, tool, err)
		}
	}
}

func TestIndexIsBounded(t *testing.T) {
	var x Index
	learn := func(format string, args ...any) {
		x.Learn(fmt.Appendf(nil, `{"result":{"tools":[`+format+`]}}`, args...), zap.NewNop())
	}
	big := bytes.Repeat([]byte(" "), maxSchemaBytes/2)
	for i := range 5 {
		learn(`{"name":"t%d","outputSchema":{%s"x":%d}}`, i, big, i)
	}
	if x.bytes > maxSchemaBytes {
		t.Errorf("%d bytes", x.bytes)
	}
	how := func(name string) transform.Schemas {
		tool, _ := x.Find(name)
		_, how := tool.OutputSchema()
		return how
	}
	if how("t0") != transform.Seen || how("t4") != transform.Unknown {
		t.Errorf("%v %v", how("t0"), how("t4"))
	}
	learn(`{"name":"t0"}`)
	learn(`{"name":"t4","outputSchema":{%s"x":4}}`, big)
	if how("t0") != transform.None || how("t4") != transform.Seen {
		t.Errorf("room is not used again: %v %v", how("t0"), how("t4"))
	}
	for i := range maxTools + 10 {
		learn(`{"name":"n%d"}`, i)
	}
	if len(x.known) > maxTools {
		t.Errorf("%d tools", len(x.known))
	}
	x.Forget()
	if _, known := x.Find("n1"); known || x.bytes != 0 {
		t.Errorf("not forgotten, %d bytes", x.bytes)
	}
}

// TestWrongAnnotations: tools that cannot be called are left out, and each is logged once.
func TestWrongAnnotations(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	var x Index
	answer := []byte(`{"id":1,"result":{"tools":[{"name":"good","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}},` +
		`{"name":"bad","inputSchema":{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}}]}}`)
	for range 2 {
		less, changed := x.Learn(answer, zap.New(core))
		if !changed || strings.Contains(string(less), `"bad"`) || !strings.Contains(string(less), `"good"`) {
			t.Errorf("%s", less)
		}
	}
	if logs.Len() != 1 {
		t.Errorf("%d lines in the log", logs.Len())
	}
	for _, not := range []string{``, `{}`, `{"result":{"tools":{}}}`, `{"result":{"tools":[]}}`, `{"error":{}}`} {
		if out, changed := x.Learn([]byte(not), zap.NewNop()); changed || string(out) != not {
			t.Errorf("%s became %s", not, out)
		}
	}
}
