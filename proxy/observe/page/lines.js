import { chip, h, plural, safe } from './dom.js';

/** Lines around a change; lines drawn at once; characters of a text that are shown. */
const CONTEXT = 3, CHUNK = 80, CUT = 1500;

/** One side of a line. @param {Line} line */
function side({ depth, edit, key, kind = '' }, pieces, mark) {
	const e = h('div', pieces && [edit && h('span.mark', mark), key !== undefined && [h('span.key', JSON.stringify(key)), ': '], h('span.' + kind, pieces.map((t, i) => {
		const text = document.createTextNode(safe(t, CUT));
		return [i % 2 ? h('em', text) : text, t.length > CUT && h('button', { click: (e) => (text.replaceWith(safe(t, Infinity)), e.target.remove()) }, `all ${plural(t.length, 'character')}`)];
	}))]);
	e.style.setProperty('--depth', depth);
	return e;
}

/**
 * Shows two messages beside each other, or one. Lines far from a change are folded, and all but the first come frame by frame.
 * @param {Comparison} comparison @param {(rule: string) => string} does
 */
export function show({ lines, two }, does) {
	/** @param {Line} line */
	const draw = (line) => h('div.ln' + (!line.edit ? '' : line.l && line.r ? '.ch' : line.l ? '.rm' : '.ad'), side(line, line.l, '−'),
		two && [side(line, line.edit ? line.r : line.l, '+'), h('div.why', line.why && (line.why.length ? line.why.map((rule) => chip(rule, { title: does(rule), 'data-why': rule })) : h('span.chip.bad', 'unexplained')))]);
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
