// @ts-check
/** @import { Node, Kid, Part } from './types.d.ts' */

/** What names an element of a list, best first. */
const KEYS = ['name', 'uri', 'uriTemplate', 'id'];
const json = /** @type {any} */ (JSON);

/** Whether v has no members. A number whose digits JavaScript would change has none either. @param {any} v */
export const isLeaf = (v) => v === null || typeof v !== 'object' || !!json.isRawJSON?.(v);

/** Parses JSON and keeps the digits of numbers. @param {string} text */
export const parse = (text) => json.parse(text, (_, v, c) => (typeof v === 'number' && json.rawJSON && c && String(v) !== c.source ? json.rawJSON(c.source) : v));

/**
 * Compares two JSON values: objects by member, lists by name, uri, uriTemplate or id, otherwise by position. Values that
 * are more than depth levels down are compared as a whole.
 * @param {any} a @param {any} b @returns {Node}
 */
export function diff(a, b, depth = Infinity) {
	if (a === b) return { op: 'same', a };
	const list = Array.isArray(a);
	if (isLeaf(a) || isLeaf(b) || list !== Array.isArray(b) || depth <= 0) return JSON.stringify(a) === JSON.stringify(b) ? { op: 'same', a } : { op: 'replace', a, b };
	const kids = list ? elements(a, b) : members(a, b);
	for (const k of kids) {
		if (k.from !== undefined && k.to !== undefined) k.node = diff(a[k.from], b[k.to], depth - 1);
		else if (k.from !== undefined) k.a = a[k.from];
		else if (k.to !== undefined) k.b = b[k.to];
	}
	return kids.every((k) => k.node?.op === 'same') ? { op: 'same', a } : { op: list ? 'list' : 'object', a, b, kids };
}

/** Members in the order of a; a new one stands behind the one that it follows in b. @returns {Kid[]} */
function members(a, b) {
	const added = new Map();
	let last;
	for (const key of Object.keys(b)) {
		if (Object.hasOwn(a, key)) last = key;
		else added.set(last, [...(added.get(last) ?? []), { to: key }]);
	}
	return [undefined, ...Object.keys(a)].flatMap((key) => [...(key === undefined ? [] : [Object.hasOwn(b, key) ? { from: key, to: key } : { from: key }]), ...(added.get(key) ?? [])]);
}

/** Elements; one that was moved is removed and added. @returns {Kid[]} */
function elements(a, b) {
	const key = KEYS.find((k) => named(a, k) && named(b, k));
	const at = key && new Map(b.map((v, i) => [v[key], i]));
	const pairs = a.map((v, i) => [i, at ? at.get(v[key]) : i]).filter(([, j]) => j < b.length);
	const kids = [];
	let i = 0, j = 0;
	for (const [from, to] of [...rising(pairs), [a.length, b.length]]) {
		while (i < from) kids.push({ from: i++ });
		while (j < to) kids.push({ to: j++ });
		if (from < a.length) kids.push({ from: i++, to: j++ });
	}
	return kids;
}

/** Whether member k names every element of a list. */
function named(list, k) {
	const names = list.filter((v) => !isLeaf(v) && ['string', 'number'].includes(typeof v[k])).map((v) => v[k]);
	return new Set(names).size === list.length;
}

/** The longest part of pairs [i, j] in which j rises. @returns {[number, number][]} */
function rising(pairs) {
	const tails = [], before = [];
	pairs.forEach(([, j], p) => {
		let lo = 0, hi = tails.length;
		while (lo < hi) {
			const mid = (lo + hi) >> 1;
			if (pairs[tails[mid]][1] < j) lo = mid + 1;
			else hi = mid;
		}
		before[p] = tails[lo - 1];
		tails[lo] = p;
	});
	const out = [];
	for (let p = tails.at(-1); p !== undefined; p = before[p]) out.push(pairs[p]);
	return out.reverse();
}

/**
 * Compares two lists of texts (Myers): what both have, and what one has. With more than max differences, all of a is
 * removed and all of b added.
 * @param {string[]} a @param {string[]} b @returns {['=' | '-' | '+', string][]}
 */
export function texts(a, b, max = 600) {
	let head = 0, tail = 0;
	while (head < a.length && head < b.length && a[head] === b[head]) head++;
	while (tail < Math.min(a.length, b.length) - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
	const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail);
	const all = (op, list) => list.map((t) => [op, t]);
	return [...all('=', a.slice(0, head)), ...(myers(x, y, max) ?? [...all('-', x), ...all('+', y)]), ...all('=', a.slice(a.length - tail))];
}

function myers(a, b, max) {
	const trace = [];
	let v = new Map([[1, 0]]);
	for (let d = 0; d <= Math.min(max, a.length + b.length); d++) {
		const next = new Map();
		trace.push(v);
		for (let k = -d; k <= d; k += 2) {
			let i = goesDown(v, k, d) ? get(v, k + 1) : get(v, k - 1) + 1;
			while (i < a.length && i - k < b.length && a[i] === b[i - k]) i++;
			next.set(k, i);
			if (i >= a.length && i - k >= b.length) return walkBack(a, b, trace);
		}
		v = next;
	}
}

const get = (v, k) => v.get(k) ?? -1;
const goesDown = (v, k, d) => k === -d || (k !== d && get(v, k - 1) < get(v, k + 1));

function walkBack(a, b, trace) {
	const out = [];
	let i = a.length, j = b.length;
	for (let d = trace.length - 1; d > 0; d--) {
		const v = trace[d], k = i - j, down = goesDown(v, k, d), before = get(v, down ? k + 1 : k - 1);
		while (i > (down ? before : before + 1)) out.push(['=', a[--i]]), j--;
		out.push(down ? ['+', b[--j]] : ['-', a[--i]]);
	}
	while (i > 0) out.push(['=', a[--i]]);
	return out.reverse();
}

/** Marks the words in which two lines differ. Lines of very many words differ as a whole. @param {string} a @param {string} b @returns {[Part[], Part[]]} */
export function words(a, b) {
	const [x, y] = [a, b].map((s) => s.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? []);
	/** @type {[Part[], Part[]]} */
	const sides = [[], []];
	for (const [op, t] of x.length + y.length > 4000 ? texts([a], [b]) : texts(x, y, 300)) {
		sides.forEach((to, i) => {
			if (op === '+-'[i]) return;
			const last = to.at(-1);
			if (last?.[1] === (op !== '=')) last[0] += t;
			else to.push([t, op !== '=']);
		});
	}
	return sides;
}
