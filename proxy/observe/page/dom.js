
/** Characters that hide, reorder or end text; tabs are none. */
const HIDDEN = /(?!\t)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Text of a peer as it can be shown: short, with escapes for hidden characters. */
export function safe(text, max = 1000) {
	const s = String(text ?? '');
	return (s.length > max ? s.slice(0, max) + '…' : s).replace(HIDDEN, (c) => (c === '\n' ? '\\n' : '\\u' + c.codePointAt(0)?.toString(16).padStart(4, '0')));
}

/**
 * Makes an element: h('td.num', {title: '…'}, 'text', child). Properties that are functions are listeners; texts are text.
 * @returns {any}
 */
export function h(tag, ...kids) {
	const [name, ...classes] = tag.split('.'), e = document.createElement(name);
	if (classes.length) e.className = classes.join(' ');
	for (const [k, v] of kids[0]?.constructor === Object ? Object.entries(kids.shift()) : []) {
		if (typeof v === 'function') e.addEventListener(k, v);
		else if (v !== undefined) e.setAttribute(k, safe(v));
	}
	e.append(...kids.flat(3).filter((k) => k || k === 0).map((k) => (k instanceof Node ? k : safe(k))));
	return e;
}

/** Gives an element these children. What is there already stays, so that the browser lays out only what differs. */
export function fill(box, ...kids) {
	const to = box.cloneNode();
	to.append(...kids);
	turn(box, to);
}

/** Makes one node equal to another; listeners do not count. */
function turn(from, to) {
	if (from.isEqualNode(to)) return;
	if (from.nodeName !== to.nodeName) return from.replaceWith(to);
	if (from.nodeType === 3) from.data = to.data;
	for (const name of from.nodeType === 1 ? new Set([...from.getAttributeNames(), ...to.getAttributeNames()]) : []) {
		if (name === 'style') from.style.cssText = to.style.cssText; // the policy of the page refuses styles that are attributes
		else if (!to.hasAttribute(name)) from.removeAttribute(name);
		else if (from.getAttribute(name) !== to.getAttribute(name)) from.setAttribute(name, to.getAttribute(name));
	}
	const kids = [...to.childNodes];
	while (from.childNodes.length > kids.length) from.lastChild.remove();
	kids.forEach((kid, i) => (from.childNodes[i] ? turn(from.childNodes[i], kid) : from.append(kid)));
}

/** @returns {any} */
export const $ = (id) => document.getElementById(id);
/** @returns {any[]} */
export const $$ = (selector) => [...document.querySelectorAll(selector)];

/** 12,345. Intl takes 20 ms to begin. */
export const count = (n = 0) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
export const plural = (n = 0, one) => `${count(n)} ${one}${n === 1 ? '' : 's'}`;

export function bytes(n = 0) {
	let i = 0;
	for (; n >= 1000; n /= 1000) i++;
	return (i && n < 99.5 ? n.toFixed(1) : Math.round(n)) + '\u00a0' + ['B', 'kB', 'MB', 'GB'][i];
}

/** 0.1 ms, 278 ms, 2.6 s. @param {number} t in milliseconds */
export function time(t = 0) {
	const [n, unit] = t < 1000 ? [t, 'ms'] : t < 100_000 ? [t / 1000, 's'] : [t / 60_000, 'min'];
	return (n < 99.95 ? n.toFixed(1) : Math.round(n)) + '\u00a0' + unit;
}

/** How long ago, or how long until a time. */
export function since(at, until) {
	const s = at ? Math.max(0, (until ? Date.parse(until) : Date.now()) - Date.parse(at)) / 1000 : NaN, of = (n, unit) => Math.round(s / n) + unit;
	return isNaN(s) ? '–' : s < 60 ? of(1, ' s') : s < 3600 ? of(60, ' min') : s < 172_800 ? of(3600, ' h') : of(86_400, ' d');
}

/** The time of day here. */
export const clock = (at) => new Date(at).toTimeString().slice(0, 8);

/** Before and after, or one of them if they are equal. @param {Sizes | undefined} x @param {(n: number) => string} f */
export const change = (x, f) => (!x ? '–' : x.before === x.after ? f(x.after) : f(x.before) + ' → ' + f(x.after));

export const words = (text = '') => text.replaceAll('_', ' ');

/** Words of ours, in which `…` is code. */
export const prose = (text = '') => text.split('`').map((t, i) => (i % 2 ? h('code', t) : t));

/** @type {Record<string, string>} */
const COLOURS = { open: 'busy', asking: 'warn', ok: 'good', local: 'good', tool_error: 'warn', error: 'bad', refused: 'bad', failed: 'bad' };

/** What the words for statuses mean. @type {Record<string, string>} */
export const STATUSES = {
	open: 'no response yet', asking: 'waits for an answer of the client or its user', ok: 'the server has answered; of a notification: it was sent', local: 'dragoman has answered instead of the server',
	tool_error: 'the tool says that it has failed', error: 'the answer is an error', refused: 'dragoman did not send it to the server', failed: 'the server gave no answer',
	cancelled: 'cancelled before the answer', left: 'the client was gone before the answer',
};

/** Whether the call is a notification that was passed on, which has no answer. @param {Row} r */
export const isSent = (r) => r.status === 'ok' && !!r.method?.startsWith('notifications/');

/** What the status of a call means. @param {Row} r */
export const meaning = (r) => (isSent(r) ? 'sent: a notification has no answer' : STATUSES[r.status]);

/** A status as a word and a colour. */
export const status = (word, title = STATUSES[word], colour = COLOURS[word] ?? 'calm') => h('span.status.' + colour, { title }, words(word));

/** Whether it is the number of a rule, and not what else changes messages. */
const isRule = (rule) => /^[A-Z]\.?\d/.test(rule);

/** The name of a rule, or of what else changes messages, which says in words what that is: main.js listens. */
export const chip = (rule, props = {}) => h('button.chip' + (isRule(rule) ? '' : '.by'), { 'data-rule-words': rule, 'aria-haspopup': 'dialog', ...props }, words(rule));

/** The first rules, and how many more there are. */
export const chips = (rules, most = 4) => [rules.slice(0, rules.length > most ? most - 1 : most).map((r) => chip(r)), rules.length > most && h('span.chip.more', '+' + (rules.length - most + 1))];

/** @param {Times | undefined} ms */
export const total = (ms) => (ms ? ms.client + ms.proxy + ms.server : 0);

/** The times of client, proxy and server as parts of a bar, width % of its place. @param {Times | undefined} ms */
export function bar(ms, width) {
	const e = h('i.bar'), all = total(ms) || 1;
	const to = (t) => (100 * t) / all + '%';
	if (ms) e.style.background = `linear-gradient(90deg, var(--client) ${to(ms.client)}, var(--proxy) 0 ${to(ms.client + ms.proxy)}, var(--server) 0) 0 / ${width}% no-repeat`;
	return e;
}

/** Copies a text, or the promise of one. Browsers give a clipboard only to pages of this machine and of https. */
export async function copy(text, name) {
	const whole = await text, box = h('textarea');
	try {
		await navigator.clipboard.writeText(whole);
	} catch {
		box.value = whole;
		document.body.append(box);
		box.select();
		const done = document.execCommand('copy');
		box.remove();
		if (!done) return toast('this browser does not let the page copy: select the text instead');
	}
	toast(name + ' copied');
}

export function toast(text) {
	const e = h('p.toast', { role: 'status' }, text);
	document.body.append(e);
	setTimeout(() => e.remove(), 2500);
}
