package brief

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	telling := map[string]bool{"administrators": true, "team": true}
	for _, c := range []struct {
		name  string
		limit int
		want  string
	}{
		{"list_pets", 64, "list_pets"},
		{"list_organization_repositories", 20, "list_org_repos"},
		{"list_organization_repositories_of_members", 24, "list_org_repos_of_member"},
		{"organizations_delete_membership_for_authenticated_user", 30, "org_delete_memb_for_authe_user"},
		{"update_project_permissions_of_a_team_in_the_old_and_the_new_organization", 24, "update_pro_team_new_org"},
		{strings.Repeat("x", 100), 64, strings.Repeat("x", 64)},
		{"a_" + strings.Repeat("b_", 10_000) + "c", 9, "a_b_b_b_c"},
	} {
		if got, _ := Name(c.name, c.limit, telling); got != c.want || len(got) > c.limit {
			t.Errorf("%.80s in %d: got %s, want %s", c.name, c.limit, got, c.want)
		}
	}
	if _, dropped := Name("list_organization_repositories", 20, nil); dropped {
		t.Error("words were dropped that could be abbreviated")
	}
}
