// Package brief makes names short without losing what they say.
package brief

import (
	"slices"
	"strings"
)

// verbs are words that say what an operation does.
var verbs = strings.Fields(`
	accept activate add approve archive assign attach authorize cancel capture change check clear clone close complete confirm convert copy count
	create deactivate delete deploy describe destroy detach disable dispatch download drop edit enable erase execute expire export fetch finalize
	find generate get import insert install invite invoke kill list lock login logout lookup make merge modify move new pause pay ping post publish
	purge put query read rebuild refresh refund register reject release remove rename render reopen replace rerun reset restart restore resume
	retrieve retry revoke rotate run save search send set show start stop submit suspend sync test transfer trigger unarchive unlock unpause
	unpublish unset update upgrade upload upsert validate verify view void watch wipe patch`)

// maxWords is how many words of a name are looked at, maxRead how many of its bytes.
const maxWords, maxRead = 48, 4 << 10

// Words returns the words of a name; of too many, those in the middle are left out.
func Words(name string) []string {
	words, _ := split(name)
	return words
}

// split is Words. cut says that some are left out.
func split(name string) (words []string, cut bool) {
	if len(name) > maxRead {
		name, cut = name[:maxRead/2]+"_"+name[len(name)-maxRead/2:], true
	}
	words = strings.Split(name, "_")
	if len(words) > maxWords {
		words, cut = slices.Concat(words[:maxWords/2], words[len(words)-maxWords/2:]), true
	}
	return words, cut
}

// abbreviations are words that have a usual shorter form.
var abbreviations = map[string]string{
	"administration": "admin", "administrative": "admin", "administrators": "admins", "application": "app", "applications": "apps",
	"association": "assoc", "associations": "assocs", "attribute": "attr", "attributes": "attrs", "authentication": "auth", "authorization": "authz", "authorizations": "authz",
	"certificate": "cert", "certificates": "certs", "command": "cmd", "configuration": "config", "configurations": "configs", "connection": "conn", "connections": "conns",
	"database": "db", "databases": "dbs", "department": "dept", "description": "desc", "destination": "dest", "development": "dev", "directory": "dir", "document": "doc", "documents": "docs",
	"environment": "env", "environments": "envs", "external": "ext", "identifier": "id", "identifiers": "ids", "information": "info", "infrastructure": "infra", "installation": "install",
	"international": "intl", "location": "loc", "locations": "locs", "management": "mgmt", "manager": "mgr", "maximum": "max", "message": "msg", "messages": "msgs",
	"minimum": "min", "namespace": "ns", "namespaces": "ns", "notification": "notif", "notifications": "notifs", "number": "num", "object": "obj", "objects": "objs",
	"operation": "op", "operations": "ops", "organisation": "org", "organisations": "orgs", "organization": "org", "organizations": "org", "package": "pkg", "packages": "pkgs",
	"parameter": "param", "parameters": "params", "permission": "perm", "permissions": "perms", "preference": "pref", "preferences": "prefs", "previous": "prev", "production": "prod",
	"properties": "props", "property": "prop", "protection": "protect", "reference": "ref", "references": "refs", "registration": "reg", "repositories": "repos", "repository": "repo",
	"request": "req", "requests": "reqs", "requirement": "reqmt", "requirements": "reqmts", "resource": "rsrc", "resources": "rsrcs", "response": "resp", "responses": "resps",
	"security": "sec", "server": "srv", "servers": "srvs", "specification": "spec", "specifications": "specs", "statistic": "stat", "statistics": "stats",
	"subscription": "sub", "subscriptions": "subs", "synchronization": "sync", "template": "tmpl", "templates": "tmpls", "temporary": "temp", "transaction": "tx", "transactions": "txs",
	"variable": "var", "variables": "vars", "version": "ver", "versions": "vers",
}

// shortWord and shortestWord are the lengths to which words are cut when no usual abbreviation is short enough.
const shortWord, shortestWord = 4, 3

// Name returns a name of at most limit characters. Words are abbreviated before they are left out; its verb, or else its
// first word, and telling words are the last to go. dropped says that words are missing.
func Name(name string, limit int, telling map[string]bool) (short string, dropped bool) {
	if len(name) <= limit {
		return name, false
	}
	words, dropped := split(name)
	type word struct {
		text string
		kept int // 2 for the verb, 1 for what tells it from others
	}
	list := make([]word, len(words))
	verb := slices.IndexFunc(words, func(w string) bool { return slices.Contains(verbs, w) })
	for i, w := range words {
		list[i].text = w
		switch {
		case i == verb:
			list[i].kept = 2
		case telling[w] || i == 0 && verb < 0:
			list[i].kept = 1
		}
	}
	size := func() int {
		n := len(list) - 1
		for _, w := range list {
			n += len(w.text)
		}
		return n
	}
	for i := range list {
		if a := abbreviations[list[i].text]; a != "" {
			list[i].text = a
		}
	}
	for _, stage := range [...]struct{ to, most int }{{shortWord, 0}, {shortestWord, 0}, {shortWord, 1}} { // cut the longest words
		for size() > limit {
			longest := -1
			for i, w := range list {
				if len(w.text) > stage.to && w.kept <= stage.most && (longest < 0 || len(w.text) > len(list[longest].text)) {
					longest = i
				}
			}
			if longest < 0 {
				break
			}
			list[longest].text = list[longest].text[:len(list[longest].text)-1]
		}
	}
	for most := 0; most < 2; most++ { // leave out those nearest to the middle
		for size() > limit {
			near := -1
			for i, w := range list {
				if w.kept <= most && (near < 0 || abs(2*i-len(list)) < abs(2*near-len(list))) {
					near = i
				}
			}
			if near < 0 {
				break
			}
			list, dropped = slices.Delete(list, near, near+1), true
		}
	}
	words = words[:0]
	for _, w := range list {
		words = append(words, w.text)
	}
	name = strings.Join(words, "_")
	return strings.TrimRight(name[:min(len(name), limit)], "_"), dropped
}

func abs(n int) int { return max(n, -n) }
