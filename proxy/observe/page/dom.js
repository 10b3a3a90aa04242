// @ts-check

/** Characters that hide, reorder or end text; tabs are none. */
const HIDDEN = /(?!\t)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Makes text of a peer fit to be shown: short, with escapes for hidden characters. @param {unknown} text */
export function safe(text, max = 300) {
	const s = String(text ?? '');
	return (s.length > max ? s.slice(0, max) + '…' : s).replace(HIDDEN, (c) => (c === '\n' ? '\\n' : '\\u' + c.codePointAt(0)?.toString(16).padStart(4, '0')));
}

/**
 * Makes an element: h('td.num', {title: '…'}, 'text', child). Properties that are functions are listeners; texts are text.
 * @param {string} tag @param {Record<string, any> | null} [props] @param {...any} kids @returns {any}
 */
export function h(tag, props, ...kids) {
	const [name, ...classes] = tag.split('.');
	const e = document.createElement(name);
	if (classes.length) e.className = classes.join(' ');
	for (const [k, v] of Object.entries(props ?? {})) {
		if (typeof v === 'function') e.addEventListener(k, v);
		else if (v !== undefined && v !== false) e.setAttribute(k, v === true ? '' : safe(v, 1000));
	}
	e.append(...kids.flat(3).filter((k) => k || k === 0).map((k) => (k instanceof Node ? k : safe(k, 1000))));
	return e;
}

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);
/** @param {string} selector @returns {any[]} */
export const $$ = (selector) => [...document.querySelectorAll(selector)];

const numbers = new Intl.NumberFormat('en');
export const count = (n = 0) => numbers.format(n);
/** @param {number} n @param {string} one */
export const plural = (n, one) => `${count(n)} ${one}${n === 1 ? '' : 's'}`;

/** @param {number} b */
export function bytes(b) {
	for (const unit of ['', ' K', ' M']) {
		if (b < 1000) return (unit && b < 99.5 ? b.toFixed(1) : Math.round(b)) + unit;
		b /= 1000;
	}
	return b.toFixed(1) + ' G';
}

/** @param {number} t milliseconds */
export const millis = (t) => (t < 100 ? t.toFixed(1) : count(Math.round(t)));

/** @param {number} s seconds */
export const age = (s) => (s < 60 ? Math.max(0, Math.round(s)) + ' s' : s < 3600 ? Math.round(s / 60) + ' min' : s < 172_800 ? Math.round(s / 3600) + ' h' : Math.round(s / 86_400) + ' d');

/** The time of day here. @param {string} at @param {boolean} [fine] with milliseconds */
export function clock(at, fine) {
	const d = new Date(at), t = d.toTimeString().slice(0, 8);
	return fine ? `${t}.${String(d.getMilliseconds()).padStart(3, '0')}` : t;
}

/** Before and after, or one of them if they are equal. @param {import('./types.d.ts').Sizes | undefined} x @param {(n: number) => string} f */
export const change = (x, f) => (!x ? '–' : x.before === x.after ? f(x.after) : f(x.before) + ' → ' + f(x.after));

/** Words of ours, in which `…` is code. */
export const prose = (text = '') => text.split('`').map((t, i) => (i % 2 ? h('code', null, t) : t));

/** @type {Record<string, string>} */
const COLOURS = { open: 'busy', asking: 'warn', ok: 'good', local: 'good', tool_error: 'warn', error: 'bad', refused: 'bad', failed: 'bad' };

/** A status as a word and a colour. @param {string} word @param {string} [title] */
export const status = (word, title, colour = COLOURS[word] ?? 'calm') => h('span.status.' + colour, { title }, word.replaceAll('_', ' '));

/** Whether it is the number of a rule, and not what else changes messages. @param {string} rule */
export const isRule = (rule) => /^[A-Z]\.?\d/.test(rule);

/** @param {string} rule @param {string} [kind] */
export const chip = (rule, kind = isRule(rule) ? 'rule' : 'by') => h('span.chip.' + kind, null, rule.replaceAll('_', ' '));

/** @param {import('./types.d.ts').Times | undefined} ms */
export const total = (ms) => (ms ? ms.client + ms.proxy + ms.server : 0);

/** The times of client, proxy and server as parts of a bar, width % of its place. @param {import('./types.d.ts').Times | undefined} ms @param {number} width */
export function bar(ms, width) {
	const e = h('span.bar', null, ['client', 'proxy', 'server'].map((who) => {
		const part = h('i.' + who);
		part.style.flexGrow = ms ? /** @type {any} */ (ms)[who] / (total(ms) || 1) : 0;
		return part;
	}));
	e.style.width = width + '%';
	return h('span.track', null, e);
}

/** Says something at the foot of the page for a moment. @param {string} text */
export function toast(text) {
	const e = h('p.toast', { role: 'status' }, text);
	document.body.append(e);
	setTimeout(() => e.remove(), 2500);
}
