// @ts-check
/** @import { Change, Edit, Line, Node, Part } from './types.d.ts' */
import { diff, isLeaf, texts, words } from './diff.js';
import { h, plural, safe } from './dom.js';

/** Two messages of more bytes are compared by the members of their members, each as a whole. */
export const LARGE = 2 << 20;
/** Lines around a change; lines drawn at once; characters that make a text long; characters of a line; those of a text that are shown. */
const CONTEXT = 3, CHUNK = 80, LONG = 80, WIDE = 64, CUT = 1500;

/** A path as dragoman writes it: result.tools[3]["io.example/x"]. @param {string} path @param {string | number} key */
const step = (path, key) => (typeof key === 'number' ? `${path}[${key}]` : /^[\w$-]+$/.test(key) ? (path && path + '.') + key : `${path}[${JSON.stringify(key)}]`);
const LAST_STEP = /(^|\.)[\w$-]+$|\[(\d+|"(\\.|[^"\\])*")\]$/;

/** A value on one line, if there is room. @param {any} v @returns {string | undefined} */
function short(v, room = WIDE) {
	if (isLeaf(v)) return typeof v === 'string' && v.includes('\n') ? undefined : JSON.stringify(v);
	const list = Array.isArray(v), out = [];
	for (const k of Object.keys(v)) {
		const t = short(v[k], room);
		if (t === undefined) return;
		out.push(list ? t : JSON.stringify(k) + ': ' + t);
		if ((room -= out.at(-1).length + 2) < 0) return;
	}
	return list ? `[${out.join(', ')}]` : out.length ? `{ ${out.join(', ')} }` : '{}';
}

/** @param {string | undefined} t @returns {Part[] | undefined} */
const part = (t, changed = false) => (t === undefined ? undefined : [[t, changed]]);

/** Lays out a comparison, or one value if there is only one side. @param {Node} node @param {boolean} one */
function layOut(node, one) {
	/** @type {Line[]} */
	const out = [];
	/** @param {string} t @param {number} depth @param {string} [key] @param {string} [sides] @param {Edit} [edit] @param {string} [kind] */
	const put = (t, depth, key, sides = 'lr', edit, kind) => {
		out.push({ depth, key, kind, edit, l: sides.includes('l') ? part(t) : undefined, r: sides.includes('r') && !one ? part(t) : undefined });
	};
	const value = (v, depth, key, sides, edit) => {
		const line = short(v, WIDE - 2 * depth), list = Array.isArray(v);
		if (line !== undefined) return put(line, depth, key, sides, edit, typeof v === 'string' ? 'string' : isLeaf(v) ? 'atom' : '');
		put(list ? '[' : isLeaf(v) ? '' : '{', depth, key, sides, edit);
		if (isLeaf(v)) return v.split('\n').forEach((t) => put(t, depth + 1, undefined, sides, edit, 'text'));
		for (const k of Object.keys(v)) value(v[k], depth + 1, list ? undefined : k, sides, edit);
		put(list ? ']' : '}', depth, undefined, sides, edit);
	};
	const longTexts = (a, b, depth, key, edit) => {
		put('', depth, key);
		const waiting = { '-': [], '+': [] };
		for (const [op, t] of [...texts(a.split('\n'), b.split('\n')), ['=', undefined]]) {
			if (op !== '=') {
				waiting[op].push(t);
				continue;
			}
			while (waiting['-'].length || waiting['+'].length) {
				const x = waiting['-'].shift(), y = waiting['+'].shift();
				const [l, r] = x !== undefined && y !== undefined ? words(x, y) : [part(x), part(y)];
				out.push({ depth: depth + 1, kind: 'text', edit, l, r });
			}
			if (t !== undefined) put(t, depth + 1, undefined, 'lr', undefined, 'text');
		}
	};
	const replaced = (a, b, depth, key, edit) => {
		const text = typeof a === 'string' && typeof b === 'string', x = short(a), y = short(b);
		if (text && (a.length > LONG || b.length > LONG || x === undefined || y === undefined)) return longTexts(a, b, depth, key, edit);
		if (x === undefined || y === undefined) return value(a, depth, key, 'l', edit), value(b, depth, key, 'r', edit);
		const [l, r] = text ? words(x, y) : [part(x, true), part(y, true)];
		out.push({ depth, key, l, r, edit, kind: text ? 'string' : 'atom' });
	};
	const walk = (n, depth, key, before, after) => {
		if (n.op === 'same') return value(n.a, depth, key);
		if (n.op === 'replace') return replaced(n.a, n.b, depth, key, { before, after });
		put(n.op === 'list' ? '[' : '{', depth, key);
		for (const k of n.kids) {
			const name = n.op === 'list' ? undefined : (k.from ?? k.to);
			const from = k.from !== undefined && step(before, k.from), to = k.to !== undefined && step(after, k.to);
			if (k.node) walk(k.node, depth + 1, name, from, to);
			else if (k.from !== undefined) value(k.a, depth + 1, name, 'l', { before: from });
			else value(k.b, depth + 1, name, 'r', { after: to });
		}
		put(n.op === 'list' ? ']' : '}', depth);
	};
	walk(node, 0, undefined, '', '');
	return out;
}

/** @param {any} a @param {any} b @param {number} size of both */
export const compare = (a, b, size) => layOut(diff(a, b, size > LARGE ? 2 : Infinity), false);

/** @param {any} v */
export const alone = (v) => show(layOut({ op: 'same', a: v }, true), () => [], true);

/** The edits of lines, each once. @param {Line[]} lines @returns {Edit[]} */
export const editsOf = (lines) => [...new Set(lines.flatMap((l) => l.edit ?? []))];

/** Finds the changes that explain an edit: at its path, around it or within it. @param {Change[]} changes @returns {(e: Edit) => Change[]} */
export function reasons(changes) {
	const at = new Map();
	for (const c of changes) {
		for (const path of [c.before !== undefined && '-' + c.before, c.after !== undefined && '+' + c.after]) if (path) at.set(path, [...(at.get(path) ?? []), c]);
	}
	return (edit) => {
		const paths = [edit.before ? '-' + edit.before : '', edit.after ? '+' + edit.after : ''].filter(Boolean);
		for (const path of paths) for (let p = path; p.length > 1; p = p[0] + p.slice(1).replace(LAST_STEP, '')) if (at.has(p)) return at.get(p);
		return [...at].flatMap(([p, c]) => (paths.some((x) => p.startsWith(x + '.') || p.startsWith(x + '[')) ? c : []));
	};
}

/** @param {Line} line @param {Part[] | undefined} parts @param {string} mark */
function side(line, parts, mark) {
	const e = document.createElement('div');
	if (!parts) return e;
	e.style.setProperty('--depth', String(line.depth));
	if (line.edit) e.append(h('span.mark', null, mark));
	if (line.key !== undefined) e.append(h('span.key', null, safe(JSON.stringify(line.key))), ': ');
	const box = h('span.' + line.kind);
	for (const [t, changed] of parts) {
		const text = document.createTextNode(safe(t, CUT));
		box.append(changed ? h('em', null, text) : text);
		if (t.length > CUT) box.append(h('button', { click: (e) => (text.replaceWith(safe(t, Infinity)), e.target.remove()) }, `all ${plural(t.length, 'character')}`));
	}
	e.append(box);
	return e;
}

/**
 * Shows lines; those far from a change are folded. The first are there at once, the others frame by frame.
 * @param {Line[]} lines @param {(edit: Edit) => HTMLElement[]} why @param {boolean} [one] there is one side
 */
export function show(lines, why, one) {
	const draw = (line, i) => {
		const { l, r, edit } = line;
		return h('div.ln' + (edit ? (l && r ? '.ch' : l ? '.rm' : '.ad') : ''), null, side(line, l, '−'), !one && side(line, r, '+'), !one && h('div.why', null, edit && edit !== lines[i - 1]?.edit ? why(edit) : []));
	};
	const folded = (from, to) => h('button.fold', { click: (e) => e.currentTarget.replaceWith(...lines.slice(from, to).map((l, i) => draw(l, from + i))) }, '⋯ ' + plural(to - from, 'unchanged line'));
	/** @type {number[][]} the place of a line, or begin and end of those to fold */
	const parts = [];
	for (let i = 0; i < lines.length; ) {
		let end = i;
		while (end < lines.length && !lines[end].edit) end++;
		const from = i && i + CONTEXT, to = end < lines.length ? end - CONTEXT : end;
		for (; i < end; i++) {
			if (one || i !== from || to - from < 5) parts.push([i]);
			else parts.push([from, (i = to)]), i--;
		}
		for (; lines[i]?.edit; i++) parts.push([i]);
	}
	const box = h('div.diff' + (one ? '.one' : ''));
	const more = () => {
		box.append(...parts.splice(0, CHUNK).map(([i, to]) => (to ? folded(i, to) : draw(lines[i], i))));
		if (parts.length) requestAnimationFrame(() => box.isConnected && more());
	};
	more();
	return box;
}
