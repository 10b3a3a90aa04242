// @ts-check
/** @import { Hello, Session, State } from './types.d.ts' */
import { $, age, chip, clock, count, h, millis, plural, prose, status } from './dom.js';
import { NAMES } from './state.js';

/** @param {string | undefined} at */
const since = (at) => (at ? age((Date.now() - Date.parse(at)) / 1000) : '–');
const rev = (r) => h('code.rev', null, r || 'no revision yet');
const code = (text) => h('code', null, text);

/** The line between client and server. @param {Session} s */
function wire(s) {
	const rules = s.rules ?? [], same = !s.server_rev || (s.client_rev === s.server_rev && !rules.length);
	return h('span.wire' + (same ? '.same' : ''), null, h('i.line'), h('span', null, !s.server_rev ? 'connecting' : s.era === 'bridge' ? 'bridged' : same ? 'same revision' : 'translated', rules.slice(0, 4).map((r) => chip(r)), rules.length > 4 && chip('+' + (rules.length - 4), 'more')), h('i.line.head'));
}

/** Who speaks with whom: the busiest two sessions. @param {Session[]} sessions @param {() => void} all */
export function story(sessions, all) {
	const first = [...sessions].sort((a, b) => +!!b.server_rev - +!!a.server_rev || (b.open ?? 0) - (a.open ?? 0) || (b.calls ?? 0) - (a.calls ?? 0)).slice(0, 2);
	$('story').replaceChildren(...first.map((s) => h('li.route', null,
		h('span.peer', null, h('b', null, s.client || 'a client'), rev(s.client_rev)), wire(s), h('span.peer', null, rev(s.server_rev), h('b', null, s.server || 'the server')),
		h('span.facts', null, h('span', null, s.transport), h('span', null, plural(s.calls ?? 0, 'call')), h('span', null, `p95 ${millis(s.p95_ms ?? 0)} ms`), h(s.errors ? 'span.bad' : 'span', null, plural(s.errors ?? 0, 'error')),
			s.asking && h('span.warn', null, s.asking + ' asking'), s.open && h('span.busy', null, s.open + ' open')))),
	...(sessions.length > 2 ? [h('li', null, h('button.link', { click: all }, `and ${plural(sessions.length - 2, 'more session')}`))] : []));
}

/** @param {string} title @param {string} text @param {string} none @param {string[]} heads @param {any[][]} rows */
const table = (title, text, none, heads, rows) => [h('h2', null, title), h('p.note', null, text), rows.length ? h('div.wide', { tabindex: 0, role: 'region', 'aria-label': title }, h('table', null, h('caption.vh', null, title),
	h('thead', null, h('tr', null, heads.map((x) => h('th', { scope: 'col' }, x)))), h('tbody', null, rows.map((r) => h('tr', null, r.map((c, i) => (i ? h('td', null, c) : h('th', { scope: 'row' }, c)))))))) : h('p', null, none)];

/** @param {string} view @param {State} s @param {(q: string) => void} filter @param {(n: number) => void} open */
export function panel(view, s, filter, open) {
	const link = (text, f) => h('button.link', { click: f }, text), call = (n) => (n ? link('#' + n, () => open(n)) : '–'), print = (x) => code(x?.slice(0, 8) || '–');
	if (view === 'sessions') {
		return table('Sessions', 'Ids are fingerprints: they tell sessions apart, and grant no access.', 'No client has a session.', ['Client', 'Revisions', 'Server', 'Transport', 'Age', 'Calls', 'Open', 'Streams', 'Errors', 'p95 ms', 'Principal', 'Session'],
			(s.sessions ?? []).map((x) => [h('b', null, x.client), h('span.peer', null, rev(x.client_rev), wire(x), rev(x.server_rev)), h('b', null, x.server), x.transport, since(x.since), link(count(x.calls), () => filter('session:' + x.session)), count(x.open), count(x.streams), h(x.errors ? 'span.bad' : 'span', null, count(x.errors)), millis(x.p95_ms ?? 0), print(x.principal), print(x.session)]));
	}
	if (view === 'parked') {
		return table('Parked questions', 'A server asked something during a call. The call waits here until the client answers.', 'No server waits for an answer.', ['Question', 'Waiting', 'Ends at', 'Session', 'Call'],
			(s.parked ?? []).map((x) => [x.method, since(x.since), x.ends ? clock(x.ends) : '–', print(x.session), call(x.call)]));
	}
	if (view === 'replicas') {
		return table('Replicas', 'A request about a session or question of another replica is forwarded to that one.', 'This dragoman is the only one.', ['Address', 'State', 'Forwarded'],
			(s.replicas ?? []).map((x) => [code(x.address), x.reachable == null ? status('not asked yet', '') : x.reachable ? status('reachable', '', 'good') : status('not reachable', '', 'bad'), count(x.forwarded)]));
	}
	return table('Losses by rule', 'What the receiver’s revision has no form for, since dragoman started.', 'Nothing was lost.', ['Rule', 'What', 'Count', 'Why', 'Example'],
		(s.losses ?? []).map((x) => [link(x.rule, () => filter('rule:' + x.rule)), h('b', null, x.what), count(x.count), h('span.does', null, prose(x.does ?? s.rules?.find((r) => r.rule === x.rule)?.does)), call(x.example)]));
}

/** The first line of the page. @param {State} s @param {Hello} hello */
export const about = (s, hello) => [hello.version, hello.file ? 'recording ' + hello.file : hello.replica && 'replica ' + hello.replica, !hello.file && 'up ' + since(hello.started), ...(hello.file ? [] : [plural(s.connections ?? 0, 'connection'), plural(s.errors_per_min ?? 0, 'error') + '/min'])].filter(Boolean).map((x) => h('span', null, x));

/** What to do to see a call. @param {string} url */
export const empty = (url) => [h('h2', null, 'Waiting for the first call'), h('p.note', null, 'Point a client at dragoman, and each message appears here, as the client and as the server saw it.'),
	h('h3', null, 'In a client’s configuration'), h('pre', null, `{"mcpServers": {"dragoman": {"type": "http", "url": "${url}"}}}`),
	h('h3', null, 'Or from a terminal'), h('pre', null, `npx -y @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`)];

const KEYS = { 'j ↓': 'next call', 'k ↑': 'previous call', Enter: 'open the call', '1 2 3 4': 'request, response, timeline, headers', Esc: 'close', '/': 'filter', p: 'pause', e: 'export what the filter shows', t: 'theme', '?': 'this help' };

/** Keys and filters. */
export const help = () => [h('h2', null, 'Keys'), h('dl', null, Object.entries(KEYS).map(([k, v]) => [h('dt', null, k.split(' ').map((x) => h('kbd', null, x))), h('dd', null, v)])),
	h('h2', null, 'Filter'), h('p', null, 'Words with spaces between them, all of which must fit. Plain text is searched in method, tool and id.'), h('p', null, NAMES.map((n) => [code(n + ':'), ' '])),
	h('p', null, prose('`tool:list*` begins with, `-status:ok` is not, `ms:>500` is more, `rule:*` is any.')),
	h('p.note', null, 'Secrets are masked before they leave dragoman, as far as it can tell them. The bars of times are logarithmic.')];
