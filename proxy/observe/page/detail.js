// @ts-check
/** @import { Call, Change, Message, Row } from './types.d.ts' */
import { $, bar, bytes, change, chip, clock, count, h, isRule, millis, plural, prose, safe, status, toast, total } from './dom.js';
import { getJSON } from './feed.js';
import { alone, compare, editsOf, LARGE, reasons, show } from './lines.js';

export const TABS = ['Request', 'Response', 'Timeline', 'Headers'];
const note = (...kids) => h('p.note', null, kids);

/** The pane with one call: what both sides said, and why it differs. */
export class Detail {
	/** The number of the call; 0 if the pane is closed. */
	n = 0;
	tab = 'Response';
	#asked = new AbortController();

	/** @param {() => void} closed */
	constructor(closed) {
		this.closed = closed;
	}

	/** Shows call n, or what has become of it. @param {number} n */
	async open(n) {
		this.n = n;
		this.#asked.abort();
		const { signal } = (this.#asked = new AbortController()), box = $('detail');
		box.hidden = false;
		document.body.classList.add('opened');
		try {
			this.call = await getJSON('calls/' + n, signal);
			this.#draw();
		} catch (e) {
			if (signal.aborted) return;
			box.replaceChildren(h('header', null, h('h2', null, 'Call ' + n), this.#close()),
				note(e.status === 404 ? 'dragoman no longer has this call: it keeps the newest 10,000, and at most 16 MiB.' : `This call cannot be shown: ${e.message}`));
		}
	}

	close() {
		if (!this.n) return;
		this.n = 0;
		this.#asked.abort();
		$('detail').hidden = true;
		document.body.classList.remove('opened');
		this.closed();
	}

	#close() {
		return h('button.close', { 'aria-label': 'Close', title: 'Close (Esc)', click: () => this.close() }, '✕');
	}

	#draw() {
		const c = this.call, /** @type {Row} */ r = c.row;
		const copy = (name, text) => text && h('button', { click: () => copyText(text, name) }, 'Copy ' + name);
		const focused = $('detail').contains(document.activeElement) && document.activeElement?.id;
		const body = h('div', { id: 'body', role: 'tabpanel', tabindex: 0, 'aria-labelledby': 'tab-' + this.tab });
		$('detail').replaceChildren(
			h('header', null, h('h2', null, r.method || r.kind, r.tool && [' ', h('b', null, r.tool)], h('small', null, ' #' + r.n)), status(r.status), this.#close()),
			h('p.note.facts', null, [clock(r.at, true), `${r.client ?? 'client'} → ${r.server ?? 'server'}`, r.bytes && change(r.bytes, bytes) + ' bytes', r.tokens && change(r.tokens, count) + ' tokens', r.code && 'code ' + r.code].filter(Boolean).map((x) => h('span', null, x))),
			r.ms ? h('div.times', null, h('b', null, millis(total(r.ms)) + ' ms'), bar(r.ms, 100), Object.entries(r.ms).map(([who, t]) => h('span', null, h('i.' + who), who, ' ', h('b', null, millis(t))))) : '',
			r.error ? h('p.bad', null, r.cause && r.cause + ': ', r.error) : '',
			h('div.tools', null, h('div.tabs', { role: 'tablist', 'aria-label': 'Parts of the call' }, TABS.map((t) => h('button', {
				role: 'tab', id: 'tab-' + t, 'aria-selected': String(t === this.tab), 'aria-controls': 'body', tabindex: t === this.tab ? 0 : -1, click: () => this.show(t), keydown: (e) => this.#turn(e),
			}, t))), h('div.copy', null, copy('curl', c.curl), copy('golden case', c.golden), copy('JSON', JSON.stringify(c, null, 2)))), body);
		const first = c.messages?.[0], answer = c.messages?.findLast((m) => m.kind === 'response' && m.direction !== first.direction);
		if (this.tab === 'Timeline') body.append(timeline(c));
		else if (this.tab === 'Headers') body.append(...headers(c));
		else if (this.tab === 'Request' || answer) body.append(...exchange(c, this.tab === 'Request' ? first : answer));
		else body.append(note(r.status === 'open' || r.status === 'asking' ? 'There is no response yet.' : 'There is no response.'));
		if (focused) $(focused)?.focus();
	}

	/** @param {KeyboardEvent} e */
	#turn(e) {
		const by = { ArrowRight: 1, ArrowLeft: 3 }[e.key];
		if (by) this.show(TABS[(TABS.indexOf(this.tab) + by) % 4]);
		if (by) $('tab-' + this.tab).focus();
	}

	/** @param {string} tab */
	show(tab) {
		this.tab = tab;
		this.#draw();
	}
}

/** @param {string} text @param {string} name */
async function copyText(text, name) {
	try {
		await navigator.clipboard.writeText(text);
		toast(name + ' copied');
	} catch {
		toast('the browser gives pages that came by http: from another machine no clipboard');
	}
}

/** Who sent a message, or who got it. @param {Call} c @param {Message} m @param {string} word */
function party(c, m, word) {
	const client = m.edge === 'client', rev = m.rev ?? (client ? c.row.client_rev : c.row.server_rev);
	return h('div', null, `${word} the `, h('b', null, m.edge), h('span', null, client ? c.row.client : c.row.server), h('code.rev', null, rev), h('span.note', null, bytes(m.size ?? 0)));
}

/** @type {Record<string, string>} what became of a message that did not go on */
const VERDICTS = { drop: ': the receiver has no form for it.', answer: ': it answered on behalf of the receiver.', local: ': it answered from what it knows.' };

/** A message as it came in and as it went on. @param {Call} c @param {Message | undefined} m */
function exchange(c, m) {
	if (!m) return [note('dragoman no longer has this message.')];
	const other = c.messages?.find((x) => x.seq === m.pair), [a, b] = other && other.seq < m.seq ? [other, m] : [m, other];
	const came = (a.edge === 'client') === (a.direction === 'client-to-server');
	const ends = h('div.two', null, party(c, a, came ? 'from' : 'to'), b && party(c, b, 'to')), changes = a.changes ?? b?.changes ?? [];
	const answer = a.kind === 'response' && a.direction !== c.messages?.[0].direction;
	if (!b || a.same || b.same) {
		return [ends, note(b ? 'Passed on unchanged, byte for byte.' : came ? 'dragoman did not pass this on' + (VERDICTS[a.verdict ?? ''] ?? ': it answered or used it.') : 'dragoman wrote this itself.', a.failure && h('b.bad', null, ' It could not be translated: ' + a.failure)), ...why(c, changes, answer), whole(a.payload === undefined && b ? b : a)];
	}
	const size = (a.size ?? 0) + (b.size ?? 0), cut = a.cut ? a : b;
	if (a.payload === undefined || b.payload === undefined) {
		return [ends, note(cut.cut ? `Too long to keep: only the beginning is here, so the two are not compared. SHA-256 ${cut.sha256}` : 'One side is not JSON, so the two are not compared.'), ...why(c, changes, answer), h('div.two', null, whole(a), whole(b))];
	}
	const lines = compare(a.payload, b.payload, size), edits = editsOf(lines), because = reasons([...changes, ...(c.notes ?? []).map((n) => ({ rule: n.by, what: n.what ?? '', change: '', before: n.path, after: n.path, does: n.detail }))]), bad = edits.filter((e) => !because(e).length).length;
	return [ends, note(edits.length ? [plural(edits.length, 'difference'), ', ', bad ? h('b.bad', null, count(bad) + ' without an explanation: please report this as a defect') : 'each explained'] : 'The same content in other bytes', a.more_changes && `, ${count(a.more_changes)} more changes`, size > LARGE && '. Over 2 MB: only members are compared, each as a whole', '.'),
		...why(c, changes, answer), show(lines, (e) => marks(because(e)))];
}

/** The codes beside an edit. @param {Change[]} changes */
function marks(changes) {
	if (!changes.length) return [chip('unexplained', 'bad')];
	return [...new Map(changes.map((x) => [x.rule, x.does]))].slice(0, 3).map(([rule, does]) => h('button.chip' + (isRule(rule) ? '' : '.by'), {
		title: does, click: () => {
			const to = $('body').querySelector(`[data-rule="${CSS.escape(rule)}"]`);
			to?.scrollIntoView({ block: 'center' });
			to?.focus();
		},
	}, rule.replaceAll('_', ' ')));
}

/** What was changed and what was lost, by rule, in words. @param {Call} c @param {Change[]} changes @param {boolean} answer */
function why(c, changes, answer) {
	const groups = Map.groupBy(changes, (x) => x.rule + ' ' + x.what);
	const item = (rule, what, n, ...does) => h('li', { 'data-rule': rule, tabindex: -1 }, chip(rule), h('b', null, what?.replaceAll('_', ' ')), h('span.note', null, n), h('span.note', null, does));
	const items = [...groups.keys()].sort().map((k) => [groups.get(k) ?? []]).map(([g]) => item(g[0].rule, g[0].what, '×' + count(g.length), ...prose(g[0].does)));
	items.push(...(c.notes ?? []).filter((n) => !n.path?.startsWith('params') === answer).map((n) => item(n.by, n.what, '', n.detail, ' ', n.path && h('code', null, n.path))));
	const lost = (answer && c.row.losses) || [];
	return [items.length ? h('ul.why-list', { 'aria-label': 'What was changed and why' }, items) : '', lost.length ? h('p.lost', null, h('b', null, 'Lost: '), lost.map((l) => h('span', null, chip(l.rule), `${l.what} ×${l.count}`))) : ''];
}

/** @param {Message} m */
const whole = (m) => (m.payload !== undefined ? alone(m.payload) : h('pre', null, (m.text ?? '').split('\n').flatMap((t) => [document.createTextNode(safe(t, 70_000)), h('br')])));

/** @param {Call} c */
function headers(c) {
	const some = (c.messages ?? []).filter((m) => Object.keys(m.headers ?? {}).length);
	if (!some.length) return [note('No headers: a pipe has none, and over HTTP only those are kept that hold no secrets.')];
	return some.flatMap((m) => [h('h3', null, `${m.direction.replaceAll('-', ' ')}, at the ${m.edge}`), h('dl', null, Object.entries(m.headers ?? {}).map(([k, v]) => [h('dt', null, k), h('dd', null, v)]))]);
}

/** Every message of a call on two lanes, in order. @param {Call} c */
function timeline(c) {
	const at = (t) => h('span.at', null, '+' + millis(Math.max(0, Date.parse(t) - Date.parse(c.row.at))));
	const steps = [
		...(c.messages ?? []).map((m) => ({ at: m.at, seq: m.seq, e: arrow(c, m, at(m.at)) })),
		...(c.notes ?? []).map((n) => ({ at: n.at, seq: Infinity, e: h('div.step', null, at(n.at), h('span.noted', null, chip(n.by), n.what?.replaceAll('_', ' '), ' ', n.path && h('code', null, n.path))) })),
	].sort((x, y) => Date.parse(x.at) - Date.parse(y.at) || x.seq - y.seq);
	return h('div', null, h('div.step.top', null, h('span.at', null, 'ms'), [c.row.client ?? 'client', 'dragoman', c.row.server ?? 'server'].map((x) => h('b', null, x))), steps.map((s) => s.e));
}

/** @param {Call} c @param {Message} m @param {HTMLElement} at */
function arrow(c, m, at) {
	const right = m.direction === 'client-to-server', to = m.edge === 'client' ? (right ? 'dragoman' : 'the client') : right ? 'the server' : 'dragoman';
	const step = h('div.step', null, at, h(`button.arrow.${m.edge}.${right ? 'right' : 'left'}.${m.kind}`, {
		'aria-expanded': 'false', title: 'Show the message', click: ({ currentTarget: b }) => {
			if (b.ariaExpanded === 'true') step.lastChild.remove();
			else step.append(h('div.inside', null, exchange(c, m)));
			b.ariaExpanded = String(b.ariaExpanded !== 'true');
		},
	}, h('span', null, m.kind === 'response' ? 'response' : m.method || m.kind), h('small', null, bytes(m.size ?? 0)), h('span.vh', null, ' to ' + to)));
	return step;
}
