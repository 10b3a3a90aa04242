// @ts-check
/** @import { Row, Session } from './types.d.ts' */
import { total } from './dom.js';

/** So many rows are kept, as in dragoman. */
const KEEP = 10_000;

/** The names that a filter knows. */
export const NAMES = ['method', 'tool', 'status', 'rule', 'client', 'server', 'session', 'kind', 'id', 'dir', 'ms', 'tokens', 'bytes'];

/** A filter: tokens like name:value, and plain texts, all of which must fit. @param {string} query @returns {(r: Row) => boolean} */
export function filter(query) {
	const tests = query.toLowerCase().split(/\s+/).filter(Boolean).map(token);
	return (r) => tests.every((t) => t(r));
}

/** @param {string} text @returns {(r: Row) => boolean} */
function token(text) {
	if (/^-./.test(text)) {
		const not = token(text.slice(1));
		return (r) => !not(r);
	}
	const [, name, value] = /^(\w+):(.*)$/.exec(text) ?? [];
	if (!NAMES.includes(name)) return (r) => [r.method, r.tool, r.id].some((v) => v?.toLowerCase().includes(text));
	if (!value) return () => true; // it is still being typed
	const [, sign, amount] = /^([<>])([\d.]+)$/.exec(value) ?? [];
	if (sign && ['ms', 'tokens', 'bytes'].includes(name)) {
		return (r) => {
			const v = name === 'ms' ? r.ms && total(r.ms) : (name === 'tokens' ? r.tokens : r.bytes)?.before;
			return v !== undefined && (sign === '>' ? v > +amount : v < +amount);
		};
	}
	const begins = value.endsWith('*') && value.slice(0, -1);
	return (r) => valuesOf(r, name).some((v) => v !== undefined && (begins === false ? v.toLowerCase() === value : v.toLowerCase().startsWith(begins)));
}

/** @param {any} r @param {string} name @returns {(string | undefined)[]} */
function valuesOf(r, name) {
	if (name === 'rule') return [...(r.rules ?? []), ...(r.by ?? [])];
	if (name === 'dir') return [r.kind === 'server' ? 'out' : 'in'];
	return /^(client|server)$/.test(name) ? [r[name], r[name]?.replace(/ [^ ]*$/, ''), r[name + '_rev']] : [r[name]];
}

/** The rows that dragoman sent, by rising number, and those of them that the filter shows. */
export class Rows {
	/** @type {Row[]} */ all = [];
	/** @type {Row[]} */ shown = [];
	/** @type {Map<number, Row>} */ byNumber = new Map();
	/** The time of the slowest, in milliseconds. */
	slowest = 10;
	#fits = filter('');

	/** @param {string} query */
	show(query) {
		this.#fits = filter(query);
		this.shown = this.all.filter(this.#fits);
	}

	/** Takes rows that are new or have changed, and returns how many are new. @param {Row[]} rows */
	put(rows) {
		const before = this.byNumber.size;
		for (const r of rows) {
			const old = this.byNumber.get(r.n);
			this.byNumber.set(r.n, r);
			place(this.all, r, !!old, true);
			place(this.shown, r, !!old && this.#fits(old), this.#fits(r));
			this.slowest = Math.max(this.slowest, total(r.ms));
		}
		const fresh = this.byNumber.size - before;
		if (this.all.length > KEEP + 200) {
			for (const r of this.all.splice(0, this.all.length - KEEP)) this.byNumber.delete(r.n);
			this.shown.splice(0, find(this.shown, this.all[0].n));
		}
		return fresh;
	}

	clear() {
		this.all = [];
		this.shown = [];
		this.byNumber.clear();
	}

	/** The number after which dragoman should go on: the one before the oldest recent call that is still open. */
	after() {
		const open = this.all.slice(-500).find((r) => r.status === 'open' || r.status === 'asking');
		return open ? open.n - 1 : (this.all.at(-1)?.n ?? 0);
	}

	/** The sessions of a recording, in which they have ended. @returns {Session[]} */
	sessions() {
		return [...Map.groupBy(this.all.filter((r) => r.server_rev), (r) => `${r.session} ${r.client} ${r.client_rev}`).values()].map((list) => ({
			...list[0], session: list[0].session ?? '', calls: list.length, since: list[0].at, errors: list.filter((r) => /error|failed/.test(r.status)).length,
			rules: [...new Set(list.flatMap((r) => r.rules ?? []))].sort(), p95_ms: list.map((r) => total(r.ms)).sort((a, b) => a - b)[Math.ceil(0.95 * list.length) - 1],
		}));
	}

	/** Where row n is among those shown, the newest being 0; -1 if it is not shown. @param {number} n */
	place(n) {
		const i = find(this.shown, n);
		return this.shown[i]?.n === n ? this.shown.length - 1 - i : -1;
	}

	/** @param {number} place @returns {Row | undefined} */
	at(place) {
		return this.shown[this.shown.length - 1 - place];
	}
}

/** Inserts, replaces or removes a row, by whether it was there and is to be there. @param {Row[]} list @param {Row} r @param {boolean} was @param {boolean} is */
function place(list, r, was, is) {
	const i = find(list, r.n);
	if (is && !was && i === list.length) list.push(r);
	else if (is && was) list[i] = r;
	else if (is || was) list.splice(i, +was, ...(is ? [r] : []));
}

/** The first place whose number is at least n. @param {Row[]} list @param {number} n */
function find(list, n) {
	let lo = 0, hi = list.length;
	if (hi && list[hi - 1].n < n) return hi;
	while (lo < hi) {
		const mid = (lo + hi) >> 1;
		if (list[mid].n < n) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

/** What stands behind # in the address. */
export function readAddress() {
	const p = new URLSearchParams(location.hash.slice(1).replaceAll('+', '%2B'));
	return { q: p.get('q') ?? '', view: p.get('view') ?? 'calls', call: Number(p.get('call')) || 0, token: p.get('token') };
}

/** Writes filter, view and open call there, and never the token. @param {{q: string, view: string, call: number}} to */
export function writeAddress({ q, view, call }) {
	const p = [q && 'q=' + encodeURIComponent(q), view !== 'calls' && 'view=' + view, call && 'call=' + call].filter(Boolean);
	history.replaceState(null, '', location.pathname + (p.length ? '#' + p.join('&') : ''));
}
