package capper

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestCorpus checks that every answer has facts, and that its text contains all of them, so that a score of 1
// is possible.
func TestCorpus(t *testing.T) {
	testset.Need(t, testset.Measurements)
	answers, err := load("all", "", "")
	if err != nil {
		t.Fatal(err)
	}
	aside := 0
	for _, a := range answers {
		if held(a.Name) {
			aside++
		}
		if !gjson.GetBytes(a.Result, "content").IsArray() {
			t.Errorf("%s: no list of content", a.Name)
		}
		facts := factsOf(a)
		if len(facts) < 5 {
			t.Errorf("%s: only %d facts", a.Name, len(facts))
		}
		needs := make([][]string, len(facts))
		for i, f := range facts {
			for _, p := range f.parts {
				needs[i] = append(needs[i], normal(p))
			}
		}
		for i, ok := range keptOf(whole(a), needs) {
			if !ok {
				t.Errorf("%s: %q is a fact, and not in the answer", a.Name, facts[i].parts)
			}
		}
	}
	if len(answers) < 60 || aside < len(answers)/3 || aside > 2*len(answers)/3 {
		t.Errorf("%d answers, %d of them set aside", len(answers), aside)
	}
}

// TestMoreIsKeptThanByPlainCuts measures some answers at one budget.
func TestMoreIsKeptThanByPlainCuts(t *testing.T) {
	testset.Need(t, testset.Measurements)
	answers, err := load("all", "jest", "")
	if err != nil {
		t.Fatal(err)
	}
	ours, plain := 0.0, 0.0
	for _, c := range measure(answers, []int{500}) {
		ours, plain = ours+c.kept, plain+c.plain[1]
	}
	if ours <= plain {
		t.Errorf("%.2f of the facts are kept, and %.2f by half head, half tail", ours, plain)
	}
}
