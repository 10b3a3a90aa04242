package tokens

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tiktoken-go/tokenizer"
)

type sample struct {
	name string
	text []byte
}

// samples returns 64 KiB of each kind of text.
func samples(tb testing.TB) []sample {
	const size = 64 << 10
	r := rand.New(rand.NewPCG(1, 2))
	files := func(patterns ...string) []byte {
		var all []byte
		for _, p := range patterns {
			names, err := filepath.Glob(p)
			if err != nil {
				tb.Fatal(err)
			}
			for _, name := range names {
				text, err := os.ReadFile(name)
				if err != nil {
					tb.Fatal(err)
				}
				all = append(all, text...)
			}
		}
		return all
	}
	var list bytes.Buffer
	states, names := []string{"Todo", "In Progress", "Done", "Canceled"}, strings.Fields("Ada Grace Alan Edsger Barbara Donald Leslie Frances")
	words := strings.Fields(string(files("../../README.md", "../../CONTRIBUTING.md", "doc.go")))
	list.WriteString(`{"issues":[`)
	for i := 0; list.Len() < size; i++ {
		at := r.IntN(len(words) - 12)
		fmt.Fprintf(&list, `{"id":"%08x-%04x-4%03x","identifier":"ENG-%d","title":%q,"state":{"name":%q},"assignee":{"name":%q},"priority":%d,"createdAt":"2026-%02d-%02dT%02d:%02d:00.000Z","url":"https://linear.app/acme/issue/ENG-%d"},`,
			r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), i, strings.Join(words[at:at+4+r.IntN(8)], " "), states[r.IntN(4)], names[r.IntN(8)], r.IntN(5), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), i)
	}
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	var emoji, cjk bytes.Buffer
	faces := strings.Fields("😀 🎉 ❤️ 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 1️⃣ 🚀 🔥 ✅ ⚠️ 🤖 💡 📦")
	for emoji.Len() < size {
		emoji.WriteString(faces[r.IntN(len(faces))])
		if r.IntN(3) == 0 {
			emoji.WriteString(" " + words[r.IntN(len(words))] + " ")
		}
	}
	han := []rune("的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装")
	for cjk.Len() < size {
		for range 4 + r.IntN(14) {
			cjk.WriteRune(han[int(float64(len(han))*r.Float64()*r.Float64())])
		}
		cjk.WriteString([]string{"，", "。", "、", "：", "！\n", "；"}[r.IntN(6)])
	}
	all := []sample{
		{"go", files("../../translate/wire/*.go", "../../translate/*.go")},
		{"json", list.Bytes()},
		{"base64", []byte(base64.StdEncoding.EncodeToString(raw))},
		{"markdown", files("../../*.md", "../../*/*.md")},
		{"emoji", emoji.Bytes()},
		{"cjk", cjk.Bytes()},
	}
	for i, s := range all {
		if len(s.text) == 0 {
			tb.Fatalf("no text for %s", s.name)
		}
		for len(s.text) < size {
			s.text = append(s.text, s.text...)
		}
		all[i].text = []byte(strings.ToValidUTF8(string(s.text[:size]), ""))
	}
	return all
}

// ratio returns the time of g divided by the time of f, both medians of interleaved runs, one of each for each iteration of b, and the
// time of f. It calls before ahead of each run of f, untimed.
func ratio(b *testing.B, before, f, g func()) (times float64, took time.Duration) {
	var fs, gs []time.Duration
	for b.Loop() {
		before()
		start := time.Now()
		f()
		fs = append(fs, time.Since(start))
		start = time.Now()
		g()
		gs = append(gs, time.Since(start))
	}
	slices.Sort(fs)
	slices.Sort(gs)
	middle := len(fs) / 2
	return float64(gs[middle]) / float64(fs[middle]), fs[middle]
}

// BenchmarkCount compares counting 64 KiB with the Go library: warm, when the
// cache has the words, and cold, when the cache is empty.
func BenchmarkCount(b *testing.B) {
	for _, name := range []string{CL100K, O200K} {
		e, err := Named(name, 0)
		if err != nil {
			b.Fatal(err)
		}
		codec, err := tokenizer.Get(tokenizer.Encoding(name))
		if err != nil {
			b.Fatal(err)
		}
		v := e.loaded().(*vocabulary)
		for _, s := range samples(b) {
			text := string(s.text)
			library := func() {
				if _, err := codec.Count(text); err != nil {
					b.Error(err)
				}
			}
			count := func() { e.Count(s.text) }
			for _, c := range []struct {
				name   string
				before func()
			}{{"warm", count}, {"cold", v.forget}} {
				b.Run(name+"/"+s.name+"/"+c.name, func(b *testing.B) {
					times, took := ratio(b, c.before, count, library)
					b.ReportMetric(times, "x")
					b.ReportMetric(float64(len(s.text))/1e6/took.Seconds(), "MB/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// forget empties the cache of words that the next count will use.
func (v *vocabulary) forget() {
	s := v.scratch.Get().(*scratch)
	s.cache = cache{}
	v.scratch.Put(s)
}

// BenchmarkFits asks whether a text is within 4,000 tokens: a text of 4,000
// bytes, for which its length is enough; of 64 KiB, which is counted up to the
// limit; and of 10 MiB.
func BenchmarkFits(b *testing.B) {
	for name, e := range exact(b) {
		for _, s := range samples(b) {
			big := bytes.Repeat(s.text, 170)
			small := []byte(strings.ToValidUTF8(string(s.text[:4000]), ""))
			for _, c := range []sample{{"4000B", small}, {"64KiB", s.text}, {"10MiB", big[:10<<20]}} {
				b.Run(name+"/"+s.name+"/"+c.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						e.Fits(c.text, 4000)
					}
				})
			}
		}
	}
}

// BenchmarkHostile counts the texts that are worst for a tokenizer.
func BenchmarkHostile(b *testing.B) {
	for name, e := range exact(b) {
		for kind, text := range hostile() {
			b.Run(name+"/"+strings.ReplaceAll(fmt.Sprintf("%q", kind), " ", "-"), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					e.Count(text)
				}
			})
		}
	}
}

// BenchmarkLoad measures Load. The first call in the process loads the tables;
// later calls share them.
func BenchmarkLoad(b *testing.B) {
	for _, name := range []string{CL100K, O200K} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := encoding(b, name, 0).Load(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
