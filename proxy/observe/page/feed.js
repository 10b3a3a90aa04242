/** @import { Link } from './types.d.ts' */
import { readAddress, writeAddress } from './state.js';

const TOKEN = 'dragoman.token';
/** dragoman sends a comment every 10 s. After so many milliseconds without a byte the connection is lost. */
const SILENCE = 25_000;
const LONGEST = 8 << 20;

/** The token of this tab. If the address has one, it is moved from there. */
export function token() {
	const address = readAddress();
	if (address.token) {
		setToken(address.token);
		writeAddress(address);
	}
	return sessionStorage.getItem(TOKEN) ?? '';
}

export const setToken = (value) => sessionStorage.setItem(TOKEN, value);

export const get = (path, signal) => fetch(path, { headers: { Authorization: 'Bearer ' + token() }, cache: 'no-store', credentials: 'omit', signal });

export async function getJSON(path, signal) {
	const r = await get(path, signal);
	if (!r.ok) throw Object.assign(new Error('HTTP ' + r.status), { status: r.status });
	return r.json();
}

/** Reads an event stream until it ends; alive is called for whatever comes. @param {ReadableStream} body @param {(name: string, data: any) => void} f */
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

/** The stream of rows: kept open while the page can be seen, and opened again when it is lost. */
export class Feed {
	#tries = 0;
	#open = new AbortController();
	#timer = 0;

	/** @param {() => string} after what is known already, as a query @param {(name: string, data: any) => void} event @param {(link: Link) => void} link */
	constructor(after, event, link) {
		this.after = after;
		this.event = event;
		this.link = link;
		document.addEventListener('visibilitychange', () => this.start());
	}

	/** Opens the stream anew, or closes it if the page is hidden: browsers allow six streams for all tabs of an origin. */
	start() {
		clearTimeout(this.#timer);
		this.#open.abort();
		if (document.hidden) return this.link({ is: 'hidden' });
		this.#run((this.#open = new AbortController()));
	}

	async #run(open) {
		let busy = false, silence = 0;
		const alive = () => {
			clearTimeout(silence);
			silence = setTimeout(() => open.abort(), SILENCE);
		};
		const asked = get('feed?' + this.after(), open.signal);
		this.link({ is: 'opening' });
		try {
			const r = await asked;
			if (r.status === 401 || r.status === 403) return this.link({ is: r.status === 401 ? 'token' : 'forbidden' });
			busy = r.status === 429 || r.status === 503;
			alive();
			if (r.ok && r.body) await events(r.body, (name, data) => {
				if (open !== this.#open) return;
				this.#tries = 0;
				this.event(name, data);
			}, alive);
		} catch {
			// Whatever it was, it is tried again.
		}
		clearTimeout(silence);
		if (open !== this.#open || document.hidden) return;
		open.abort();
		const wait = Math.min(15_000, 500 * 2 ** this.#tries++) * (0.75 + Math.random() / 2);
		this.link({ is: busy ? 'busy' : 'lost', at: Date.now() + wait });
		this.#timer = setTimeout(() => this.start(), wait);
	}
}
