package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestTranslationOfAnySize: a message becomes the same in its own memory, in memory that the caller has, and in a copy. A message
// that must stay as it is does, and a copy that has no room is an error.
func TestTranslationOfAnySize(t *testing.T) {
	cfg, none := config.Default(), func() float64 { return 0 }
	table, err := translate.NewTable(cfg.Contract)
	if err != nil {
		t.Fatal(err)
	}
	modern, newest, oldest := translate.Lookup(translate.Modern()), translate.Latest(), translate.Oldest()
	request := func(text string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"text":"` + text + `"},"_meta":{"a":1,"io.modelcontextprotocol/protocolVersion":"x"}}}`
	}
	result := func(text string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text + `","annotations":{"lastModified":"x"}},{"type":"resource_link","uri":"a:b","name":"n"}],"structuredContent":{"a":1}}}`
	}
	for name, c := range map[string]struct {
		t     *translate.Translator
		text  func(string) string
		class large.Class
	}{
		"a request that shrinks":  {table.Between(modern, newest), request, large.RequestCopy},
		"a result that shrinks":   {table.Between(newest, oldest), result, large.Copy},
		"a result that grows":     {table.Between(newest, modern), result, large.Copy},
		"a result that is copied": {table.Between(oldest, newest), result, large.Copy},
	} {
		for _, size := range []int{10, large.Size, 3 * large.Size} {
			raw := []byte(c.text(strings.Repeat("x", size)))
			x := &Exchange{}
			scan := func(x *Exchange, raw []byte) {
				t.Helper()
				if err := x.Msg.Scan(raw, c.t.Shape()); err != nil {
					t.Fatal(err)
				}
				x.Msg.Method = wire.ToolsCall
			}
			scan(x, slices.Clone(raw))
			out, _, err := c.t.Rewrite(nil, &x.Msg)
			if err != nil {
				t.Fatal(err)
			}
			want := bytes.Clone(out)
			for how, room := range map[string]int{"no room": 0, "room": large.Growth, "spare memory": -1, "small spare memory": -2, "must stay": -3} {
				t.Run(fmt.Sprintf("%s/%d/%s", name, size, how), func(t *testing.T) {
					rewrite := func(ctx context.Context, memory *large.Memory) {
						t.Helper()
						h := host.New(zap.NewNop(), metrics.New("v0", none, none), memory, "v0", func() report.Setup { return report.Setup{Config: &cfg} })
						x := &Exchange{state: state{Ctx: ctx, Common: &Common{Table: &session.Table{Host: h}}}}
						x.Lasts = room < 0
						switch room {
						case -1:
							x.Spare = make([]byte, 0, len(raw)+large.Growth)
						case -2:
							x.Spare = make([]byte, 0, 10)
						}
						own := append(make([]byte, 0, len(raw)+max(room, 0)), raw...)
						scan(x, own)
						out, _, err := x.rewrite(c.t, own, c.class)
						copied := len(raw) > large.Size && room != large.Growth && (room != -1 || c.class != large.RequestCopy)
						switch {
						case ctx.Err() != nil && copied:
							if !errors.Is(err, context.Cause(ctx)) {
								t.Errorf("without room in memory: %v", err)
							}
						case err != nil || !bytes.Equal(out, want):
							t.Errorf("%v: %.200s, want %.200s", err, out, want)
						}
						if x.Lasts && c.class == large.RequestCopy && !bytes.Equal(own, raw) {
							t.Error("the client's message has changed")
						}
					}
					rewrite(t.Context(), large.NewMemory(1<<20))
					full := large.NewMemory(1 << 20)
					if err := full.Budget.Take(t.Context(), large.Copy, 1<<20); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					cancel(errors.New("the client has left"))
					rewrite(ctx, full)
				})
			}
		}
	}
}
