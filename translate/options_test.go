package translate_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/internal/slow"
)

// optionsOf reads lines such as strip_mode=lenient, for the engine and its twin.
func optionsOf(t testing.TB, lines []string) (translate.Options, slow.Options) {
	t.Helper()
	var o translate.Options
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "resource_contents_name":
			o.ResourceContentsName = value
		case "drop_resource_updated_24":
			o.DropResourceUpdated = value == "on"
		case "strip_mode":
			o.StripMode = value
		case "keep_meta":
			o.KeepMeta = value == "on"
		case "elicitation_fallback":
			o.ElicitationFallback = value
		case "completions_for_24":
			o.CompletionsFor24 = value
		case "progress_message_as_log":
			o.ProgressMessageAsLog = value == "on"
		case "title_as_resource_name":
			o.TitleAsResourceName = value == "on"
		case "tasks":
			o.Tasks = value
		default:
			t.Fatalf("unknown option %q", line)
		}
	}
	return o, slow.Options(o)
}
