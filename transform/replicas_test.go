package transform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// table is what replicas share, in memory; it counts what is asked of it.
type table struct {
	mu     sync.Mutex
	values map[string][]byte
	err    error // of all that is asked

	puts, gets, deletes, skipped atomic.Int32
}

func (t *table) Put(_ context.Context, name string, value []byte, _ time.Duration) error {
	t.puts.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if t.values == nil {
		t.values = map[string][]byte{}
	}
	t.values[name] = bytes.Clone(value)
	return nil
}

func (t *table) Get(_ context.Context, name string) ([]byte, error) {
	t.gets.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.values[name], t.err
}

func (t *table) Delete(_ context.Context, names ...string) error {
	t.deletes.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		delete(t.values, name)
	}
	return t.err
}

func (t *table) Skipped() { t.skipped.Add(1) }

func (t *table) asked() int { return int(t.puts.Load() + t.gets.Load() + t.deletes.Load()) }

func (t *table) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

// replica returns an engine of one of several replicas with this key.
func replica(t testing.TB, shared Replicas, cfg Config, key byte, now func() time.Time) *Engine {
	t.Helper()
	e, err := New(cfg, Options{Replicas: shared, Keys: [][]byte{bytes.Repeat([]byte{key}, 32)}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnyReplicaReadsOn(t *testing.T) {
	shared := &table{}
	a, b := replica(t, shared, DefaultConfig(), 7, nil), replica(t, shared, DefaultConfig(), 7, nil)
	for _, method := range []string{"tools/call", "resources/read"} {
		cfg := DefaultConfig()
		cfg.CapResources = true
		a, b := replica(t, shared, cfg, 7, nil), replica(t, shared, cfg, 7, nil)
		in := textResult(issues(500))
		if method == "resources/read" {
			in = []byte(`{"contents":[{"uri":"file:///a","text":` + string(quoted(issues(500))) + `}]}`)
		}
		for _, c := range []Call{{Session: "s", Caller: "c"}, {Session: "modern p", Caller: ""}, {Session: "", Caller: "c"}} {
			c.Tool, c.Method, c.Schemas = "x", method, None
			if method == "resources/read" {
				c.Tool = ""
			}
			_, r := a.Apply(nil, in, &c)
			for _, args := range []string{``, `,"raw":true,"count":5000`, `,"find":"Issue"`, `,"path":"3","from":0`} {
				ask := []byte(`{"cursor":"` + r.Cursor + `"` + args + `}`)
				here, there := a.More(context.Background(), c.Session, c.Caller, ask), b.More(context.Background(), c.Session, c.Caller, ask)
				if r.Cursor == "" || !bytes.Equal(here, there) || bytes.Contains(here, []byte("CURSOR_")) {
					t.Fatalf("%s of %+v %s\nhere  %.300s\nthere %.300s", method, c, ask, here, there)
				}
			}
		}
	}
	_, r := a.Apply(nil, textResult(issues(500)), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None})
	for name, who := range map[string][2]string{"another session": {"s2", "c"}, "another caller": {"s", "c2"}, "no session": {"", "c"}, "shifted": {"sc", ""}} {
		if text, _, _, _, failed := readOn(t, b, who[0], who[1], map[string]any{"cursor": r.Cursor}); !failed || !strings.HasPrefix(text, "CURSOR_EXPIRED: no replica") || !strings.Contains(text, "narrower") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestOriginalsSurviveTheReplicas: whatever was cut is the same at another replica, byte for byte.
func TestOriginalsSurviveTheReplicas(t *testing.T) {
	shared := &table{}
	a := replica(t, shared, DefaultConfig(), 1, nil)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(genText(60).Draw(t, "text"), 30)
		in := textResult(text)
		_, r := a.Apply(nil, in, &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 100})
		if r.Cursor == "" {
			return
		}
		b, err := New(DefaultConfig(), Options{Replicas: shared})
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Store().Open(context.Background(), "s", "c", r.Cursor)
		if err != nil || !bytes.Equal(got, in) {
			t.Fatalf("%v: %q\nbecame %q", err, in, got)
		}
	})
}

func TestResultsThatAreNotCutAskNothing(t *testing.T) {
	shared := &table{}
	e := replica(t, shared, DefaultConfig(), 7, nil)
	for range 100 {
		e.Apply(nil, textResult("short"), &Call{Tool: "x", Session: "s", Schemas: None})
	}
	for _, cursor := range []string{"", "c1_nonsense", strings.Repeat("A", 13), "k7Qm2x9BvR4=", "ü"} {
		readOn(t, e, "s", "", map[string]any{"cursor": cursor})
	}
	if n := shared.asked(); n != 0 {
		t.Fatalf("%d times asked", n)
	}
	_, r := e.Apply(nil, textResult(issues(500)), &Call{Tool: "x", Session: "s", Schemas: None})
	readOn(t, e, "s", "", map[string]any{"cursor": r.Cursor}) // this replica has it itself
	if n := shared.asked(); n != 1 {
		t.Errorf("%d times asked for one cut result", n)
	}
	other := replica(t, shared, DefaultConfig(), 7, nil)
	for range 3 { // read once, then kept
		readOn(t, other, "s", "", map[string]any{"cursor": r.Cursor})
	}
	if n := shared.asked(); n != 2 {
		t.Errorf("%d times asked", n)
	}
}

func TestAnEngineThatDoesNotAnswer(t *testing.T) {
	shared := &table{}
	a, b := replica(t, shared, DefaultConfig(), 7, nil), replica(t, shared, DefaultConfig(), 7, nil)
	call := &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None}
	_, before := a.Apply(nil, textResult(issues(500)), call)
	shared.fail(errors.New("refused: 10.1.2.3:6379"))
	out, during := a.Apply(nil, textResult(issues(600)), call)
	if during.Cursor == "" || len(out) == 0 {
		t.Fatal("the answer does not go out")
	}
	for _, cursor := range []string{before.Cursor, during.Cursor} {
		if text, _, _, _, failed := readOn(t, a, "s", "c", map[string]any{"cursor": cursor}); failed {
			t.Error(text)
		}
		text, _, _, _, failed := readOn(t, b, "s", "c", map[string]any{"cursor": cursor})
		if !failed || !strings.HasPrefix(text, "CURSOR_UNAVAILABLE: ") || !strings.Contains(text, "narrower arguments: fewer items") || strings.Contains(text, "10.1.2.3") {
			t.Error(text)
		}
	}
	shared.fail(nil) // it is back, without what was written meanwhile
	if text, _, _, _, failed := readOn(t, b, "s", "c", map[string]any{"cursor": before.Cursor}); failed {
		t.Error(text)
	}
	if text, _, _, _, failed := readOn(t, b, "s", "c", map[string]any{"cursor": during.Cursor}); !failed || !strings.Contains(text, "could not be stored") {
		t.Error(text)
	}
}

// TestReadingOnWaitsForAWrite: the answer does not wait for the write, so that a client at another replica may be faster.
func TestReadingOnWaitsForAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &table{}
		var late func()
		a, err := New(DefaultConfig(), Options{Replicas: shared, Beside: func(task func()) { late = task }})
		if err != nil {
			t.Fatal(err)
		}
		b := replica(t, shared, DefaultConfig(), 7, nil)
		_, r := a.Apply(nil, textResult(issues(500)), &Call{Tool: "x", Session: "s", Schemas: None})
		if shared.asked() != 0 || late == nil {
			t.Fatal("the answer waited")
		}
		go func() {
			for shared.gets.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			late()
		}()
		if text, _, _, _, failed := readOn(t, b, "s", "", map[string]any{"cursor": r.Cursor}); failed {
			t.Error(text)
		}
	})
}

func TestTooManyWritesAreSkipped(t *testing.T) {
	shared := &table{}
	var tasks []func()
	e, err := New(DefaultConfig(), Options{Replicas: shared, Beside: func(task func()) { tasks = append(tasks, task) }})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(i int) {
		e.Apply(nil, textResult(fmt.Sprint(i)+issues(300)), &Call{Tool: "x", Session: "s", Schemas: None})
	}
	for i := range maxWriting + 3 {
		cut(i)
	}
	if len(tasks) != maxWriting || shared.skipped.Load() != 3 {
		t.Fatalf("%d tasks, %d skipped", len(tasks), shared.skipped.Load())
	}
	for _, task := range tasks {
		task()
	}
	if cut(-1); len(tasks) != maxWriting+1 {
		t.Error("no room again")
	}
}

// TestReplicasKeepNoMoreThanAStore: what had to make room in memory is removed for the other replicas as well, and one caller
// displaces no other.
func TestReplicasKeepNoMoreThanAStore(t *testing.T) {
	shared := &table{}
	cfg := DefaultConfig()
	cfg.Store.MaxBytes, cfg.Store.EntryMaxBytes = 300_000, 100_000
	a, b := replica(t, shared, cfg, 7, nil), replica(t, shared, cfg, 7, nil)
	cut := func(caller string, i int) string {
		_, r := a.Apply(nil, textResult(fmt.Sprint(i)+issues(200)), &Call{Tool: "x", Session: "s", Caller: caller, Schemas: None, MaxTokens: 500})
		return r.Cursor
	}
	quiet := cut("quiet", 0)
	var busy []string
	for i := range 20 {
		busy = append(busy, cut("busy", i))
		if _, n := a.Store().Size(); len(shared.values) != n {
			t.Fatalf("%d values of %d entries", len(shared.values), n)
		}
	}
	for cursor, there := range map[string]bool{busy[1]: false, busy[19]: true} {
		if _, err := b.Store().Open(context.Background(), "s", "busy", cursor); (err == nil) != there {
			t.Error(cursor, err)
		}
	}
	if _, err := b.Store().Open(context.Background(), "s", "quiet", quiet); err != nil {
		t.Error(err)
	}
}

func TestForeignValuesOpenNothing(t *testing.T) {
	whole, err := (&entry{original: []byte(strings.Repeat("a", 1000)), expires: time.Now().Add(time.Hour)}).encode()
	if err != nil {
		t.Fatal(err)
	}
	if e, err := decodeEntry(whole, 1000); err != nil || len(e.original) != 1000 {
		t.Fatal(err)
	}
	if _, err := decodeEntry(whole, 999); err == nil {
		t.Error("an original that is too large")
	}
	for i := range len(whole) {
		if e, err := decodeEntry(whole[:i], 1000); err == nil {
			t.Errorf("%d bytes became %+v", i, e)
		}
	}
	for _, bad := range []string{"", "\x01", "\x02\x00\x00\x00\x02{}", "\x01\xff\xff\xff\xff{}", "\x01\x00\x00\x00\x01{"} {
		if _, err := decodeEntry([]byte(bad), 1000); err == nil {
			t.Errorf("%q", bad)
		}
	}
}

func FuzzDecodeEntry(f *testing.F) {
	whole, _ := (&entry{original: []byte("x"), call: Call{Tool: "t"}}).encode()
	for _, s := range []string{string(whole), "", "\x01", "\x01\x00\x00\x00\x02{}\x00", "\x01\x00\x00\x00\x04null\x01\x00\x00\xff\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := decodeEntry(in, 1<<10)
		if err == nil && len(e.original) > 1<<10 {
			t.Errorf("%d bytes", len(e.original))
		}
	})
}
