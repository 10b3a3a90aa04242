package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// exported returns the labels of each series that the command exports, by its name.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	described := regexp.MustCompile(`fqName: "([^"]*)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	all := map[string][]string{"up": nil}
	for _, d := range allMetrics(t) {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %s", d)
		}
		labels := strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' })
		for _, l := range strings.Split(m[2], ",") {
			name, _, _ := strings.Cut(l, "=")
			labels = append(labels, name)
		}
		all[m[1]] = labels
		if strings.HasSuffix(m[1], "_seconds") { // it may be a histogram
			all[m[1]+"_sum"], all[m[1]+"_count"], all[m[1]+"_bucket"] = labels, labels, append(labels[:len(labels):len(labels)], "le")
		}
	}
	return all
}

var (
	words     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-zA-Z_][a-zA-Z0-9_]*|[{}(),]|\S`)
	aWord     = regexp.MustCompile(`^[a-zA-Z_]`)
	operators = " by without on ignoring group_left group_right offset and or unless bool Inf w d h m "
)

// named returns the metrics in an expression, each with the labels in its selector, and the labels that the expression groups
// or matches by.
func named(expression string) (metrics map[string][]string, by []string) {
	metrics = map[string][]string{}
	all := words.FindAllString(expression, -1)
	next := func(i int) string {
		if i+1 < len(all) {
			return all[i+1]
		}
		return ""
	}
	of, inList := "", false
	for i, w := range all {
		switch {
		case w == "}":
			of = ""
		case w == ")":
			inList = false
		case !aWord.MatchString(w):
		case of != "" && strings.ContainsAny(next(i), "=!"):
			metrics[of] = append(metrics[of], w)
		case of != "":
		case inList:
			by = append(by, w)
		case strings.Contains(operators, " "+w+" "):
			inList = next(i) == "(" && w != "and" && w != "or" && w != "unless"
		case next(i) == "(" || next(i) == "by":
			// a function
		default:
			metrics[w] = append(metrics[w], "")
			if next(i) == "{" {
				of = w
			}
		}
	}
	return metrics, by
}

// checkQuery checks that the metrics and labels of a query exist.
func checkQuery(t *testing.T, exported map[string][]string, where, query string) {
	t.Helper()
	has := func(list []string, label string) bool {
		return label == "" || label == "job" || label == "instance" || strings.Contains(" "+strings.Join(list, " ")+" ", " "+label+" ")
	}
	metrics, by := named(query)
	if len(metrics) == 0 {
		t.Errorf("%s: no metric in %s", where, query)
	}
	var any []string
	for name, labels := range metrics {
		known, ok := exported[name]
		if !ok {
			t.Errorf("%s: no metric %s", where, name)
		}
		for _, l := range labels {
			if !has(known, l) {
				t.Errorf("%s: %s has no label %s", where, name, l)
			}
		}
		any = append(any, known...)
	}
	for _, l := range by {
		if !has(any, l) {
			t.Errorf("%s: no metric has a label %s", where, l)
		}
	}
}

func TestQueriesAreRead(t *testing.T) {
	metrics, by := named(`histogram_quantile(0.9, sum by (le, tool) (rate(a_bucket{x="y{z}", u!~"v"}[5m]))) / on (job) group_left sum(b offset 1d) > 14 * 86400 or 0 * c{d="e"}`)
	if got := fmt.Sprint(metrics, by); got != "map[a_bucket:[ x u] b:[] c:[ d]] [le tool job]" {
		t.Error(got)
	}
}

// TestDashboardUsesMetricsThatExist checks every query, and every label in a legend.
func TestDashboardUsesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title, Description, Type string
			Targets                  []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Type, Definition string }
		}
		Annotations struct{ List []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	all, queries := exported(t), 0
	for _, p := range board.Panels {
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("%s: no query or no description", p.Title)
		}
		for _, q := range p.Targets {
			queries++
			checkQuery(t, all, p.Title, q.Expr)
			for _, l := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				if !regexp.MustCompile(`by \([^)]*\b`+l[1]+`\b`).MatchString(q.Expr) && l[1] != "instance" {
					t.Errorf("%s: the legend has %s", p.Title, l[1])
				}
			}
		}
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			checkQuery(t, all, "variable", regexp.MustCompile(`label_values\((.*), \w+\)`).FindStringSubmatch(v.Definition)[1])
		}
	}
	for _, a := range board.Annotations.List {
		checkQuery(t, all, "annotation", a.Expr)
	}
	if queries < 25 {
		t.Errorf("%d queries", queries)
	}
}

// TestAlertsHaveARunbook checks that the queries of alerts and runbook use metrics that exist, and that each alert has a section
// with three commands.
func TestAlertsHaveARunbook(t *testing.T) {
	text, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, runbook, _ := strings.Cut(string(page), "\n## Runbook\n")
	runbook, _, _ = strings.Cut(runbook, "\n## ")
	all, rules := exported(t), file.Groups[0].Rules
	for _, r := range rules {
		checkQuery(t, all, r.Alert, r.Expr)
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: no severity, summary or description", r.Alert)
		}
		if want := "https://github.com/dragoman-proxy/dragoman/blob/main/docs/operations.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is not %s", r.Alert, want)
		}
		_, section, found := strings.Cut(runbook, "\n### "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		query := regexp.MustCompile(`(?m)^    promtool query instant \$PROM '([^']+)'$`).FindStringSubmatch(section)
		if !found || query == nil || !strings.Contains(section, "\n    dragoman doctor ") || !strings.Contains(section, "\n    log | jq ") {
			t.Errorf("%s: the runbook has no section with three commands", r.Alert)
			continue
		}
		checkQuery(t, all, "runbook of "+r.Alert, query[1])
	}
	if n := strings.Count(runbook, "\n### "); n != len(rules) || n != 14 {
		t.Errorf("%d sections for %d alerts", n, len(rules))
	}
}
