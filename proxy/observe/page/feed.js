const TOKEN = 'dragoman.token';
/** dragoman sends a comment every 10 s. After so many milliseconds without a byte the connection is lost. */
const SILENCE = 25_000;
const LONGEST = 8 << 20;

/** What stands behind # in the address. */
export function readAddress() {
	const p = new URLSearchParams(location.hash.slice(1).replaceAll('+', '%2B'));
	return { q: p.get('q') ?? '', view: p.get('view') ?? 'calls', call: Number(p.get('call')) || 0, token: p.get('token'), once: p.get('once') };
}

/** Writes filter, view and open call there, and never the token. @param {{q: string, view: string, call: number}} to */
export function writeAddress({ q, view, call }) {
	const p = [q && 'q=' + encodeURIComponent(q), view !== 'calls' && 'view=' + view, call && 'call=' + call].filter(Boolean).join('&'), hash = p && '#' + p;
	if (hash !== location.hash) history.replaceState(null, '', location.pathname + hash);
}

/** The token of this tab. */
export const token = () => sessionStorage.getItem(TOKEN) ?? '';
export const setToken = (value) => sessionStorage.setItem(TOKEN, value);

/** Moves the token from the address, if it has one, or gets it for the code that a browser was opened with, which is good once. */
export async function enter() {
	const address = readAddress(), one = address.token ?? address.once;
	if (!one) return;
	setToken(one);
	writeAddress(address);
	const got = address.once && (await getJSON('token').catch(() => undefined));
	if (got) setToken(got.token);
}

export const get = (path, signal) => fetch(path, { headers: { Authorization: 'Bearer ' + token() }, cache: 'no-store', credentials: 'omit', signal });

export async function getJSON(path, signal) {
	const r = await get(path, signal);
	if (!r.ok) throw Object.assign(new Error('HTTP ' + r.status), { status: r.status });
	return r.json();
}

/** Reads an event stream until it ends; alive is called for whatever comes. */
async function events(body, f, alive) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '', name = '', data = '';
	for (;;) {
		const { value, done } = await reader.read();
		if (done) return;
		alive();
		const lines = (rest + value).split(/\r?\n/);
		rest = lines.pop() ?? '';
		if (rest.length > LONGEST) throw new Error('too long');
		for (const line of lines) {
			if (line.startsWith('event: ')) name = line.slice(7);
			else if (line.startsWith('data: ')) data = line.slice(6);
			else if (!line && data) f(name, JSON.parse(data)), (data = '');
		}
	}
}

/**
 * Keeps the stream of rows open while the page can be seen, and opens it again when it is lost: browsers allow six streams for
 * all tabs of an origin. after says what is known already, as a query. Returns what opens the stream anew.
 * @param {(link: Link) => void} link
 */
export function feed(after, event, link) {
	let tries = 0, timer = 0, open = new AbortController();
	const start = async () => {
		clearTimeout(timer);
		open.abort();
		if (document.hidden) return link({ is: 'hidden' });
		const mine = (open = new AbortController()), asked = get('feed?' + after(), mine.signal);
		let busy = false, silence = 0;
		const alive = () => {
			clearTimeout(silence);
			silence = setTimeout(() => mine.abort(), SILENCE);
		};
		link({ is: 'opening' });
		try {
			const r = await asked;
			if (r.status === 401) return link({ is: 'token' });
			if (r.status === 403) return link({ is: 'forbidden' });
			busy = r.status === 429 || r.status === 503;
			alive();
			if (r.ok && r.body) await events(r.body, (name, data) => {
				if (mine === open) event(name, data);
				tries = 0;
			}, alive);
		} catch {
			// Whatever it was, it is tried again.
		}
		clearTimeout(silence);
		if (mine !== open || document.hidden) return;
		mine.abort();
		const wait = Math.min(15_000, 500 * 2 ** tries++) * (0.75 + Math.random() / 2);
		link({ is: busy ? 'busy' : 'lost', at: Date.now() + wait });
		timer = setTimeout(start, wait);
	};
	document.addEventListener('visibilitychange', start);
	return start;
}
