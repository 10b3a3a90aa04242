/** @import { Row } from './types.d.ts' */
/** @import { Rows } from './state.js' */
import { $, bar, bytes, change, chips, clock, count, fill, h, millis, plural, status, total } from './dom.js';

/** So many rows above and below those that can be seen are in the document, too; so many milliseconds are between drawings of new rows; the height of the head. */
const MARGIN = 5, PACE = 200, HEAD = 30;

/** The cells of a row. @param {Row} r */
function cells(r, slowest) {
	const rules = [...(r.rules ?? []), ...(r.by ?? [])], size = change(r.bytes, bytes), all = total(r.ms), time = clock(r.at);
	return [
		h('td.c-time', time),
		h('th.c-call', { scope: 'row' }, h(r.tool ? 'span' : 'span.alone', r.method || r.kind), r.tool && [' ', h('b', r.tool)], h('span.sub', [time, size, ...rules.slice(0, 4)].join('  '))),
		h('td.c-peer', { title: `${r.client ?? ''} ${r.client_rev ?? ''} → ${r.server ?? ''} ${r.server_rev ?? ''}` }, r.client),
		h('td.c-status', status(r.status, r.error)),
		h('td.c-ms', h('span.all', r.ms ? millis(all) : '–'), [r.ms?.client, r.ms?.proxy, r.ms?.server].map((t, i) => h('span.part' + (i === 2 ? '.own' : ''), t !== undefined && millis(t))), bar(r.ms, Math.max(2, (100 * Math.log1p(all)) / Math.log1p(slowest)))),
		h('td.c-bytes', size),
		h('td.c-tokens' + (r.tokens && r.tokens.after < r.tokens.before ? '.cut' : ''), change(r.tokens, count)),
		h('td.c-changed', rules.length ? chips(rules) : '–'),
	];
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

	/** @param {Rows} rows */
	constructor(rows) {
		this.rows = rows;
		this.box = $('scroll');
		this.body = $('rows');
		this.box.addEventListener('scroll', () => {
			if (this.box.scrollTop === this.#top) return;
			this.#top = this.box.scrollTop;
			requestAnimationFrame(() => this.draw());
		}, { passive: true });
		new ResizeObserver(() => {
			this.#height = parseFloat(getComputedStyle(this.box).getPropertyValue('--row'));
			this.#room = this.box.clientHeight;
			this.draw();
		}).observe(this.box);
	}

	/** Draws with a frame soon, at a calm pace, what came by itself. */
	later() {
		this.#timer ||= setTimeout(() => requestAnimationFrame(() => this.draw()), Math.max(0, this.#last + PACE - performance.now()));
	}

	/** Draws now. the table is to be scrolled to #top */
	draw(moved) {
		clearTimeout(this.#timer);
		this.#timer = 0;
		this.#last = performance.now();
		const { rows, body } = this, n = rows.shown.length, all = rows.all.length, height = this.#height;
		const newer = rows.place(this.#newest);
		if (newer > 0 && this.#top > height) moved = true, (this.#top += newer * height); // what is being read stays where it is
		this.#newest = rows.at(0)?.n ?? 0;
		const top = Math.min(this.#top / height, n), first = Math.max(0, Math.floor(top) - MARGIN), last = Math.min(n, Math.ceil(top + this.#room / height) + MARGIN);
		const selected = rows.place(this.selected), tabbed = selected >= first && selected < last ? selected : Math.min(Math.ceil(top), n - 1);

		// An element stays with its row; one whose row is no longer drawn becomes another row.
		const kept = (tr) => (rows.place(tr.row.n) >= first && rows.place(tr.row.n) < last);
		const old = [...body.children], byNumber = new Map(old.filter(kept).map((tr) => [tr.row.n, tr])), spare = old.filter((tr) => !kept(tr));
		if (spare.includes(document.activeElement)) this.box.focus({ preventScroll: true });
		let next = body.firstChild;
		for (let p = first; p < last; p++) {
			const row = /** @type {Row} */ (rows.at(p)), tr = byNumber.get(row.n) ?? spare.shift() ?? h('tr');
			while (next !== tr && spare.includes(next)) next = next.nextSibling;
			if (tr === next) next = next.nextSibling;
			else body.insertBefore(tr, next);
			if (tr.row !== row) fill(tr, ...cells(row, rows.slowest));
			Object.assign(tr, { row, tabIndex: p === tabbed ? 0 : -1, ariaRowIndex: p + 2, ariaCurrent: p === selected ? 'true' : null });
			tr.dataset.n = row.n;
		}
		for (const tr of spare) tr.remove();
		$('above').style.height = first * height + 'px';
		$('below').style.height = (n - last) * height + 'px';
		if (moved) this.box.scrollTop = this.#top;
		$('table').ariaRowCount = n + 1;
		$('shown').textContent = n === all ? plural(all, 'call') : `${count(n)} of ${count(all)} shown`;
	}

	select(n, focus) {
		this.selected = n;
		const at = this.rows.place(n) * this.#height, to = Math.min(at, Math.max(this.#top, at - this.#room + HEAD + this.#height)), moved = at >= 0 && to !== this.#top;
		if (moved) this.#top = to;
		this.draw(moved);
		if (focus) [...this.body.children].find((tr) => tr.row.n === n)?.focus({ preventScroll: true });
	}

	/** Selects the next row, or the one before if by is -1, and returns its number. */
	move(by) {
		const at = this.rows.place(this.selected), n = this.rows.at(at < 0 ? 0 : Math.max(0, Math.min(at + by, this.rows.shown.length - 1)))?.n ?? 0;
		if (n) this.select(n, true);
		return n;
	}
}
