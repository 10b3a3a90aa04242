import { STATUSES, chips, clock, count, h, plural, prose, since, status, time } from './dom.js';

const rev = (r) => h('code.rev', r || 'no revision yet');
const errors = (n = 0, text = count(n)) => h(n ? 'span.bad' : 'span', text);
/** A button that leads to a view, to the calls that fit a filter, or to a call: main.js listens to all of them. */
const link = (text, to) => h('button.link', to, text);

/** The line between client and server. @param {Session} s */
function wire(s, most = 4) {
	const rules = s.rules ?? [], same = !s.server_rev || (s.client_rev === s.server_rev && !rules.length);
	return h('span.wire' + (same ? '.same' : ''), { title: s.era === 'bridge' ? 'One side begins with initialize, and the other one does not know it: dragoman speaks for both' : undefined }, h('i.line'), h('span', !s.server_rev ? 'connecting' : s.era === 'bridge' ? 'bridged' : same ? 'same revision' : 'translated', chips(rules, most)), h('i.line.head'));
}

/** Who speaks with whom: the busiest two sessions, or one where there is little room. @param {Session[]} sessions */
export function story(sessions) {
	const first = sessions.toSorted((a, b) => +!!b.server_rev - +!!a.server_rev || (b.open ?? 0) - (a.open ?? 0) || b.calls - a.calls).slice(0, matchMedia('(max-width: 700px)').matches ? 1 : 2);
	return [...first.map((s) => h('li.route',
		h('span.peer', h('b', s.client || 'a client'), rev(s.client_rev)), wire(s), h('span.peer', rev(s.server_rev), h('b', s.server || 'the server')),
		h('span.facts', h('span', s.transport), h('span', plural(s.calls, 'call')), h('span', { title: P95 }, `p95 ${time(s.p95_ms)}`), errors(s.errors, plural(s.errors, 'error')),
			s.asking && h('span.warn', link(`${s.asking} waiting for a user`, { 'data-view': 'parked' })), s.open && h('span.busy', s.open + '\u00a0open')))),
	...(sessions.length > first.length ? [h('li', link(`and ${plural(sessions.length - first.length, 'more session')}`, { 'data-view': 'sessions' }))] : [])];
}

const call = (n) => (n ? link('#' + n, { 'data-n': n }) : '–'), print = (x) => h('code', x?.slice(0, 8) || '–');

const P95 = '95 of 100 calls took no longer';

/** What a call waits for, by the method of the question. @type {Record<string, string>} */
const WAITS = { 'elicitation/create': 'the user to answer a question', 'sampling/createMessage': 'the client’s model to write, which the user may have to allow', 'roots/list': 'the client to list its folders' };

/** How a session stands. @param {Session} s */
const life = (s) => (!s.ended ? status('live', '', 'good') : [h('span', 'ended ', clock(s.ended)), s.why && h('span.reason', s.why)]);

/** Title, subject, what stands for no rows, columns, rows. @type {Record<string, [string, string, string, string[], (s: State) => any[][]]>} */
const PANELS = {
	sessions: ['Sessions', `The last 100 that have ended while the page was open stay here. p95: ${P95}. Principal and session are fingerprints, which grant no access.`, 'No client has a session.',
		['Client', 'State', 'Lasts', 'Revisions', 'Server', 'Calls', 'Errors', 'p95', 'Open calls', 'Open streams', 'Transport', 'Principal', 'Session'],
		(s) => [...s.sessions, ...s.ended].map((x) => [x.client || 'a client', life(x), since(x.since, x.ended), h('span.peer', rev(x.client_rev), wire(x, 2), rev(x.server_rev)), h('b', x.server || 'the server'), x.session ? link(count(x.calls), { 'data-q': 'session:' + x.session }) : count(x.calls),
			errors(x.errors), x.p95_ms ? time(x.p95_ms) : '–', count(x.open), count(x.streams), x.transport, print(x.principal), print(x.session)])],
	parked: ['Waiting for users', 'The server, or dragoman itself, has asked something during a call. The call waits until the client answers, and the client may have to ask its user first.', 'No call waits for a user.',
		['Waits for', 'Where', 'How long', 'Until', 'Call', 'Server', 'Question'],
		(s) => s.parked.map((x) => [WAITS[x.method] ?? 'the client to answer', x.client || '–', since(x.since), x.ends ? clock(x.ends) : 'it is answered', [x.tool && h('b', x.tool, ' '), call(x.call)], x.server || '–', h('code', x.method)])],
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
export const about = (s, { version, file, replica, started }) => [version, ...(file ? ['recording ' + file] : [s.replicas.length > 0 && 'replica ' + replica, 'up ' + since(started), plural(s.errors_per_min, 'error') + '/min'])].filter(Boolean).map((x) => h('span', x));

/** A text that is meant to be pasted elsewhere. */
const paste = (title, text) => [h('h3', title), h('div.paste', h('pre', text), h('button', { 'data-copy': text, 'aria-label': 'Copy: ' + title }, 'Copy'))];

/**
 * What the page shows before the first call. url is where clients find dragoman: http, or a unix socket; without one, a client has started it.
 * @param {Partial<Hello>} hello
 */
export const empty = ({ url = '', file } = {}) => (file ? [h('h2', 'This recording has no calls')] : [h('h2', 'Waiting for the first call'),
	h('p.note', url ? 'Point a client at dragoman' : 'This dragoman serves the client that has started it, over stdio. Use that client', ', and each message appears here, as the client and as the server saw it.'),
	url && paste('In a client’s configuration', `{"mcpServers": {"dragoman": ${url.startsWith('http') ? `{"type": "http", "url": "${url}"}` : `{"command": "dragoman", "args": ["stdio", "${url}"]}`}}}`),
	url.startsWith('http') && paste('Or from a terminal', `npx -y @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`)].flat().filter(Boolean));

/** What a rule, or what else changes messages, does. @param {Words[]} list */
export const ruleWords = (rule, list) => [h('h2', rule.replaceAll('_', ' ')), h('ul', list.map((w) => h('li', w.what && [h('b', w.what), ' '], prose(w.does), w.since && h('span.note', ` (came with ${w.since})`)))),
	!list.length && h('p', 'dragoman has no words for it.'), h('p', link('Show the calls with it', { 'data-q': 'rule:' + rule }))].filter(Boolean);

const NAMES = 'method tool status rule client server session kind id dir ms tokens bytes';
const KEYS = { 'j ↓': 'next call', 'k ↑': 'previous call', Enter: 'open the call', '1 2 3 4': 'request, response, timeline, headers', Esc: 'close', '/': 'filter', p: 'pause', e: 'export what the filter shows', t: 'theme', '?': 'this help' };

export const help = () => [h('h2', 'Keys'), h('dl', Object.entries(KEYS).map(([k, v]) => [h('dt', k.split(' ').map((x) => h('kbd', x))), h('dd', v)])),
	h('h2', 'Statuses'), h('dl', Object.keys(STATUSES).map((k) => [h('dt', status(k)), h('dd', STATUSES[k])])),
	h('h2', 'Filter'), h('p', 'Words with spaces between them, all of which must fit. A plain word is looked for in method, tool, URI, id and messages.'), h('p', NAMES.split(' ').map((n) => [h('code', n + ':'), ' '])),
	h('p', prose('`tool:list*`: the tool begins with list. `-status:ok`: the status is not ok. `ms:>500`: longer than 500 ms. `bytes:>1000`: more than 1 kB. `rule:*`: any rule.')),
	h('p.note', 'Times are those that dragoman waited for the client, worked itself, and waited for the server; their bars are logarithmic. Sizes and tokens are those from the server → to the client. A rule, such as C01, says what it does when it is clicked. Secrets are masked before they leave dragoman, as far as it can tell them.')];
