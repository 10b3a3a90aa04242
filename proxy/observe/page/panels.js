import { chips, clock, count, h, millis, plural, prose, since, status } from './dom.js';

const rev = (r) => h('code.rev', r || 'no revision yet');
const errors = (n = 0, text = count(n)) => h(n ? 'span.bad' : 'span', text);
/** A button that leads to a view, to the calls that fit a filter, or to a call: main.js listens to all of them. */
const link = (text, to) => h('button.link', to, text);

/** The line between client and server. @param {Session} s */
function wire(s) {
	const rules = s.rules ?? [], same = !s.server_rev || (s.client_rev === s.server_rev && !rules.length);
	return h('span.wire' + (same ? '.same' : ''), h('i.line'), h('span', !s.server_rev ? 'connecting' : s.era === 'bridge' ? 'bridged' : same ? 'same revision' : 'translated', chips(rules)), h('i.line.head'));
}

/** Who speaks with whom: the busiest two sessions. @param {Session[]} sessions */
export function story(sessions) {
	const first = sessions.toSorted((a, b) => +!!b.server_rev - +!!a.server_rev || (b.open ?? 0) - (a.open ?? 0) || b.calls - a.calls).slice(0, 2);
	return [...first.map((s) => h('li.route',
		h('span.peer', h('b', s.client || 'a client'), rev(s.client_rev)), wire(s), h('span.peer', rev(s.server_rev), h('b', s.server || 'the server')),
		h('span.facts', h('span', s.transport), h('span', plural(s.calls, 'call')), h('span', `p95 ${millis(s.p95_ms)} ms`), errors(s.errors, plural(s.errors, 'error')),
			s.asking && h('span.warn', s.asking + '\u00a0asking'), s.open && h('span.busy', s.open + '\u00a0open')))),
	...(sessions.length > 2 ? [h('li', link(`and ${plural(sessions.length - 2, 'more session')}`, { 'data-view': 'sessions' }))] : [])];
}

const call = (n) => (n ? link('#' + n, { 'data-n': n }) : '–'), print = (x) => h('code', x?.slice(0, 8) || '–');

/** Title, subject, what stands for no rows, columns, rows. @type {Record<string, [string, string, string, string[], (s: State) => any[][]]>} */
const PANELS = {
	sessions: ['Sessions', 'Ids are fingerprints: they tell sessions apart, and grant no access.', 'No client has a session.',
		['Client', 'Revisions', 'Server', 'Transport', 'Age', 'Calls', 'Open', 'Streams', 'Errors', 'p95 ms', 'Principal', 'Session'],
		(s) => s.sessions.map((x) => [x.client, h('span.peer', rev(x.client_rev), wire(x), rev(x.server_rev)), h('b', x.server), x.transport, since(x.since), link(count(x.calls), { 'data-q': 'session:' + x.session }),
			count(x.open), count(x.streams), errors(x.errors), millis(x.p95_ms), print(x.principal), print(x.session)])],
	parked: ['Parked questions', 'A server asked something during a call. The call waits here until the client answers.', 'No server waits for an answer.',
		['Question', 'Waiting', 'Ends at', 'Session', 'Call'],
		(s) => s.parked.map((x) => [x.method, since(x.since), x.ends ? clock(x.ends) : '–', print(x.session), call(x.call)])],
	replicas: ['Replicas', 'A request about a session or question of another replica is forwarded to that one.', 'This dragoman is the only one.',
		['Address', 'State', 'Forwarded'],
		(s) => s.replicas.map((x) => [h('code', x.address), x.reachable == null ? status('not asked yet') : x.reachable ? status('reachable', '', 'good') : status('not reachable', '', 'bad'), count(x.forwarded)])],
	losses: ['Lost and changed', 'The receiver misses only what is lost.', 'Nothing was changed.',
		['Rule', 'What', 'Lost', 'Changed', 'Why', 'Example'],
		(s) => s.losses.map((x) => [link(x.rule, { 'data-q': 'rule:' + x.rule }), h('b', x.what), count(x.count), count(x.changed), h('span.does', prose(x.does)), call(x.example)])],
};

/** What a view besides that of the calls shows. @param {State} state */
export function panel(view, state) {
	const [title, text, none, heads, list] = PANELS[view] ?? PANELS.sessions, rows = list(state);
	return [h('h2', title), h('p.note', text), !rows.length ? h('p', none) : h('div.wide', { tabindex: 0, role: 'region', 'aria-label': title }, h('table', h('caption.vh', title),
		h('thead', h('tr', heads.map((x) => h('th', { scope: 'col' }, x)))), h('tbody', rows.map((r) => h('tr', r.map((c, i) => (i ? h('td', c) : h('th', { scope: 'row' }, c))))))))];
}

/** The first line of the page. @param {State} s @param {Hello} hello */
export const about = (s, { version, file, replica, started }) => [version, ...(file ? ['recording ' + file] : [replica && 'replica ' + replica, 'up ' + since(started), plural(s.connections, 'connection'), plural(s.errors_per_min, 'error') + '/min'])].filter(Boolean).map((x) => h('span', x));

export const empty = (url) => [h('h2', 'Waiting for the first call'), h('p.note', 'Point a client at dragoman, and each message appears here, as the client and as the server saw it.'),
	h('h3', 'In a client’s configuration'), h('pre', `{"mcpServers": {"dragoman": {"type": "http", "url": "${url}"}}}`),
	h('h3', 'Or from a terminal'), h('pre', `npx -y @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`)];

const NAMES = 'method tool status rule client server session kind id dir ms tokens bytes';
const KEYS = { 'j ↓': 'next call', 'k ↑': 'previous call', Enter: 'open the call', '1 2 3 4': 'request, response, timeline, headers', Esc: 'close', '/': 'filter', p: 'pause', e: 'export what the filter shows', t: 'theme', '?': 'this help' };

export const help = () => [h('h2', 'Keys'), h('dl', Object.entries(KEYS).map(([k, v]) => [h('dt', k.split(' ').map((x) => h('kbd', x))), h('dd', v)])),
	h('h2', 'Filter'), h('p', 'Words with spaces between them, all of which must fit. A plain word is looked for in method, tool, id and messages.'), h('p', NAMES.split(' ').map((n) => [h('code', n + ':'), ' '])),
	h('p', prose('`tool:list*` begins with, `-status:ok` is not, `ms:>500` is more, `rule:*` is any.')),
	h('p.note', 'Secrets are masked before they leave dragoman, as far as it can tell them. The bars of times are logarithmic.')];
