package command

import (
	"fmt"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// toolCost is how many tokens the operations of an adapter take in tools/list if each is a tool of its own.
type toolCost struct {
	all    int
	output int // of their output schemas
}

// String says so.
func (c toolCost) String() string {
	s := fmt.Sprintf("%d tokens in discrete mode", c.all)
	if c.output > 0 {
		s += fmt.Sprintf(", %d of them for output schemas", c.output)
	}
	return s
}

// add counts the tool with this entry in tools/list.
func (c *toolCost) add(tool []byte, in *tokens.Encoding) {
	c.all += in.Count(tool)
	if schema := wire.Member(tool, "outputSchema"); schema != nil {
		c.output += in.Count(schema)
	}
}

// encodingOfCosts returns the encoding in which costs are counted.
func encodingOfCosts() (*tokens.Encoding, error) {
	in, _, err := tokens.ForModel(transform.DefaultConfig().Adapters.Capper.Model, 0)
	if err != nil {
		return nil, err
	}
	return in, in.Load()
}

// costOf returns the cost of an adapter that is not loaded.
func costOf(a *file.Adapter) (c toolCost, err error) {
	in, err := encodingOfCosts()
	if err != nil {
		return c, err
	}
	shown := present.NewAdapter(a, func(*file.Operation) guard.Verdict { return guard.Allow }, present.New(present.Options{Mode: present.Discrete}))
	for _, op := range a.Operations {
		c.add(shown.DiscreteJSON(op, op.Name), in)
	}
	return c, nil
}
