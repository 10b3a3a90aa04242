// @ts-check
/** @import { Line, Part } from './types.d.ts' */
import { chip, h, plural, safe } from './dom.js';

/** Lines around a change; lines drawn at once; characters of a piece of text that are shown. */
const CONTEXT = 3, CHUNK = 80, CUT = 1500;

/** One side of a line. @param {Line} line @param {Part[] | undefined} parts @param {string} mark */
function side({ depth, edit, key, kind = '' }, parts, mark) {
	const e = h('div', parts && [edit && h('span.mark', mark), key !== undefined && [h('span.key', JSON.stringify(key)), ': '], h('span.' + kind, parts.map(({ t, c }) => {
		const text = document.createTextNode(safe(t, CUT));
		return [c ? h('em', text) : text, t.length > CUT && h('button', { click: (e) => (text.replaceWith(safe(t, Infinity)), e.target.remove()) }, `all ${plural(t.length, 'character')}`)];
	}))]);
	e.style.setProperty('--depth', depth);
	return e;
}

/**
 * Shows lines of two messages beside each other, or of one; those far from a change are folded. The first are there at once,
 * the others frame by frame. does says what a rule does.
 * @param {Line[]} lines @param {(rule: string) => string} does
 */
export function show(lines, does) {
	const two = lines.some((l) => l.r);
	/** @param {Line} line */
	const draw = (line) => h('div.ln' + (!line.edit ? '' : line.l && line.r ? '.ch' : line.l ? '.rm' : '.ad'), side(line, line.l, '−'),
		two && [side(line, line.r, '+'), h('div.why', line.why && (line.why.length ? line.why.map((rule) => chip(rule, 'button', { title: does(rule), 'data-why': rule })) : h('span.chip.bad', 'unexplained')))]);
	const folded = (part) => h('button.fold', { click: (e) => e.currentTarget.replaceWith(...part.map(draw)) }, '⋯ ' + plural(part.length, 'unchanged line'));
	const far = lines.map((_, i) => two && lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).every((l) => !l.edit));
	let at = 0;
	const box = h('div.diff' + (two ? '' : '.one'));
	const more = () => {
		for (let n = 0; n < CHUNK && at < lines.length; n++) {
			let to = at;
			while (far[to]) to++;
			const fold = to - at > 4;
			box.append(fold ? folded(lines.slice(at, to)) : draw(lines[at]));
			at = fold ? to : at + 1;
		}
		if (at < lines.length) requestAnimationFrame(() => box.isConnected && more());
	};
	more();
	return box;
}
