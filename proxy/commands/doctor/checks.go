package doctor

import (
	"context"
	"slices"
)

// checks returns the checks in their order.
func checks() []check {
	return []check{
		{name: "version", run: version},
		{name: "configuration", code: ExitConfiguration, run: configuration},
		{name: "environment", code: ExitConfiguration, needs: []string{"configuration"}, run: environment},
		{name: "listeners", code: ExitConfiguration, needs: []string{"configuration"}, run: listeners},
		{name: "adapters", code: ExitConfiguration, needs: []string{"configuration"}, applies: hasAdapters, run: adapterFiles},
		{name: "start", code: ExitConfiguration, needs: []string{"configuration", "listeners", "adapters"}, applies: canStart, run: start},
		{name: "network", code: ExitServer, needs: []string{"configuration"}, applies: hasURL, run: network},
		{name: "command", code: ExitServer, needs: []string{"configuration"}, applies: hasCommand, run: command},
		{name: "http", code: ExitServer, needs: []string{"network"}, applies: hasURL, run: overHTTP},
		{name: "protocol", code: ExitServer, needs: []string{"command", "http"}, applies: hasServer, run: protocol},
		{name: "lists", code: ExitServer, needs: []string{"protocol"}, applies: hasServer, run: lists},
		{name: "through dragoman", code: ExitOurs, needs: []string{"protocol"}, applies: hasServer, run: through},
		{name: "call", code: ExitServer, needs: []string{"through dragoman"}, applies: hasTool, run: call},
		{name: "replicas", code: ExitConfiguration, needs: []string{"configuration"}, applies: hasReplicas, run: otherReplicas},
		{name: "store", code: ExitConfiguration, needs: []string{"configuration"}, applies: hasStore, run: sharedStore},
		{name: "traces", code: ExitConfiguration, needs: []string{"configuration"}, applies: hasTraces, run: traces},
		{name: "clients", needs: []string{"protocol"}, applies: hasServer, run: clients},
	}
}

// Run examines what o names.
func Run(ctx context.Context, o Options) *Report { return newExam(o).run(ctx, checks()) }

// CheckConfiguration examines only the configuration, and what serve makes of it.
func CheckConfiguration(ctx context.Context, o Options) *Report {
	e := newExam(o)
	e.alone = true
	return e.run(ctx, slices.DeleteFunc(checks(), func(c check) bool { return !slices.Contains([]string{"configuration", "adapters", "start"}, c.name) }))
}
