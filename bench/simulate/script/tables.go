package script

import (
	"slices"
	"strconv"
	"strings"
)

// A row is something that can happen. In its text, a|b|a is one of these, 1..5 and 1s..5s something between, and words in capitals are
// what [maker.word] makes of them. A text may have several lines, with a ; between.
type row struct {
	name string
	text string
	only string // what there must be for it: see [maker.has]
	cost int    // how many calls it may end, about
	then string // what has to follow, some steps later
}

// steps are what can happen, by names that profiles use. C is a client, N a new call of it, LAST one of its last, R a replica.
var steps = []row{
	{"call", "C call N PLAN", "", 0, ""},
	{"read", "C read N PLAN", "", 0, ""},
	{"look", "C look N APIPLAN", "adapter", 0, ""},
	{"put", "C put N APIPLAN", "adapter", 0, ""},
	{"cancelput", "C look|put N wait=500ms..9s ; wait 1ms..400ms ; C cancel IT", "adapter", 1, ""},
	{"list", "C list tools|tools|resources|prompts|templates", "", 0, ""},
	{"note", "C note note://1..9", "", 0, ""},
	{"prompt", "C prompt", "", 0, ""},
	{"complete", "C raw completion/complete", "", 0, ""},
	{"raw", "C raw x/unknown|tools/unknown|server/discover|tasks/list", "", 0, ""},
	{"ping", "C ping", "old", 0, ""},
	{"roots", "C roots", "old", 0, ""},
	{"level", "C level debug|info|warning|error", "old", 0, ""},
	{"batch", "C batch N N N PLAN", "", 0, ""},
	{"cancel", "C cancel LAST", "calls", 1, ""},
	{"cancelopen", "C call N wait=500ms..9s progress=0..3 ; wait 1ms..400ms ; C cancel IT", "", 1, ""},
	{"hang", "C call N wait=500ms..9s how=sse|json progress=0..3 ; wait 1ms..400ms ; C hang IT", "web", 1, ""},
	{"hangcancel", "C call N wait=2s..9s how=sse|json progress=0..3 ; wait 1ms..400ms ; C hang IT ; wait 1ms..900ms ; C cancel IT", "web old", 1, ""},
	{"losenow", "server lose ; wait 1ms..900ms ; C call N PLAN", "http", 2, ""},
	{"same", "C call N wait=100ms..3s ; C same N IT PLAN", "", 1, ""},
	{"again", "C again N LAST PLAN", "calls", 1, ""},
	{"begin", "C begin", "", 0, ""},
	{"leave", "C leave", "web", 2, ""},
	{"forget", "C forget", "web", 2, ""},
	{"delete", "C delete", "web old", 2, ""},
	{"resume", "C call N how=sse progress=2..6 gap=100ms..900ms ; wait 1ms..900ms ; C leave ; wait 1ms..900ms ; C back", "web", 2, ""},
	{"back", "C back", "web", 0, ""},
	{"backnone", "C back none", "web", 0, ""},
	{"deaf", "C deaf 2s..20s", "", 3, ""},
	{"ghost", "C delete ; wait 1s..3s ; C ghost", "web old", 2, ""},
	{"gate", "server slow 2s..4s ; C call N as=gated ; wait 1ms..90ms ; C ping ; wait 1ms..400ms ; C cancel IT ; wait 5s ; server slow 0s", "gated old", 2, ""},
	{"steal", "C steal OTHER post|get|delete", "web thief", 0, ""},
	{"badtoken", "C garbage token", "web refuses", 0, ""},
	{"garbage", "C garbage json|http|utf8|huge|depth|unknown|answer", "", 0, ""},
	{"subscribe", "C subscribe note://1..4", "", 0, ""},
	{"unsubscribe", "C unsubscribe note://1..4", "", 0, ""},
	{"restored", "C subscribe note://1 ; wait 1s..2s ; server restart|lose ; wait 42s..50s ; server update note://1 ; wait 1s..2s", "remote", 2, ""},

	{"update", "server update note://1..4", "", 0, ""},
	{"withdraw", "C call N ask=ASK,ASK together=yes late=2s..9s ; wait 1ms..1s ; server withdraw CALL", "", 1, ""},
	{"changed", "server changed tools|resources|prompts", "", 0, ""},
	{"log", "server log 1..3", "", 0, ""},
	{"announce", "server announce 1..4", "", 0, ""},
	{"serverping", "server ping", "", 0, ""},
	{"hesitate", "server hesitate 0s..900ms", "http", 0, ""},
	{"closestreams", "server closestreams", "", 0, ""},
	{"keeps", "server closestreams ; server ping ; wait 1s..20s", "http", 0, ""},
	{"quietly", "server streamlife 11s..20s ; server closestreams ; wait 1m..2m ; server update note://1 ; server ping ; wait 1s..2s ; server streamlife 0s", "http old", 0, ""},
	{"losekeeps", "server lose ; wait 3s..9s ; server ping ; wait 1ms..900ms ; server closestreams ; wait 2s..20s", "http", 2, ""},
	{"restart", "server restart", "death", 2, ""},
	{"die", "server die", "death", 2, "server up"},
	{"slowagain", "server slow 3s..12s ; server restart ; wait 1s..2s ; C call N PLAN ; C call N PLAN ; C call N PLAN ; wait 1s..4s ; server restart ; wait 1s..9s", "death", 3, "server slow 0s"},
	{"slowstop", "server slow 15s ; server restart ; wait 1s..2s ; C call N PLAN ; C call N PLAN ; operator stop R ; wait 10s..12s ; server slow 0s", "replica death", 3, "operator start R"},
	{"lose", "server lose", "remote", 2, ""},
	{"loselater", "server lose quietly ; wait 1ms..9s ; C call N PLAN", "remote", 2, ""},
	{"loserefusing", "C call N wait=9s..20s progress=0..2 how=sse|json ; C call N wait=9s..20s ; C call N PLAN ; wait 1ms..900ms ; server lose refusing 2s..9s error|error|400|503 ; wait 1ms..900ms ; C call N ; wait 1s..9s", "http", 4, ""},
	{"losetwice", "server lose quietly ; C call N wait=2s..5s ; wait 1s ; server lose", "remote", 3, ""},
	{"stopasked", "C call N ask=ASK late=500ms..6s|2s..40s ; wait 1ms..900ms ; operator stop R ; wait 1ms..400ms ; C call N PLAN", "replica", 3, "operator start R"},
	{"silentasked", "C call N ask=ASK late=25s..40s ; wait 1s ; C call N wait=22s..24s ; wait 50s", "silence", 2, ""},
	{"pingaway", "C leave ; wait 2s..4s ; server ping ; wait 12s ; C back", "web old pipe", 2, ""},
	{"unreached", "C call N gap=1s progress=1 ask=sample|roots|elicit wait=30s ; wait 1ms..900ms ; C leave ; wait 20s ; C back", "web old pipe", 2, ""},
	{"slow", "server slow 1s..4s", "", 1, "server slow 0s"},
	{"peek", "C peek get|result|cancel ANY|ANY|unknown", "tasks", 0, ""},
	{"taskstop", "C call N task=act|run wait=2s..9s ; wait 300ms..2s ; operator stop|kill R ; wait 300ms..2s", "tasks replica", 3, "operator start R"},
	{"tasklose", "C call N task=act|run wait=2s..9s ; wait 300ms..2s ; server restart|lose", "tasks remote", 3, ""},
	{"serverdeaf", "server deaf 5s..1m", "", 3, ""},
	{"status", "server status 503|500|429|502 1s..10s", "http", 2, ""},

	{"cut", "link LINK cut 0..1200", "link", 2, ""},
	{"cutnow", "link LINK cut 0", "link", 2, ""},
	{"half", "link LINK half", "link", 2, ""},
	{"stall", "link LINK stall 1s..8s", "link", 2, ""},
	{"trickle", "link LINK trickle 1s..8s", "link", 2, ""},
	{"vanish", "link LINK vanish", "link", 2, ""},
	{"refuse", "link HOST refuse 1s..4s", "link", 2, ""},
	{"dialhang", "link HOST hang 1s..4s", "link", 2, ""},
	{"heal", "link heal", "link", 0, ""},

	{"reload", "operator reload", "", 0, ""},
	{"stop", "operator stop R", "replica", 2, "operator start R"},
	{"kill", "operator kill R", "replica", 2, "operator start R"},
	{"stopunread", "C subscribe note://1 ; wait 1s..2s ; C deaf 3s..6s ; server update note://1 12 40000 ; wait 1ms..900ms ; operator stop R ; server update note://1 40 40000 ; wait 10s..12s", "replica new unbeaten", 3, "operator start R"},
	{"stopbusy", "C call N wait=500ms..9s progress=0..3 ; C call N ask=ASK,ASK ; wait 1ms..300ms ; operator stop R", "replica", 2, "operator start R"},
	{"rolling", "operator stop r1 ; wait 1ms..900ms ; operator start r1 ; wait 1ms..900ms ; operator stop r2 ; wait 1ms..900ms ; operator start r2", "replica several", 3, ""},
	{"killsoon", "operator kill R ; wait 1ms..900ms ; operator start R ; wait 1ms..900ms ; C call N PLAN ; operator kill R", "replica", 3, "operator start R"},
	{"killasked", "C call N ask=ASK late=500ms..6s ; wait 1ms..400ms ; operator kill R", "replica", 3, "operator start R"},
	{"losekill", "server lose ; C call N PLAN ; operator kill R", "replica remote", 4, "operator start R"},
	{"awaykill", "operator store away 1s..8s ; wait 1ms..500ms ; operator kill R ; wait 1ms..900ms ; C call N PLAN", "store replica", 3, "operator start R"},
	{"awaysubscribed", "C subscribe note://1 ; wait 1s..2s ; operator store away 5s..8s ; wait 1ms..500ms ; operator kill C ; wait 58s..65s ; server update note://1 ; wait 1s..2s ; operator start r1 ; operator start r2 ; operator start r3", "store replica several web old", 2, ""},
	{"emptystop", "operator store empty ; operator stop R ; wait 1ms..900ms ; C call N PLAN", "store replica", 2, "operator start R"},
	{"storeaway", "operator store away 1s..10s", "store", 1, ""},
	{"storeempty", "operator store empty", "store", 1, ""},
	{"storeslow", "operator store slow 150ms", "store", 1, ""},
}

// beginnings are what a client may see first, of replicas that have served none yet; endings are what it may see last: what ends many calls is
// not drawn often before.
var (
	beginnings = weigh(steps, "awaysubscribed=1")
	endings    = weigh(steps, "slowstop=3 slowagain=2 stopunread=3 awaysubscribed=1 stopasked=2 loserefusing=6")
)

// plans are what the server and the client do with calls.
var plans = []row{
	{"quick", "", "", 0, ""},
	{"filled", "size=0..2000", "", 0, ""},
	{"progress", "progress=1..5 gap=5ms..400ms", "", 0, ""},
	{"logs", "logs=1..3 gap=5ms..400ms", "", 0, ""},
	{"slow", "wait=5ms..900ms", "", 0, ""},
	{"slower", "wait=1s..30s progress=0..2", "", 0, ""},
	{"big", "size=3000|3000|20000|20000|100000|700000", "", 0, ""},
	{"json", "how=json wait=0s|40ms|300ms", "", 0, ""},
	{"sse", "how=sse progress=0..2 wait=0s|40ms|300ms", "", 0, ""},
	{"ask", "ask=ASK wait=0s|40ms|300ms", "", 0, ""},
	{"asks", "ask=ASK,ASK progress=0..3", "", 0, ""},
	{"together", "ask=ASK,ASK together=yes", "", 0, ""},
	{"asklate", "ask=ASK late=3s..40s", "", 1, ""},
	{"askodd", "ask=ASK reply=decline|twice|error|decline|never", "", 1, ""},
	{"withdrawn", "ask=ASK late=1s..4s cancel=5ms..400ms", "", 1, ""},
	{"cancelled", "wait=1s..9s cancel=5ms..400ms", "", 1, ""},
	{"odd", "how=twice|error|null|other|nameless", "", 0, ""},
	{"bare", "how=bare wait=0s|40ms progress=0..2", "", 0, ""},
	{"bad", "how=closes|status|busy|garbage", "", 1, ""},
	{"broken", "how=broken", "pipe", 1, ""},
	{"behind", "how=behind", "http", 0, ""},
	{"lines", "how=lines", "http", 0, ""},
	{"stray", "how=stray progress=0..2", "", 0, ""},
	{"url", "ask=url opens=0s|40ms|300ms|1s..4s progress=0..2", "", 0, ""},
	{"visit", "ask=visit opens=0s|40ms|300ms|1s..4s progress=0..2", "", 0, ""},
	{"pages", "ask=url|visit,ASK|visit,ASK together=yes|0 opens=0s|300ms|1s..4s late=0s|40ms|1s", "", 0, ""},
	{"visitodd", "ask=url|visit reply=decline|twice|error|decline|never late=0s|1s", "", 1, ""},
	{"needspage", "ask=url|visit needs=yes", "", 0, ""},
	{"task", "task=act|run wait=0s|300ms|1s..9s size=0..2000", "tasks", 0, ""},
	{"taskodd", "task=act|run wait=0s|1s how=error|sse", "tasks", 0, ""},
	{"taskcancelled", "task=act|run wait=2s..9s cancel=5ms..4s", "tasks", 1, ""},
	{"away", "ask=ASK away=yes", "", 0, ""},
	{"needs", "ask=ASK needs=yes", "", 0, ""},
	{"escaped", "as=escaped", "", 0, ""},
	{"asgated", "as=gated wait=0s|40ms", "gated", 0, ""},
	{"gatedtwice", "as=gatedtwice", "gated", 1, ""},
	{"cut", "how=cut", "death", 1, ""},
	{"never", "how=never", "", 1, ""},
	{"more", "size=500..6000 more=raw|lines", "capped", 0, ""},
	{"gated", "kind=open|shut wait=0s|40ms|2s progress=0..2", "gate", 0, ""},
}

// apiPlans are what the API of the adapter does.
var apiPlans = []row{
	{"quick", "", "", 0, ""},
	{"filled", "size=0..2000", "", 0, ""},
	{"slow", "wait=5ms..9s", "", 0, ""},
	{"tooslow", "wait=11s..15s", "", 1, ""},
	{"bad", "how=status|cut|garbage", "", 1, ""},
	{"never", "how=never", "", 1, ""},
}

var ofAPI = weigh(apiPlans, "quick=30 filled=10 slow=20 tooslow=1 bad=8 never=1")

// waits are how time passes between steps.
var waits = []row{
	{"none", "", "", 0, ""},
	{"short", "wait 1ms..500ms", "", 0, ""},
	{"second", "wait 1s..5s", "", 0, ""},
	{"ten", "wait 8s..20s", "", 0, ""},
	{"minute", "wait 1m..2m", "", 0, ""},
	{"long", "wait 10m", "", 0, ""},
}

// profile is a kind of world: how often things happen in it.
type profile struct {
	name                string
	steps, plans, waits lot
}

// lot is what is drawn from.
type lot struct {
	rows []row
	upTo []int // the sum of the weights so far
}

// weigh reads "call=50 list=6": names of rows and how often they come. A name may stand there twice.
func weigh(all []row, text string) (l lot) {
	sum := 0
	for word := range strings.FieldsSeq(text) {
		name, weight, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(weight)
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if err != nil || i < 0 {
			panic("no row and weight: " + word)
		}
		sum += n
		l.rows, l.upTo = append(l.rows, all[i]), append(l.upTo, sum)
	}
	return l
}

const (
	everyday = "peek=4 taskstop=1 tasklose=1 announce=1 stopasked=1 silentasked=6 pingaway=2 hangcancel=1 losenow=1 loselater=1 losetwice=2 loserefusing=4 losekeeps=2 quietly=1 unreached=4 hesitate=1 ghost=2 gate=4 look=8 put=8 cancelput=2 steal=6 badtoken=2 call=50 read=5 list=6 note=3 ping=3 prompt=2 complete=1 roots=1 level=1 serverping=2 "
	ordinary = "task=20 taskodd=5 taskcancelled=2 url=3 visit=3 pages=2 visitodd=1 needspage=3 needs=6 broken=1 behind=1 lines=2 stray=2 away=3 escaped=2 asgated=10 gatedtwice=4 more=3 gated=20 quick=35 filled=5 progress=12 logs=6 slow=7 slower=5 big=3 json=4 sse=6 ask=7 asks=3 together=2 odd=5 bare=4 "
	brisk    = "none=40 short=48 second=8 ten=3 minute=1"
)

// profiles are the kinds of worlds. Each goes deep in one direction, but for the last.
var profiles = []profile{
	kind("calm", everyday+"batch=3 changed=2 update=2 subscribe=2 log=2", ordinary, brisk),
	kind("calls", everyday+"call=30 cancel=4 cancelopen=9 same=6 again=6 batch=8 hang=4 raw=2", ordinary+"progress=10 slow=10 slower=10 odd=8 bad=4 cancelled=6", "none=60 short=38 second=2"),
	kind("questions", everyday+"withdraw=5 garbage=2 cancelopen=5 hang=3 leave=2 back=3 backnone=1 delete=1 closestreams=2", "url=10 visit=15 pages=10 visitodd=4 needspage=6 ask=40 asks=20 together=15 asklate=12 askodd=12 withdrawn=6 quick=15", "none=40 short=40 second=15 ten=4 minute=1"),
	kind("subscriptions", everyday+"announce=3 subscribe=14 unsubscribe=5 update=22 changed=14 log=5 closestreams=3 keeps=2 restored=3 awaysubscribed=2 leave=3 back=4 backnone=1 restart=2 cut=1 cutnow=2 stop=1", ordinary, "none=35 short=50 second=11 ten=3 minute=1"),
	kind("leaving", everyday+"announce=2 leave=6 back=6 backnone=3 forget=4 delete=5 resume=5 hang=6 begin=3 deaf=1 garbage=4 cancelopen=3 update=3 subscribe=2", ordinary+"slow=10 slower=10 progress=15 sse=15", "none=45 short=40 second=10 ten=4 minute=1"),
	kind("links", everyday+"cut=4 cutnow=4 half=4 stall=5 trickle=4 vanish=2 refuse=2 dialhang=2 heal=2 back=4 backnone=1 cancelopen=3", ordinary+"progress=10 sse=10 big=8 slow=10 slower=10", "none=45 short=40 second=10 ten=4 minute=1"),
	kind("restarts", everyday+"slowagain=4 restart=5 die=4 lose=4 closestreams=3 keeps=2 restored=2 status=2 slow=2 subscribe=3 update=3 back=2 backnone=1 cancelopen=3", ordinary+"slow=15 slower=10 progress=10 bad=4 cut=1", "none=40 short=40 second=12 ten=5 minute=3"),
	kind("replicas", everyday+"call=30 stop=4 kill=3 stopasked=2 stopbusy=2 rolling=1 killsoon=1 killasked=1 losekill=1 awaykill=1 awaysubscribed=2 emptystop=1 storeaway=2 storeempty=1 storeslow=1 reload=2 cut=1 cutnow=2 back=4 backnone=1 leave=3 subscribe=3 update=4 delete=2 lose=1", ordinary+"ask=15 slow=15 slower=10", brisk),
	kind("shutdown", everyday+"slowstop=1 stopunread=3 stop=6 stopasked=4 stopbusy=4 rolling=2 reload=6 kill=1 back=3 backnone=1 restart=1 begin=2 subscribe=2", ordinary+"slow=10 slower=15 asks=15", "none=50 short=35 second=8 ten=6 minute=1"),
	kind("limits", everyday+"deaf=1 serverdeaf=1 slow=3 stall=2 vanish=1 hang=2 cancelopen=4 back=1 backnone=1", ordinary+"slower=10 asklate=10 never=4", "none=30 short=40 second=12 ten=10 minute=7 long=1"),
	kind("shaped", everyday+"storeaway=1 storeempty=1 stop=1 cut=1 cancelopen=2", ordinary+"more=60", "none=40 short=48 second=8 ten=3 long=1"),
	kind("soup", everyday+"cancel=2 cancelopen=4 resume=2 same=2 again=2 batch=3 hang=3 leave=2 back=3 backnone=1 forget=2 delete=2 deaf=1 garbage=2 begin=2 subscribe=4 unsubscribe=2 update=5 changed=4 log=2 "+
		"restart=2 die=1 lose=1 closestreams=2 status=1 slow=1 serverdeaf=1 cut=2 cutnow=2 half=1 stall=2 trickle=2 vanish=1 refuse=1 dialhang=1 reload=2 stop=1 kill=1 storeaway=1 raw=1",
		ordinary+"bad=4 cancelled=3 asklate=4 askodd=4 never=1", "none=40 short=40 second=12 ten=6 minute=2"),
}

func kind(name, step, plan, wait string) profile {
	return profile{name, weigh(steps, step), weigh(plans, plan), weigh(waits, wait)}
}

// settings are lines of a configuration that users have, and what only worlds for them have.
var settings = []struct{ line, only string }{
	{"upstream.share_child: true", "stdio"},
	{"upstream.restart.max: 0", "stdio"},
	{"upstream.restart.max: 1", "stdio"},
	{"upstream.restart.max: 50", "stdio"},
	{"upstream.unread_timeout: 30s", "stdio"},
	{"session.max_processes: 4", "stdio"},
	{"upstream.transport: http", "http"},
	{"upstream.transport: sse", "sse"},
	{"upstream.cookies: all", "remote"},
	{"upstream.connect_timeout: 1s", "remote"},
	{"upstream.silence_timeout: 20s", ""},
	{"upstream.silence_timeout: 1m", ""},
	{"upstream.handshake_timeout: 10s", ""},
	{"upstream.keepalive: 20s", ""},
	{"limits.time: {tools/call: {first_byte: 5s, silence: 30s}}", ""},
	{"limits.time: {tools/call: {silence: 20m}, tools/list: {first_byte: 3s}}", ""},
	{"limits.replay: 0", ""},
	{"limits.replay: 4", ""},
	{"limits.client_message: 64KiB", ""},
	{"limits.upstream_message: 1MiB", ""},
	{"limits.in_hand: 16MiB", ""},
	{"heartbeat: 1s", "clients"},
	{"heartbeat: 0s", "clients"},
	{"session.idle_timeout: 1m", "clients"},
	{"session.max: 3", "clients"},
	{"session.max_age: 5m", "clients"},
	{"session.without: open", "clients"},
	{"adapters.mode: discrete", ""},
	{"adapters.mode: auto", ""},
	{"auth.tokens: [alice-0123456789abcdef, bob-0123456789abcdef]", "tokens"},
	{"bridge.principal: header:X-User", "users"},
	{"bridge.park_timeout: 15s", "modern"},
	{"bridge.idle_timeout: 20s", "modern"},
	{"bridge.max_sessions: 2", "modern"},
	{"bridge.ttl: 10s", "modern"},
	{"bridge.default_log_level: debug", ""},
	{"bridge.default_log_level: off", ""},
	{"bridge.cache.bytes: 1MiB", ""},
	{"contract.elicitation_fallback: decline", ""},
	{"contract.schema_dialect: off", ""},
	{"contract.tasks: strip", ""},
	{"contract.resource_contents_name: off", ""},
	{"footprint.drop: [titles, echoes, examples]", ""},
	{"footprint.hoist: apply", ""},
	{"transform: {default_max_tokens: 300}", ""},
	{"transform: {default_max_tokens: 1000}", ""},
	{`transform: {default_max_tokens: 100, more_tool: {enabled: "on"}}`, ""},
	{"gates: [{tool: act, params: [extra], source: noop, list: items, match: {name: x}, capability: x, error_code: no_extra, on_unavailable: allow}]", ""},
	{gate, ""},
	{"inspect.enabled: true", "clients"},
	{"shutdown.drain: 1s", ""},
}

// gate allows a parameter of act for what the tool kinds says.
const gate = `gates: [{tool: act, params: [extra], source: kinds, list: kinds, match: {name: "{kind}"}, capability: extras, match_values: true, ` +
	`subject: kind, error_code: no_extra, on_unavailable: deny}]`

// revisions of the protocol, oldest first; the last has no sessions.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

const modern = 4 // the place of the first revision without a handshake
