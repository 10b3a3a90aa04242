package probe

import (
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// List is one of a server's lists, with its entries as the server sent them.
type List struct {
	Name   string // of the result's member with the entries
	Method wire.Method
	Key    string // the member that identifies an entry
	Items  []string

	Refused string // the error with which the server answers; "" if it does not
	Endless string // why the list was not read to its end; "" if it was
	emptied int    // how many items come before a cursor that is empty; -1 if none is
}

// Lists returns the lists that a server may have.
func Lists() []List {
	return []List{
		{Name: "tools", Method: wire.ToolsList, Key: "name", emptied: -1},
		{Name: "prompts", Method: wire.PromptsList, Key: "name", emptied: -1},
		{Name: "resources", Method: wire.ResourcesList, Key: "uri", emptied: -1},
		{Name: "resourceTemplates", Method: wire.ResourcesTemplatesList, Key: "uriTemplate", emptied: -1},
	}
}

// Refusal is the error that a server answers in place of a list.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Read reads every page of those lists that a server of revision vu with these capabilities has. ask requests a page. One that the
// server refuses does not end that.
func Read(capabilities gjson.Result, vu *translate.Revision, lists []List, ask func(l *List, params string) ([]byte, error)) (all []List, err error) {
	for _, l := range lists {
		capability := l.Name
		if l.Method == wire.ResourcesTemplatesList {
			capability = "resources"
		}
		if !capabilities.Get(capability).Exists() {
			continue
		}
		if err := l.read(vu, ask); err != nil {
			return all, fmt.Errorf("%s: %w", l.Method, err)
		}
		all = append(all, l)
	}
	return all, nil
}

func (l *List) read(vu *translate.Revision, ask func(l *List, params string) ([]byte, error)) error {
	err := mcp.ReadPages(vu, func(params string) ([]byte, error) { return ask(l, "{"+params+"}") }, func(result gjson.Result) error {
		for _, item := range result.Get(l.Name).Array() {
			l.Items = append(l.Items, item.Raw)
		}
		if l.emptied < 0 && result.Get("nextCursor").Raw == `""` {
			l.emptied = len(l.Items)
		}
		return nil
	})
	if e, endless := errors.AsType[*mcp.EndlessListError](err); endless {
		l.Endless = e.Error()
		return nil
	}
	if refusal, is := errors.AsType[Refusal](err); is {
		l.Refused = string(refusal)
		return nil
	}
	return err
}
