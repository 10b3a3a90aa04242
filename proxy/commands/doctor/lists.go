package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
	"github.com/dragoman-proxy/dragoman/translate"
)

// lists reads the server's lists, and says what they cost and what clients of each revision get of them.
func lists(ctx context.Context, e *exam) {
	var err error
	if e.found, err = e.session.lists(ctx); err != nil {
		e.unread = true
		e.fail(e.quote(err.Error()), e.place(), "this is a mistake of the server: its own log says more")
		return
	}
	for _, l := range e.found {
		switch {
		case l.Refused == "":
			e.measure(l)
		case l.Name == "tools":
			e.fail(e.quote(l.Method.String()+": "+l.Refused), e.place(), "this is a mistake of the server: its own log says more")
		default:
			e.warn(e.quote(l.Method.String()+": "+l.Refused), e.place(), "clients get the same answer: the server should not declare the capability, or its own log says more")
		}
	}
	if e.Probe == nil {
		return
	}
	c, err := e.Probe(ctx, e.cfg)
	if err != nil {
		e.warn("what clients of each revision get cannot be found out: "+e.quote(err.Error()), e.place(), "dragoman probe says it without a time limit of "+fmt.Sprint(e.CheckTime))
		return
	}
	if c.Era == "both" {
		e.info("the server also serves clients without a handshake: it is of both eras", e.place(), "")
	}
	do := "dragoman probe has the whole report; docs/revisions-and-losses.md explains the rules"
	for _, of := range c.Clients {
		if e.outcome(of, do) {
			do = ""
		}
	}
}

// manyTokens is the size of a list of tools that is worth a warning: the model reads it in every conversation.
const manyTokens = 20_000

// measure says what a list costs.
func (e *exam) measure(l probe.List) {
	bytes := 0
	for _, item := range l.Items {
		bytes += len(item)
	}
	text := fmt.Sprintf("%s: %s, %s", l.Name, grouped(len(l.Items)), size(bytes))
	if l.Name != "tools" {
		e.ok(text, "")
		return
	}
	count, ok := tokensOf(l.Items)
	if ok {
		text += fmt.Sprintf(", %s tokens", grouped(count))
	}
	if count > manyTokens {
		e.warn(text, "", "the model reads them in every conversation: dragoman footprint says which tools cost most")
	} else {
		e.ok(text, "")
	}
	e.dialects(l)
	e.malformed(l)
}

func tokensOf(items []string) (n int, ok bool) {
	encoding, err := tokens.Named("o200k_base", 1)
	if err != nil || encoding.Load() != nil {
		return 0, false
	}
	for _, item := range items {
		n += encoding.Count([]byte(item))
	}
	return n, true
}

// dialects says which JSON Schema dialects the tools name.
func (e *exam) dialects(l probe.List) {
	count := map[string]int{}
	for _, item := range l.Items {
		for _, schema := range []string{"inputSchema.$schema", "outputSchema.$schema"} {
			if name := gjson.Get(item, strings.ReplaceAll(schema, "$", `\$`)); name.Type == gjson.String {
				count[strings.TrimSuffix(name.Str, "#")]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		short := e.quote(strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://"), "json-schema.org/"), "/schema"))
		if strings.Contains(name, "draft-07") {
			e.info(fmt.Sprintf("%s in JSON Schema %s, which some clients of the newest revision refuse", plural(count[name], "schema"), short), "", "dragoman rewrites them, unless contract.schema_dialect is off")
			continue
		}
		e.info(fmt.Sprintf("%s in JSON Schema %s", plural(count[name], "schema"), short), "", "")
	}
}

// malformed names the tools that clients refuse.
func (e *exam) malformed(l probe.List) {
	var without, twice []string
	seen := map[string]bool{}
	for _, item := range l.Items {
		name := e.quote(gjson.Get(item, "name").String())
		if gjson.Get(item, "inputSchema.type").Str != "object" {
			without = append(without, name)
		}
		if seen[name] {
			twice = append(twice, name)
		}
		seen[name] = true
	}
	if len(without) > 0 {
		e.warn(`tools whose inputSchema is not of "type": "object", which many clients refuse: `+few(without, 5), e.place(), "this is a mistake of the server")
	}
	if len(twice) > 0 {
		e.warn("tools with the same name: "+few(twice, 5), e.place(), "this is a mistake of the server: a client can call only one of them")
	}
}

// outcome says what clients of one revision get, and reports whether it gave the advice. That clients of older revisions than the newest
// of each era, or than the one that is configured, do not get all is no warning: there may be none.
func (e *exam) outcome(c probe.ClientReport, do string) bool {
	text := ""
	if c.Way == "bridged" {
		text = ", bridged between the eras"
	}
	for i, is := range []string{"lost", "changed"} {
		if list := changesOf(c.Changes, i == 0); len(list) > 0 {
			text += "; " + is + ": " + strings.Join(list, ", ")
		}
	}
	for _, l := range c.Lost {
		text += "; lost: " + e.quote(l)
	}
	switch {
	case len(c.Missing) > 0:
		say := e.info
		if slices.Contains([]string{translate.Modern(), translate.Latest().Name, e.proposed().Name}, c.Revision) {
			say = e.warn
		}
		say(fmt.Sprintf("clients of %s do not get %s%s", c.Revision, few(c.Missing, 5), text), "", do)
		return true
	case c.Loses():
		e.info(fmt.Sprintf("clients of %s get every entry of the lists%s", c.Revision, text), "", "")
	case text != "":
		e.info(fmt.Sprintf("clients of %s get everything%s", c.Revision, text), "", "")
	default:
		e.info(fmt.Sprintf("clients of %s get everything as it is", c.Revision), "", "")
	}
	return false
}

// changesOf returns a text for each rule by which something is lost, or is changed without a loss: what it is, and where.
func changesOf(all []probe.Change, lost bool) (texts []string) {
	var rules []string
	places := map[string][]string{}
	for _, ch := range all {
		if ch.Lost != lost {
			continue
		}
		rule := ch.Rule + " " + ch.What
		if ch.To != "" && !lost {
			rule += " to " + ch.To
		}
		if places[rule] == nil {
			rules = append(rules, rule)
		}
		place := ch.List
		switch n := len(ch.Names); {
		case n == 1:
			place = strings.TrimSuffix(ch.List, "s") + " " + failures.Line(ch.Names[0])
		case n > 1:
			place = fmt.Sprintf("%d %s", n, ch.List)
		}
		places[rule] = append(places[rule], place)
	}
	for _, rule := range rules {
		texts = append(texts, rule+" ("+strings.Join(places[rule], ", ")+")")
	}
	return texts
}
