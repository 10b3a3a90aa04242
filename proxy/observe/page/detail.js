import { $, bar, bytes, change, chip, clock, copy, count, h, isSent, meaning, plural, prose, safe, status, time, total, words } from './dom.js';
import { get, getJSON } from './feed.js';
import { show } from './lines.js';

export const TABS = ['Request', 'Response', 'Timeline', 'Headers'];
const note = (...kids) => h('p.note', kids);

/** The pane with one call: what both sides said, and why it differs. */
export class Detail {
	/** The number of the call; 0 if the pane is closed. */
	n = 0;
	tab = 'Response';
	#asked = new AbortController();
	#shown = '';

	constructor(closed) {
		this.closed = closed;
	}

	async open(n) {
		this.n = n;
		this.#asked.abort();
		const { signal } = (this.#asked = new AbortController());
		$('detail').hidden = false;
		document.body.classList.add('opened');
		try {
			const c = (this.call = await getJSON('calls/' + n, signal)), shown = [n, c.row.status, c.messages.length, c.notes?.length].join();
			if (shown !== this.#shown) this.#draw();
			this.#shown = shown;
		} catch (e) {
			if (signal.aborted) return;
			this.#shown = '';
			$('detail').replaceChildren(this.#head('Call ' + n), note(e.status === 404 ? 'dragoman no longer has this call: it keeps the newest 10,000, and at most 5 MiB.' : `This call cannot be shown: ${e.message}`));
		}
	}

	close() {
		if (!this.n) return;
		this.n = 0;
		this.#asked.abort();
		this.#shown = '';
		$('detail').hidden = true;
		$('detail').replaceChildren();
		document.body.classList.remove('opened');
		this.closed();
	}

	#head(title, state) {
		return h('header', h('h2', title), state, h('button.close', { 'aria-label': 'Close', title: 'Close (Esc)', click: () => this.close() }, '✕'));
	}

	#draw() {
		const c = this.call, /** @type {Row} */ r = c.row, box = $('detail');
		const button = (name, title, text) => h('button', { title, click: () => copy(text(), name) }, 'Copy ' + name);
		const focused = box.contains(document.activeElement) && document.activeElement?.id;
		const first = c.messages[0], answer = c.messages.findLast((m) => m.kind === 'response' && m.direction !== first?.direction);
		const tabs = TABS.filter((t) => t !== 'Response' || answer || !isSent(r)), tab = tabs.includes(this.tab) ? this.tab : 'Request';
		box.replaceChildren(...[
			this.#head([r.method || r.kind, (r.tool || r.subject) && [' ', h('b', r.tool || r.subject)], h('small', ' #' + r.n)], status(r.status, meaning(r))),
			h('p.note.facts', [clock(r.at) + r.at.slice(19, 23), (r.status !== 'ok' || isSent(r)) && meaning(r), `${r.client ?? 'client'} → ${r.server ?? 'server'}`, r.bytes && change(r.bytes, bytes), r.tokens && change(r.tokens, count) + ' tokens', r.code && 'code ' + r.code].filter(Boolean).map((x) => h('span', x))),
			r.ms && h('div.times', h('b', time(total(r.ms))), bar(r.ms, 100), Object.entries(r.ms).map(([who, t]) => h('span', h('i.' + who), who, ' ', h('b', time(t))))),
			r.error && h('p.bad', r.cause && r.cause + ': ', r.error),
			h('div.tools', h('div.tabs', tabs.map((t) => h('button', { id: 'tab-' + t, 'aria-pressed': t === tab, click: () => this.show(t) }, t))),
				h('div.copy', c.curl && button('curl', 'A command that sends the request again', () => c.curl), c.golden && button('golden case', 'A test of dragoman’s translation, for a report of a defect', () => c.golden), button('JSON', 'All that is here, without secrets', async () => (await get('calls/' + r.n)).text()))),
			h('div', { id: 'body', role: 'region', tabindex: 0, 'aria-label': tab },
				tab === 'Timeline' ? timeline(c) : tab === 'Headers' ? headers(c) : tab === 'Request' ? exchange(c, first) : answer || c.short ? exchange(c, answer) : note(r.status === 'open' || r.status === 'asking' ? 'There is no response yet.' : 'There is no response.')),
		].filter((e) => e instanceof Node));
		if (focused) $(focused)?.focus();
	}

	show(tab) {
		this.tab = tab;
		this.#draw();
	}
}

/** Who sent a message, or who got it. @param {Call} c @param {Message} m */
function party({ row }, m, word) {
	const [name, rev] = m.edge === 'client' ? [row.client, row.client_rev] : [row.server, row.server_rev];
	return h('div', `${word} the `, h('b', m.edge), h('span', name), h('code.rev', m.rev ?? rev), h('span.note', bytes(m.size)));
}

/** @type {Record<string, string>} what became of a message that did not go on */
const VERDICTS = { drop: ': the receiver has no form for it.', answer: ': it answered on behalf of the receiver.', local: ': it answered from what it knows.' };

/** A message as it came in and as it went on. @param {Call} c @param {Message | undefined} m */
function exchange(c, m) {
	if (!m) return note('Not kept' + (c.short ? ': too many calls at once.' : '.'));
	const other = c.messages.find((x) => x.seq === m.pair), [a, b] = other && other.seq < m.seq ? [other, m] : [m, other];
	const came = (a.edge === 'client') === (a.direction === 'client-to-server'), answer = a.kind === 'response' && a.direction !== c.messages[0].direction;
	const changes = a.changes ?? b?.changes ?? [], same = !b || !!(a.same || b.same), cut = [a, b].find((x) => x?.cut), texts = [a, b].filter((x) => x?.text);
	const says = note(same ? (b ? 'Passed on unchanged, byte for byte.' : came ? 'dragoman did not pass this on' + (VERDICTS[a.verdict ?? ''] ?? ': it answered or used it.') : 'dragoman wrote this itself.')
		: cut ? `Too long, or too much at once, to keep: only the beginning is here. SHA-256 ${cut.sha256 ?? 'unknown'}` : texts.length > 0 && 'One side is not JSON, so the two are not compared.',
		a.failure && h('b.bad', ' It could not be translated: ' + a.failure));
	const shows = h('div', texts.map((x) => h('pre', (x?.text ?? '').split('\n').map((t) => [document.createTextNode(safe(t, 70_000)), h('br')]))));
	if (!texts.length) compare(c, m, changes, says, shows, same);
	return [h('div.two', party(c, a, came ? 'from' : 'to'), b && party(c, b, 'to')), says, why(c, changes, answer), shows];
}

/** What dragoman was asked for, by path. @type {Map<string, Promise<Comparison>>} */
const asked = new Map();

/** Shows a message beside what became of it. @param {Call} c @param {Message} m @param {Change[]} changes */
async function compare(c, m, changes, says, shows, same) {
	const path = `calls/${c.row.n}/${m.seq}?pair=${m.pair ?? ''}`;
	if (asked.size > 20) asked.clear();
	const answer = asked.get(path) ?? getJSON(path);
	asked.set(path, answer);
	try {
		const { more, differences, unexplained } = await answer;
		if (!same) says.append(differences ? plural(differences, 'difference') + ', ' : 'The same content in other bytes', unexplained ? h('b.bad', count(unexplained) + ' without an explanation: please report this as a defect') : differences ? 'each explained' : '', '.');
		shows.append(show(await answer, (rule) => changes.find((x) => x.rule === rule)?.does ?? ''), more ? note(plural(more, 'further line')) : '');
	} catch (e) {
		asked.delete(path);
		says.append('It cannot be shown: ' + e.message);
	}
}

/** What was changed and what was lost, by rule, in words. @param {Call} c @param {Change[]} changes */
function why(c, changes, answer) {
	const item = (rule, what, n, ...does) => h('li', { 'data-rule': rule, tabindex: -1 }, chip(rule), h('b', words(what)), h('span.note', n), h('span.note', does));
	const items = [...Map.groupBy(changes, (x) => x.rule + ' ' + x.what)].sort(([x], [y]) => (x < y ? -1 : 1)).map(([, g]) => item(g[0].rule, g[0].what, '×' + count(g.length), prose(g[0].does)));
	items.push(...(c.notes ?? []).filter((n) => !n.path?.startsWith('params') === answer && !changes.some((x) => x.rule === n.by && x.what === n.what)).map((n) => item(n.by, n.what, '', n.detail, ' ', n.path && h('code', n.path))));
	const lost = (answer && c.row.losses) || [];
	return [items.length > 0 && h('ul.why-list', { 'aria-label': 'What was changed and why' }, items), lost.length > 0 && h('p.lost', h('b', 'Lost: '), lost.map((l) => h('span', chip(l.rule), `${l.what} ×${l.count}`)))];
}

/** @param {Call} c */
function headers(c) {
	const some = c.messages.filter((m) => Object.keys(m.headers ?? {}).length);
	if (!some.length) return note('No headers: only those of a client’s requests over HTTP are kept.');
	return some.map((m) => [h('h3', `${m.direction.replaceAll('-', ' ')}, at the ${m.edge}`), h('dl', Object.entries(m.headers ?? {}).map(([k, v]) => [h('dt', k), h('dd', v)]))]);
}

/** Messages and notes in order, on two lanes. @param {Call} c */
function timeline(c) {
	const steps = [...c.messages, ...(c.notes ?? [])].map((of) => ({ of, ms: Math.max(0, of.ms) })).sort((x, y) => x.ms - y.ms);
	return [h('div.step.top', h('span.at'), [c.row.client ?? 'client', 'dragoman', c.row.server ?? 'server'].map((x) => h('b', x))),
		steps.map(({ of, ms }) => h('div.step', h('span.at', '+' + (ms < 1 ? ms.toFixed(2) + '\u00a0ms' : time(ms))), 'by' in of ? h('span.noted', chip(of.by), words(of.what), ' ', of.path && h('code', of.path)) : arrow(c, of)))];
}

/** A message on its way from lane to lane, which opens below. @param {Call} c @param {Message} m */
function arrow(c, m) {
	const right = m.direction === 'client-to-server', to = right === (m.edge === 'client') ? 'dragoman' : 'the ' + m.edge;
	return h(`button.arrow.${m.edge}.${right ? 'right' : 'left'}.${m.kind}`, {
		'aria-expanded': false, title: 'Show the message', click: ({ currentTarget: b }) => {
			const open = b.ariaExpanded === 'true';
			if (open) b.parentNode.lastChild.remove();
			else b.parentNode.append(h('div.inside', exchange(c, m)));
			b.ariaExpanded = String(!open);
		},
	}, h('span', m.kind === 'response' ? 'response' : m.method || m.kind), h('small', bytes(m.size)), h('span.vh', ' to ' + to));
}
