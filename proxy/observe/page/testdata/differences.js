// Run in the page by TestDifferences: applying a difference to what was before gives what was after.
import('./diff.js').then(({ diff, texts, words }) => {
	let seed = 1;
	const random = (n) => ((seed = (seed * 48271) % 2147483647) % n);
	const pick = (list) => list[random(list.length)];
	const names = ['a', 'b', 'name', 'uri', 'id', '__proto__', 'toString', 'a.b', ''];
	const make = (depth) => {
		const kind = random(depth > 0 ? 8 : 5);
		if (kind < 5) return pick([null, true, 0, 1, 'x', 'a long text\nwith lines', 'y']);
		if (kind === 5) return Array.from({ length: random(5) }, () => make(depth - 1));
		if (kind === 6) return Array.from({ length: random(5) }, () => Object.fromEntries([['name', pick(['p', 'q', 'r', 's', 't', 'u'])], [pick(names), make(depth - 1)]]));
		return Object.fromEntries(Array.from({ length: random(5) }, () => [pick(names), make(depth - 1)]));
	};
	const change = (v, depth) => {
		if (random(4) === 0) return make(depth);
		if (Array.isArray(v)) return v.filter(() => random(5)).map((x) => (random(3) ? x : change(x, depth - 1))).sort(() => (random(6) ? 0 : 1));
		if (v && typeof v === 'object') return Object.fromEntries(Object.entries(v).filter(() => random(5)).map(([k, x]) => [k, random(3) ? x : change(x, depth - 1)]));
		return v;
	};
	// What edits tell: nothing of what is the same.
	const edits = (n) => (n.op === 'same' ? null : n.op === 'replace' ? { after: n.b } : { kids: n.kids.map((k) => ({ from: k.from, to: k.to, edit: k.node ? edits(k.node) : undefined, after: k.from === undefined ? k.b : undefined })) });
	const apply = (v, e) => {
		if (e === null) return v;
		if (!('kids' in e)) return e.after;
		const left = e.kids.filter((k) => k.to !== undefined).map((k) => [k.to, k.from === undefined ? k.after : apply(v[k.from], k.edit)]);
		return Array.isArray(v) ? left.map(([, x]) => x) : Object.fromEntries(left);
	};
	// Members have no order.
	const flat = (v) => JSON.stringify(v, (_, x) => (x && typeof x === 'object' && !Array.isArray(x) ? Object.fromEntries(Object.entries(x).sort(([p], [q]) => (p < q ? -1 : 1)).map(([k, y]) => ['.' + k, y])) : x));
	const count = (v) => (Array.isArray(v) ? v.length : 0);
	let compared = 0;
	for (; compared < 4000; compared++) {
		const before = make(4), after = random(3) ? change(before, 4) : make(4), d = diff(before, after), got = apply(before, edits(d));
		if (flat(got) !== flat(after) || (d.op === 'same') !== (flat(before) === flat(after))) return { compared, wrong: { before, after, d, got } };
		if (d.op === 'list' && d.kids.filter((k) => k.from !== undefined).length !== count(before)) return { compared, wrong: { before, after, d } };
		const a = Array.from({ length: random(20) }, () => pick(['a', 'b', 'c', 'd'])), b = random(2) ? a.filter(() => random(4)) : Array.from({ length: random(20) }, () => pick(['a', 'b', 'c', 'd']));
		const t = texts(a, b, pick([600, 2])), side = (not) => t.filter(([op]) => op !== not).map(([, x]) => x).join();
		if (side('+') !== a.join() || side('-') !== b.join()) return { compared, wrong: { a, b, t } };
		const w = words(a.join(' '), b.join(' ')).map((parts) => parts.map(([x]) => x).join(''));
		if (w[0] !== a.join(' ') || w[1] !== b.join(' ')) return { compared, wrong: { a, b, w } };
	}
	return { compared, wrong: null };
});
