package tokens

import "strings"

// defaultFactor is for models whose tokenizer is not public: an assumption, on
// the safe side for most texts.
const defaultFactor = 1.2

// A family is the models whose name is name, or begins with name and a hyphen.
// If open is true, anything may follow name.
type family struct {
	name     string
	open     bool
	encoding string
}

// families returns the families of models. The longest name that fits wins.
//
//	https://github.com/openai/tiktoken/blob/main/tiktoken/model.py
func families() []family {
	return []family{
		{"gpt-4", false, CL100K},
		{"gpt-3.5", false, CL100K},
		{"gpt-3.5-turbo", true, CL100K},
		{"gpt-35-turbo", true, CL100K},
		{"text-embedding-ada-002", false, CL100K},
		{"text-embedding-3", false, CL100K},
		{"ft:gpt-4", true, CL100K},
		{"ft:gpt-3.5-turbo", true, CL100K},
		{"ft:davinci-002", true, CL100K},
		{"ft:babbage-002", true, CL100K},
		{"davinci-002", false, CL100K},
		{"babbage-002", false, CL100K},

		{"gpt-4o", true, O200K},
		{"chatgpt-4o", false, O200K},
		{"gpt-4.1", true, O200K},
		{"gpt-4.5", true, O200K},
		{"gpt-5", true, O200K},
		{"gpt-oss", true, O200K},
		{"o1", true, O200K},
		{"o3", true, O200K},
		{"o4", true, O200K},
		{"ft:gpt-4o", true, O200K},
		{"ft:gpt-4.1", true, O200K},
		{"ft:gpt-4.5", true, O200K},
		{"ft:gpt-5", true, O200K},
		{"ft:o1", true, O200K},
		{"ft:o3", true, O200K},
		{"ft:o4", true, O200K},
	}
}

// ForModel returns the encoding for a model's name or an encoding's name, and
// reports whether it is exact. If no encoding is known for the model, it is
// o200k_base with counts multiplied by 1.2, so that a text is rather found too
// long than too short for a budget. A factor that is not 0 replaces the default
// factor, for every model. The error is a [*FactorError].
func ForModel(model string, factor float64) (e *Encoding, exact bool, err error) {
	name, exact := encodingOf(model)
	if !exact && factor == 0 {
		factor = defaultFactor
	}
	e, err = Named(name, factor)
	return e, exact, err
}

func encodingOf(model string) (name string, exact bool) {
	switch model {
	case CL100K, O200K, Bytes, Chars4:
		return model, true
	}
	best := family{encoding: O200K}
	for _, f := range families() {
		rest, ok := strings.CutPrefix(model, f.name)
		if ok && (f.open || rest == "" || rest[0] == '-') && len(f.name) > len(best.name) {
			best = f
		}
	}
	return best.encoding, best.name != ""
}
