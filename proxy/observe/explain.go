package observe

import "github.com/dragoman-proxy/dragoman/translate"

// Explain returns why the message left in another form than it came, by the rules of the translation. It takes much longer
// than the translation did. A message that was cut, or was not translated, has no explanation.
func (m *Message) Explain() (translate.Explanation, error) {
	switch {
	case m.Recorded != nil:
		return translate.Explanation{Changes: m.Recorded}, nil
	case m.Why.Translator == nil || m.Cut:
		return translate.Explanation{Out: m.Raw}, nil
	}
	return m.Why.Translator.Explain(m.Raw, m.Why.Known)
}
