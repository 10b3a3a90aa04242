package translate

// Steps and Always export all rules to the test of the page that lists them.
var (
	Steps  = steps
	Always = always
)

// Sentences exports the sentences in words, by the name of the action.
var Sentences = sentences

// Action returns the name of the rule's function Do.
func (r *Rule) Action() string { return r.action() }
