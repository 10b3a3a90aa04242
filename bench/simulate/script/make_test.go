package script

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

const many = 3000

func TestASeedMakesOneScript(t *testing.T) {
	for seed := range uint64(many) {
		s := Make(seed)
		if again := Make(seed); !reflect.DeepEqual(s, again) {
			t.Fatalf("seed %d makes two scripts:\n%s\n%s", seed, s, again)
		}
		read, err := Parse(s.String())
		if err != nil || !reflect.DeepEqual(s, read) {
			t.Fatalf("seed %d: parsed, the script is another one (%v):\n%s\n%s", seed, err, s, read)
		}
	}
}

// TestScriptsCoverTheWorld checks that worlds reach all that they are for, and each in the measure that it should have.
func TestScriptsCoverTheWorld(t *testing.T) {
	pairs, steps, plans, sets := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	replicas, all, calls := 0, 0, 0
	for seed := range uint64(many) {
		s := Make(seed)
		web := false
		for _, c := range s.Clients {
			pairs[c.Transport+" "+c.Revision+" to "+s.Server.Transport+" "+s.Server.Revision]++
			web = web || c.Transport != "stdio"
		}
		if s.Replicas > 1 {
			replicas++
		}
		if !web && (s.Replicas > 1 || s.Store) {
			t.Errorf("seed %d: replicas for clients on stdio", seed)
		}
		if s.Replicas > 1 && !s.Store {
			t.Errorf("seed %d: replicas without a store", seed)
		}
		for _, set := range s.Settings {
			sets[set]++
		}
		dead := 0
		for _, step := range s.Steps {
			verb := strings.TrimRight(step.Who, "0123456789") + " " + step.Verb
			if step.Who == "link" && step.Verb != "heal" {
				verb = "link " + slices.DeleteFunc(slices.Clone(step.Words), func(w string) bool {
					return !slices.Contains([]string{"cut", "half", "stall", "trickle", "vanish", "refuse", "hang"}, w)
				})[0]
			}
			steps[verb]++
			switch verb {
			case "c call", "c read":
				calls++
				plans[step.Get("how")]++
			}
			for _, v := range step.Values {
				plans[v.Name]++
			}
			all++
			if s.Server.Transport == "stdio" {
				switch {
				case duration(step.Word(0)) > 90*time.Second:
					dead = 0
				case verb == "server restart", verb == "server die", step.Get("how") == Cut && step.Verb != "look" && step.Verb != "put": // those are of an API
					dead++
				}
				if dead > 4 {
					t.Errorf("seed %d: a process dies %d times in a row", seed, dead)
				}
			}
		}
	}
	clients, servers := 2*5+4, 2*6+4 // those of HTTP+SSE have no 2026-07-28
	if len(pairs) != clients*servers {
		t.Errorf("%d of %d pairs of a client and a server come", len(pairs), clients*servers)
	}
	if len(sets) != len(settings) {
		t.Errorf("%d of %d settings come", len(sets), len(settings))
	}
	if average := all / many; average < 45 || average > 130 {
		t.Errorf("a world has %d lines", average)
	}
	for _, verb := range strings.Split("begin,call,read,look,put,steal,list,note,ping,prompt,cancel,same,again,batch,subscribe,unsubscribe,hang,leave,back,forget,delete,deaf,garbage,roots,level,raw", ",") {
		if steps["c "+verb] == 0 {
			t.Errorf("no client does %s", verb)
		}
	}
	for _, verb := range strings.Split("server ping,server log,server announce,server changed,server update,server restart,server die,server up,server lose,server deaf,server status,server closestreams,server slow,"+
		"link cut,link half,link stall,link trickle,link vanish,link refuse,link hang,link heal,operator reload,operator stop,operator start,operator kill,operator store, wait", ",") {
		if steps[verb] == 0 {
			t.Errorf("no %s", verb)
		}
	}
	for _, how := range []string{"", JSON, SSE, Twice, Error, Never, Closes, Cut, Null, Status, Busy, Garbage, Other, "ask", "together", "reply", "late", "cancel", "progress", "logs", "gap", "wait", "size", "more"} {
		if plans[how] == 0 {
			t.Errorf("no call with %q", how)
		}
	}
	t.Logf("%d lines and %d calls a world, replicas in %d of %d", all/many, calls/many, replicas, many)
}

func TestSettingsLoad(t *testing.T) {
	for _, set := range settings {
		path, value, _ := strings.Cut(set.line, ":")
		names := strings.Split(path, ".")
		text := ""
		for i, name := range names {
			text += fmt.Sprintf("%*s%s:", 2*i, "", name)
			if i < len(names)-1 {
				text += "\n"
			}
		}
		text += value + "\n"
		_, err := config.Sources{Flags: func(c *config.Config, layers *setting.Layers) {
			c.Upstream.URL = "http://127.0.0.1:9000/mcp"
			if set.only == "stdio" {
				c.Upstream.URL, c.Upstream.Command = "", []string{"server"}
			}
			layers.Part("the setting", []byte(text))
		}}.Read()
		if err != nil {
			t.Errorf("%s: %v", set.line, err)
		}
	}
}

func BenchmarkMake(b *testing.B) {
	for seed := uint64(0); b.Loop(); seed++ {
		Make(seed)
	}
}

// TestRowsHaveNamesOfTheirOwn: of two rows with one name, the second is never drawn.
func TestRowsHaveNamesOfTheirOwn(t *testing.T) {
	for _, table := range [][]row{steps, plans, apiPlans, waits} {
		seen := map[string]bool{}
		for _, r := range table {
			if seen[r.name] {
				t.Errorf("two rows are called %s", r.name)
			}
			seen[r.name] = true
		}
	}
}
