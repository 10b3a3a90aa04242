package tokens

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestModelsHaveTheirEncoding(t *testing.T) {
	for _, c := range []struct {
		models   []string
		encoding string
		exact    bool
	}{
		{[]string{"gpt-4", "gpt-4-turbo", "gpt-4-0613", "gpt-4-32k", "gpt-3.5", "gpt-3.5-turbo", "gpt-3.5-turbo-16k", "gpt-3.5-turbo0301", "gpt-35-turbo", "gpt-35-turbo-16k",
			"text-embedding-ada-002", "text-embedding-3-small", "text-embedding-3-large", "ft:gpt-4", "ft:gpt-4-0613:acme", "ft:gpt-3.5-turbo:acme::1", "cl100k_base"}, CL100K, true},
		{[]string{"gpt-4o", "gpt-4o-mini", "gpt-4o2024", "chatgpt-4o-latest", "gpt-4.1", "gpt-4.1-nano", "gpt-4.5-preview", "gpt-5", "gpt-5-nano", "gpt-5.1", "o1", "o1-preview", "o3-mini", "o4-mini",
			"gpt-oss-120b", "ft:gpt-4o-mini:acme", "ft:gpt-4.1:acme", "o200k_base"}, O200K, true},
		{[]string{"bytes"}, Bytes, true},
		{[]string{"chars4"}, Chars4, true},
		{[]string{"claude-opus-4", "gemini-2.5-pro", "llama3", "mistral-large", "", "gpt-", "gpt-40", "gpt-4turbo", "GPT-4", "davinci2", "bytes-4", "text-davinci-003", "davinci", "p50k_base"}, O200K, false},
	} {
		for _, model := range c.models {
			e, exact, err := ForModel(model, 0)
			if err != nil {
				t.Fatal(err)
			}
			factor := 1.0
			if !c.exact {
				factor = 1.2
			}
			if e.Name() != c.encoding || exact != c.exact || e.Factor() != factor {
				t.Errorf("%q is counted by %s times %v, exactly: %t; want %s times %v, %t", model, e.Name(), e.Factor(), exact, c.encoding, factor, c.exact)
			}
		}
	}
}

func TestGivenFactorReplacesDefault(t *testing.T) {
	for _, model := range []string{"gpt-4", "claude-opus-4"} {
		if e, _, err := ForModel(model, 1.5); err != nil || e.Factor() != 1.5 {
			t.Errorf("%s: %v, %v", model, e, err)
		}
	}
	for _, f := range []float64{-1, -0.0001, 10.001, math.Inf(1), math.NaN()} {
		if _, _, err := ForModel("gpt-4", f); err == nil || !strings.HasPrefix(err.Error(), "safety factor ") {
			t.Errorf("factor %v: %v", f, err)
		}
	}
}

func TestUnknownEncodingsAreRefused(t *testing.T) {
	for _, name := range []string{"", "cl100k", "gpt2", "CL100K_BASE"} {
		if _, err := Named(name, 0); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("unknown encoding %q: ", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
