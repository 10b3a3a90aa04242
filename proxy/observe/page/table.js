// @ts-check
/** @import { Row } from './types.d.ts' */
/** @import { Rows } from './state.js' */
import { $, bar, bytes, change, chip, clock, count, h, millis, plural, status, total } from './dom.js';

/** So many rows above and below those that can be seen are drawn, too; and so many milliseconds are between new rows. */
const MARGIN = 5;
export const PACE = 200;

/** @param {Row} r @param {number} slowest */
function draw(r, slowest) {
	const td = (name, ...kids) => h('td.c-' + name, null, kids);
	const rules = [...(r.rules ?? []), ...(r.by ?? [])], size = change(r.bytes, bytes), tokens = change(r.tokens, count), all = total(r.ms);
	const cut = r.tokens && r.tokens.after < r.tokens.before;
	return h('tr', { 'data-n': r.n },
		td('time', clock(r.at)),
		h('th.c-call', { scope: 'row' }, h('span', null, r.method || r.kind), r.tool && [' ', h('b', null, r.tool)], h('span.sub', null, [clock(r.at), size, ...rules.slice(0, 4)].join('  '))),
		h('td.c-peer', { title: `${r.client ?? ''} ${r.client_rev ?? ''} → ${r.server ?? ''} ${r.server_rev ?? ''}` }, r.client),
		td('status', status(r.status, r.error)),
		td('ms', h('span.all', null, r.ms ? millis(all) : '–'), [r.ms?.client, r.ms?.proxy, r.ms?.server].map((t) => h('span.part', null, t !== undefined && millis(t))),
			bar(r.ms, all && Math.max(2, (100 * Math.log1p(all)) / Math.log1p(slowest)))),
		td('bytes', size), h('td.c-tokens' + (cut ? '.cut' : ''), null, tokens),
		td('changed', rules.length ? rules.slice(0, rules.length > 4 ? 3 : 4).map((x) => chip(x)) : '–', rules.length > 4 && chip('+' + (rules.length - 3), 'more')));
}

/** The table of calls, newest first. Only what can be seen is in the document. */
export class Table {
	/** The number of the selected row. */
	selected = 0;
	/** Of a row, and what can be seen of all of them; the browser is not asked, because it would have to lay out the page. */
	#height = 32;
	#room = 0;
	#top = 0;
	#timer = 0;
	#last = 0;
	/** The newest row when the table was last drawn. */
	#newest = 0;
	/** @type {Map<number, {row: Row, tr: any}>} */ #drawn = new Map();

	/** @param {Rows} rows @param {(n: number) => void} open */
	constructor(rows, open) {
		this.rows = rows;
		this.box = $('scroll');
		this.body = $('rows');
		this.box.addEventListener('scroll', () => this.#moved(this.box.scrollTop), { passive: true });
		new ResizeObserver(() => {
			this.#height = parseFloat(getComputedStyle(this.box).getPropertyValue('--row'));
			this.#room = this.box.clientHeight;
			this.#draw();
		}).observe(this.box);
		this.body.addEventListener('click', (e) => {
			const n = Number(e.target.closest('tr').dataset.n);
			if (!String(getSelection())) open(n);
		});
	}

	/** Draws with the next frame, or at a calm pace what came by itself. @param {number} [pace] */
	draw(pace = 0) {
		if (!pace) clearTimeout(this.#timer), (this.#timer = 0);
		this.#timer ||= setTimeout(() => requestAnimationFrame(() => this.#draw()), Math.max(0, this.#last + pace - performance.now()));
	}

	/** @param {number} top */
	#scroll(top) {
		this.box.scrollTop = this.#top = top;
	}

	/** @param {number} top */
	#moved(top) {
		if (top !== this.#top) requestAnimationFrame(() => this.#draw());
		this.#top = top;
	}

	#draw() {
		clearTimeout(this.#timer);
		this.#timer = 0;
		this.#last = performance.now();
		const { rows, body } = this, n = rows.shown.length, all = rows.all.length, height = this.#height;
		const newer = rows.place(this.#newest);
		$('below').style.height = n * height + 'px';
		if (newer > 0 && this.#top > height) this.#scroll(this.#top + newer * height); // what is being read stays where it is
		this.#newest = rows.at(0)?.n ?? 0;
		const top = Math.min(this.#top / height, n), first = Math.max(0, Math.floor(top) - MARGIN), last = Math.min(n, Math.ceil(top + this.#room / height) + MARGIN);
		const seen = rows.place(this.selected);
		const tabbed = seen >= first && seen < last ? seen : Math.min(Math.ceil(top), n - 1);
		const old = this.#drawn;
		this.#drawn = new Map();
		let next = body.firstChild;
		for (let p = first; p < last; p++) {
			const row = /** @type {Row} */ (rows.at(p)), was = old.get(row.n);
			const tr = was?.row === row ? was.tr : draw(row, rows.slowest);
			if (was && was.tr !== tr) {
				if (was.tr === next) next = tr;
				const focused = was.tr === document.activeElement;
				was.tr.replaceWith(tr);
				if (focused) requestAnimationFrame(() => tr.focus({ preventScroll: true }));
			}
			old.delete(row.n);
			this.#drawn.set(row.n, { row, tr });
			if (tr !== next) body.insertBefore(tr, next);
			next = tr.nextSibling;
			tr.tabIndex = p === tabbed ? 0 : -1;
			tr.ariaRowIndex = p + 2;
			tr.ariaCurrent = row.n === this.selected ? 'true' : null;
		}
		for (const { tr } of old.values()) {
			if (tr === document.activeElement) this.box.focus({ preventScroll: true });
			tr.remove();
		}
		$('above').style.height = first * height + 'px';
		$('below').style.height = (n - last) * height + 'px';
		$('table').ariaRowCount = n + 1;
		$('shown').textContent = n === all ? plural(all, 'call') : `${count(n)} of ${count(all)} shown`;
	}

	/** @param {number} n @param {boolean} [focus] */
	select(n, focus) {
		this.selected = n;
		const at = this.rows.place(n) * this.#height, room = this.#room - 30 - this.#height; // the head has 30 pixels
		this.#draw();
		if (at >= 0 && this.#top !== Math.min(at, Math.max(this.#top, at - room))) this.#scroll(Math.min(at, Math.max(this.#top, at - room)));
		this.#draw();
		if (focus) this.#drawn.get(n)?.tr.focus({ preventScroll: true });
	}

	/** Selects the next row, or the one before if by is -1, and returns its number. @param {number} by */
	move(by) {
		const at = this.rows.place(this.selected), to = at < 0 ? 0 : Math.max(0, Math.min(at + by, this.rows.shown.length - 1));
		const n = this.rows.at(to)?.n ?? 0;
		if (n) this.select(n, true);
		return n;
	}
}
