package modernclient

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pendingQuestions are the questions of a call or a task that wait for the client's answers, in the order of asking.
type pendingQuestions struct {
	open  []pendingQuestion
	count int // how many there have been
}

// pendingQuestion is an open question, with the key by which the client knows it.
type pendingQuestion struct {
	key string
	crossing.Question
}

// add gives a question a key and adds it.
func (p *pendingQuestions) add(q crossing.Question) {
	p.count++
	kind, _, _ := strings.Cut(q.Method.String(), "/")
	p.open = append(p.open, pendingQuestion{fmt.Sprintf("%s-%d", kind, p.count), q})
}

// room returns how many questions may be added.
func (p *pendingQuestions) room() int { return max(crossing.MaxQuestions-len(p.open), 0) }

// appendTo appends the questions to dst as the members of an inputRequests object.
func (p *pendingQuestions) appendTo(dst []byte) []byte {
	for _, q := range p.open {
		dst = append(wire.AppendName(dst, q.key), q.Body...)
	}
	return dst
}

// without returns the questions that are left without that of the server's id.
func (p *pendingQuestions) without(id string) []pendingQuestion {
	return slices.DeleteFunc(slices.Clone(p.open), func(q pendingQuestion) bool { return string(q.ID) == id })
}

// match returns the questions that inputs answers, with the answers, and those that are left.
func (p *pendingQuestions) match(inputs []byte) (answered []pendingQuestion, answers []string, left []pendingQuestion) {
	given := map[string]string{}
	mcp.Members(wire.View(inputs), func(name string, v gjson.Result) { given[name] = v.Raw })
	for _, q := range p.open {
		if v, ok := given[q.key]; ok {
			answered, answers = append(answered, q), append(answers, v)
		} else {
			left = append(left, q)
		}
	}
	return answered, answers, left
}
