package openapi

import (
	"slices"
	"strings"
)

// Words of paths and names that say what an operation does beyond its method.
var (
	actions = []string{"accept", "activate", "approve", "archive", "authorize", "cancel", "capture", "check", "clear", "clone", "close", "complete",
		"confirm", "convert", "copy", "deactivate", "deploy", "disable", "dispatch", "dispatches", "enable", "execute", "expire", "export", "finalize", "generate", "generate-notes",
		"import", "invoke", "kill", "lock", "login", "logout", "merge", "merges", "move", "pause", "pay", "ping", "pings", "publish", "purge", "reactivate", "rebuild", "redeliver",
		"refresh", "refund", "reject", "release", "rename", "render", "reopen", "rerequest", "rerun", "rerun-failed-jobs", "reset", "restart", "restore", "resume", "retry", "revoke", "rotate", "run",
		"send", "start", "stop", "submit", "suspend", "sync", "test", "tests", "transfer", "trigger", "unarchive", "unlock", "unpause", "unpublish", "upgrade", "validate", "verify", "void", "wipe"}
	questions = []string{"search", "query", "list", "count", "find"}
	grave     = []string{"purge", "revoke", "transfer", "reset", "wipe", "drop", "permanently", "destroy", "truncate"}
	money     = []string{"pay", "charge", "refund", "payout", "capture", "charges", "refunds", "payouts", "payments"}
)

// judgement is the category of an operation and its danger.
type judgement struct {
	category string
	danger   string // "" for that of the category
	confirm  bool
	why      string // of the danger
	guess    string // why a person should look at it
}

// judge decides by method, path and name. It never says that an operation is less dangerous
// than its category.
func (op *rawOperation) judge() (j judgement) {
	segments := strings.Split(strings.Trim(op.path, "/"), "/")
	last := segments[len(segments)-1]
	words := strings.Split(snake(op.id), "_")
	summary := strings.ToLower(strings.TrimSpace(op.summary))
	verb, _, _ := strings.Cut(summary, " ")
	switch op.method {
	case "GET":
		j.category = "read"
	case "DELETE":
		j.category, j.danger, j.confirm, j.why = "delete", "destructive", true, "DELETE"
	case "PUT", "PATCH":
		j.category = "update"
	default:
		asks := slices.Contains(questions, words[0]) || slices.Contains(questions, verb) || slices.Contains(questions, strings.ToLower(last))
		switch {
		case asks && op.answersOK():
			j.category, j.guess = "read", "POST that seems only to read: category read"
		case slices.Contains(actions, strings.ToLower(last)) || strings.Contains(last, ":") && !strings.HasPrefix(last, "{"):
			j.category = "execute"
		case strings.HasPrefix(last, "{") && strings.HasSuffix(last, "}"):
			j.category = "update"
		default:
			j.category = "create"
		}
	}
	if op.method == "GET" || j.category == "read" {
		return j
	}
	var all []string
	for _, s := range segments {
		if !strings.Contains(s, "{") {
			all = append(all, strings.Split(snake(s), "_")...)
		}
	}
	near := strings.Split(snake(last), "_")
	if strings.Contains(last, "{") {
		near = nil
	}
	near = append(near, words...)
	switch {
	case anyWord(near, grave) != "":
		j.danger, j.confirm, j.why = "dangerous", true, anyWord(near, grave)
	case j.danger == "" && anyWord(near, money) != "":
		j.danger, j.confirm, j.why = "destructive", true, anyWord(near, money)
	}
	if j.danger != "" && j.category != "delete" {
		j.guess = "danger_level " + j.danger + " because of the word " + j.why
	}
	return j
}

func anyWord(words, of []string) string {
	for _, w := range words {
		if slices.Contains(of, w) {
			return w
		}
	}
	return ""
}

// answersOK reports whether the operation answers with 200.
func (op *rawOperation) answersOK() bool {
	return slices.ContainsFunc(op.answers, func(a *rawAnswer) bool {
		return a.status == "200" || a.status == "default" || strings.EqualFold(a.status, "2XX")
	})
}
