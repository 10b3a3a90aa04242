import { total } from './dom.js';

/** So many rows are kept, as in dragoman. */
const KEEP = 10_000;

/** The rows that dragoman sent, by rising number. */
export class Rows {
	/** @type {Row[]} */ all = [];
	/** @type {Row[]} those of them that fit the filter */ shown = this.all;
	/** The time of the slowest, in milliseconds. */
	slowest = 10;
	/** The numbers of those, if there is a filter. @type {Set<number> | undefined} */ #fit;
	/** The version of dragoman's rows that it has compared; 0 before its first answer. */
	until = 0;

	/** Shows only what fits a filter, once dragoman has said what does. */
	show(query) {
		this.until = 0;
		this.#fit = query.trim() ? new Set() : undefined;
		if (!this.#fit) this.shown = this.all;
	}

	/** @param {Found} found */
	found({ fit, not, until }) {
		for (const n of fit) this.#fit?.add(n);
		for (const n of not) this.#fit?.delete(n);
		this.until = until;
		this.shown = this.all.filter((r) => this.#fit?.has(r.n) ?? true);
	}

	/** Takes rows that are new or have changed, and returns how many are new. @param {Row[]} rows */
	put(rows) {
		const before = this.all.length;
		for (const r of rows) {
			const i = find(this.all, r.n);
			this.all.splice(i, +(this.all[i]?.n === r.n), r);
			this.slowest = Math.max(this.slowest, total(r.ms));
		}
		const fresh = this.all.length - before;
		if (this.all.length > KEEP + 200) this.all.splice(0, this.all.length - KEEP);
		if (this.#fit && this.until) this.shown = this.all.filter((r) => this.#fit?.has(r.n));
		return fresh;
	}

	clear() {
		this.all.length = this.shown.length = this.until = 0;
		this.#fit?.clear();
	}

	/** The number after which dragoman should go on: the one before the oldest recent call that is still open. */
	after() {
		const open = this.all.slice(-500).find((r) => r.status === 'open' || r.status === 'asking');
		return open ? open.n - 1 : (this.all.at(-1)?.n ?? 0);
	}

	/** Where row n is among those shown, the newest being 0; -1 if it is not shown. */
	place(n) {
		const i = find(this.shown, n);
		return this.shown[i]?.n === n ? this.shown.length - 1 - i : -1;
	}

	/** @returns {Row | undefined} */
	at(place) {
		return this.shown[this.shown.length - 1 - place];
	}
}

/** The first place whose number is at least n. @param {Row[]} list */
function find(list, n) {
	let lo = 0, hi = list.length;
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
