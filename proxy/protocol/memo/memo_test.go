package memo

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestListsStayWithinTheirBounds checks also that Find returns the answer that was kept
// last.
func TestListsStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Memo
		last := map[Key]*Answer{}
		t.Repeat(map[string]func(*rapid.T){
			"answer": func(t *rapid.T) {
				key := Key{Method: wire.ToolsList, Facts: wire.Facts(rapid.IntRange(0, 40).Draw(t, "facts"))}
				answer := make([]byte, rapid.SampledFrom([]int{10, 200 << 10, maxList, maxList + 1}).Draw(t, "bytes"))
				if at := l.worth(key, len(answer)); at != nil {
					last[key] = &Answer{in: frame{before: answer}, out: frame{behind: answer}}
					l.keep(key, at, last[key])
				}
			},
			"forget": func(*rapid.T) { l.Forget() },
			"": func(t *rapid.T) {
				bytes := 0
				for key, at := range l.of {
					if at.known == nil {
						continue
					}
					bytes += at.known.size()
					if l.Find(key) != last[key] {
						t.Fatal("not what was kept last")
					}
				}
				if bytes != l.bytes || bytes > maxLists || len(l.of) > maxKeys {
					t.Fatalf("%d bytes under %d keys, %d were counted", bytes, len(l.of), l.bytes)
				}
			},
		})
	})
}

// TestWhatWasForgottenMeanwhileIsNotLearnt: the configuration may change during a translation, after which other answers come.
func TestWhatWasForgottenMeanwhileIsNotLearnt(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`
	var l Memo
	key := Key{Method: wire.ToolsList}
	watch := func() *Pending { return l.Watch(key, []byte(answer), 22, 23) }
	watch()
	p := watch()
	l.Forget()
	watch()
	l.Learn(p, []byte(answer), nil)
	if l.Find(key) != nil {
		t.Error("it was learnt")
	}
	l.Learn(watch(), []byte(answer), nil)
	if k := l.Find(key); k == nil || !k.Is([]byte(answer), "1") {
		t.Error("the next one was not")
	}
}
