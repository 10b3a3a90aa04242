import { $, bar, bytes, change, chips, clock, count, fill, h, meaning, plural, status, time, total } from './dom.js';

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

/** Rows drawn above and below those that can be seen; milliseconds between drawings; the height of the head. */
const MARGIN = 5, PACE = 200, HEAD = 30;

/** The cells of a row. @param {Row} r */
function cells(r, slowest) {
	const rules = [...(r.rules ?? []), ...(r.by ?? [])], size = change(r.bytes, bytes), all = total(r.ms), at = clock(r.at), about = r.tool || r.subject;
	return [
		h('td.c-time', at),
		h('th.c-call', { scope: 'row', title: [r.method, about, r.error].filter(Boolean).join(' ') }, h(about ? 'span.method' : 'span.alone', r.method || r.kind), about && [' ', h('b', about)], r.error && h('span.bad.error', r.error),
			h('span.sub', at, '  ', r.error ? h('span.bad', r.error) : [rules.slice(0, 3).join(' ') + (rules.length > 3 ? ' +' + (rules.length - 3) : ''), about && r.method, size].filter(Boolean).join('  '))),
		h('td.c-peer', { title: `${r.client ?? ''} ${r.client_rev ?? ''} → ${r.server ?? ''} ${r.server_rev ?? ''}` }, r.client),
		h('td.c-status', status(r.status, meaning(r))),
		h('td.c-ms', h('span.all', r.ms ? time(all) : '–'), [r.ms?.client, r.ms?.proxy, r.ms?.server].map((t, i) => h('span.part' + (i === 2 ? '.own' : ''), t !== undefined && time(t))), bar(r.ms, Math.max(2, (100 * Math.log1p(all)) / Math.log1p(slowest)))),
		h('td.c-bytes', size),
		h('td.c-tokens' + (r.tokens && r.tokens.after < r.tokens.before ? '.cut' : ''), change(r.tokens, count)),
		h('td.c-changed', rules.length ? chips(rules) : '–'),
	];
}

/** The table of calls, newest first. Only what can be seen is in the document. @param {Rows} rows */
export function table(rows) {
	const box = $('scroll'), body = $('rows');
	// Of a row, and what can be seen of all of them; the browser is not asked, because it would have to lay out the page.
	let height = 32, room = 0, top = 0;
	let timer = 0, drawn = 0, newest = 0, selected = 0;

	/** Draws now, and scrolls to top if that has moved. */
	function draw(moved = false) {
		clearTimeout(timer);
		timer = 0;
		drawn = performance.now();
		const n = rows.shown.length, all = rows.all.length, newer = rows.place(newest);
		if (newer > 0 && top > height) moved = true, (top += newer * height); // what is being read stays where it is
		newest = rows.at(0)?.n ?? 0;
		const at = Math.min(top / height, n), first = Math.max(0, Math.floor(at) - MARGIN), last = Math.min(n, Math.ceil(at + room / height) + MARGIN);
		const here = rows.place(selected), tabbed = here >= first && here < last ? here : Math.min(Math.ceil(at), n - 1);

		// An element stays with its row; one whose row is no longer drawn becomes another row.
		const byNumber = new Map(), spare = [];
		for (const tr of body.children) {
			const p = rows.place(tr.row.n);
			if (p >= first && p < last) byNumber.set(tr.row.n, tr);
			else spare.push(tr);
		}
		if (spare.includes(document.activeElement)) box.focus({ preventScroll: true });
		let next = body.firstChild;
		for (let p = first; p < last; p++) {
			const row = /** @type {Row} */ (rows.at(p)), tr = byNumber.get(row.n) ?? spare.shift() ?? h('tr');
			while (next !== tr && spare.includes(next)) next = next.nextSibling;
			if (tr === next) next = next.nextSibling;
			else body.insertBefore(tr, next);
			if (tr.row !== row) fill(tr, ...cells(row, rows.slowest));
			Object.assign(tr, { row, tabIndex: p === tabbed ? 0 : -1, ariaRowIndex: p + 2, ariaCurrent: p === here ? 'true' : null });
			tr.dataset.n = row.n;
			for (const b of tr.getElementsByTagName('button')) b.tabIndex = tr.tabIndex;
		}
		for (const tr of spare) tr.remove();
		$('above').style.height = first * height + 'px';
		$('below').style.height = (n - last) * height + 'px';
		if (moved) box.scrollTop = top;
		$('table').ariaRowCount = n + 1;
		$('n-calls').textContent = count(all);
		$('shown').textContent = n === all ? plural(all, 'call') : `${count(n)} of ${count(all)} shown`;
	}

	/** Selects row n. */
	function select(n, focus = false) {
		selected = n;
		const at = rows.place(n) * height, to = Math.min(at, Math.max(top, at - room + HEAD + height)), moved = at >= 0 && to !== top;
		if (moved) top = to;
		draw(moved);
		if (focus) body.querySelector('[aria-current]')?.focus({ preventScroll: true });
	}

	box.addEventListener('scroll', () => {
		if (box.scrollTop === top) return;
		top = box.scrollTop;
		requestAnimationFrame(() => draw());
	}, { passive: true });
	new ResizeObserver(() => {
		height = parseFloat(getComputedStyle(box).getPropertyValue('--row'));
		room = box.clientHeight;
		draw();
	}).observe(box);

	return {
		draw, select,
		selected: () => selected,
		/** Draws what came by itself: with a frame soon, at a calm pace. */
		later: () => (timer ||= setTimeout(() => requestAnimationFrame(() => draw()), Math.max(0, drawn + PACE - performance.now()))),
		/** Selects the next row, or the one before if by is -1, and returns its number. */
		move(by) {
			const at = rows.place(selected), n = rows.at(at < 0 ? 0 : Math.max(0, Math.min(at + by, rows.shown.length - 1)))?.n ?? 0;
			if (n) select(n, true);
			return n;
		},
	};
}
