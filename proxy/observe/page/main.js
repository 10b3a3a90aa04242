// @ts-check
/** @import { Hello, Link, Row, State } from './types.d.ts' */
import { Detail, TABS } from './detail.js';
import { $, $$, count, h, plural, toast } from './dom.js';
import { Feed, get, getJSON, setToken, token } from './feed.js';
import { about, empty, help, panel, story } from './panels.js';
import { readAddress, Rows, writeAddress } from './state.js';
import { PACE, Table } from './table.js';

token();
const rows = new Rows(), address = readAddress();
/** @type {Hello | undefined} */
let hello;
/** @type {State} */
let state = {};
/** @type {Link} */
let link = { is: 'opening' };
/** @type {Map<number, Row> | undefined} what came while the table is paused */
let waiting;
let missed = 0, fresh = 0;

const remember = () => writeAddress({ ...address, call: detail.n });
const detail = new Detail(() => {
	remember();
	table.select(table.selected, true);
});
const table = new Table(rows, (n) => open(n));

/** Opens call n. @param {number} n */
function open(n) {
	if (!n) return;
	view('calls');
	table.select(n);
	detail.open(n);
	remember();
}

/** Shows the rows that fit q. @param {string} q */
function filter(q) {
	address.q = $('q').value = q;
	for (const b of $$('[data-q]')) b.ariaPressed = String(q.split(' ').includes(b.dataset.q));
	rows.show(q);
	view('calls');
	$('scroll').scrollTop = 0;
}

/** @param {string} name of calls or a panel */
function view(name) {
	address.view = name;
	for (const b of $$('[data-view]')) b.ariaPressed = String(b.dataset.view === name);
	$('split').hidden = name !== 'calls';
	$('panel').hidden = name === 'calls';
	$('panel').replaceChildren();
	if (name !== 'calls') ask();
	remember();
	draw();
}

/** Asks for what the feed does not tell. */
async function ask() {
	try {
		state = { ...state, ...(await getJSON('state')) };
		draw();
	} catch {
		// The feed says what is wrong.
	}
}

/** Shows everything but the open call. */
function draw() {
	const sessions = hello?.file ? rows.sessions() : (state.sessions ?? []);
	if (hello) $('about').replaceChildren(...about(state, hello));
	story(sessions, () => view('sessions'));
	const numbers = { calls: rows.all.length, sessions: sessions.length, parked: state.parked?.length, replicas: state.replicas?.length, losses: state.losses?.reduce((n, l) => n + l.count, 0) };
	for (const [k, n] of Object.entries(numbers)) $('n-' + k).textContent = count(n);
	if (address.view !== 'calls' && !$('panel').contains(document.activeElement)) $('panel').replaceChildren(...panel(address.view, { ...state, sessions }, filter, open));
	const none = link.is === 'live' && !rows.all.length;
	if (none && $('empty').hidden) $('empty').replaceChildren(...empty(hello?.url ?? `http://${location.hostname}:8808/mcp`));
	$('empty').hidden = !none;
	$('none').hidden = !rows.all.length || rows.shown.length > 0;
	$('missed').textContent = missed ? plural(missed, 'row') + ' missed' : '';
	table.draw();
}

/** Says where the page stands with dragoman. @param {Link} to */
function linked(to) {
	const lost = to.is === 'lost' || to.is === 'busy';
	link = to;
	document.body.dataset.link = waiting && to.is === 'live' ? 'paused' : to.is;
	$('gate').hidden = to.is !== 'token' && to.is !== 'forbidden';
	$('no-token').hidden = to.is !== 'token';
	$('no-host').hidden = to.is !== 'forbidden';
	$('refused').hidden = !token();
	if (to.is === 'token') $('paste').focus();
	$('link').textContent = lost ? 'not connected' : to.is === 'opening' ? 'connecting' : to.is !== 'live' ? to.is : hello?.file ? 'recording' : waiting ? 'paused' : 'live';
	if (to.is !== 'opening') $('lost').hidden = !lost;
	if (lost) $('lost-text').textContent = `${to.is === 'lost' ? 'The connection to dragoman is lost.' : 'dragoman is busy: it serves at most eight pages.'} Next try in ${Math.ceil((to.at - Date.now()) / 1000)} s.`;
	draw();
}

const feed = new Feed(() => `after=${rows.after()}&started=${encodeURIComponent(hello?.started ?? '')}`, (name, data) => {
	if (name === 'rows' && waiting) {
		for (const r of data.rows) waiting.set(r.n, r);
		for (const n of [...waiting.keys()].slice(0, Math.max(0, waiting.size - 10_000))) waiting.delete(n);
		$('pause').textContent = `Resume (${count(waiting.size)})`;
	} else if (name === 'rows') take(data.rows);
	else if (name === 'gap') missed += data.dropped;
	else if (name === 'stats') {
		state = { ...state, ...data };
		draw();
	} else if (name === 'hello') {
		if (hello && hello.started !== data.started) {
			rows.clear(); // another process, whose numbers begin anew
			waiting?.clear();
			detail.close();
		}
		hello = data;
		linked({ is: 'live' });
		ask();
	}
}, linked);

/** @param {Row[]} list */
function take(list) {
	const first = !rows.all.length;
	fresh += rows.put(list);
	if (list.some((r) => r.n === detail.n)) detail.open(detail.n);
	if (first || !rows.shown.length || !$('none').hidden) draw();
	else table.draw(PACE);
	$('n-calls').textContent = count(rows.all.length);
}

function pause() {
	const list = waiting;
	waiting = list ? undefined : new Map();
	if (list) take([...list.values()]);
	$('pause').textContent = waiting ? 'Resume' : 'Pause';
	linked(link);
}

async function save() {
	const r = await get('export?q=' + encodeURIComponent(address.q));
	if (!r.ok) return toast('dragoman does not export: HTTP ' + r.status);
	const url = URL.createObjectURL(await r.blob());
	h('a', { href: url, download: 'dragoman.jsonl' }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
	toast('exported what the filter shows');
}

function theme() {
	const now = document.documentElement.dataset, dark = now.theme ? now.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
	localStorage.setItem('dragoman.theme', (now.theme = dark ? 'light' : 'dark'));
}

function showHelp() {
	$('help-text').replaceChildren(...help());
	$('help').showModal();
}

/** @param {number} by */
function move(by) {
	const n = table.move(by);
	if (detail.n) open(n);
}

/** @type {Record<string, () => void>} */
const KEYS = {
	j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1), Enter: () => open(table.selected), '/': () => $('q').focus(),
	p: pause, e: save, t: theme, '?': showHelp, Escape: () => (detail.n ? detail.close() : filter('')),
};
TABS.forEach((tab, i) => (KEYS[i + 1] = () => detail.n && detail.show(tab)));

document.addEventListener('keydown', (e) => {
	const at = /** @type {HTMLElement} */ (e.target), typing = at.matches('input'), act = KEYS[e.key];
	if (!act || e.ctrlKey || e.metaKey || e.altKey || $('help').open || !$('gate').hidden || (typing && e.key !== 'Escape')) return;
	if ((e.key === 'Enter' && at.matches('button')) || (e.key.startsWith('Arrow') && at.closest('#detail, #panel, button'))) return;
	e.preventDefault();
	if (typing) $('scroll').focus();
	else act();
});

document.documentElement.dataset.theme = localStorage.getItem('dragoman.theme') ?? '';
$('q').addEventListener('input', () => filter($('q').value));
for (const b of $$('[data-view]')) b.addEventListener('click', () => view(b.dataset.view));
for (const b of $$('[data-q]')) {
	b.addEventListener('click', () => {
		const q = address.q.split(' ').filter((x) => x && x !== b.dataset.q);
		filter((b.ariaPressed === 'true' ? q : [...q, b.dataset.q]).join(' '));
	});
}
const CLICKS = { pause, export: save, theme, keys: showHelp, again: () => feed.start(), clear: () => filter(''), 'help-close': () => $('help').close() };
for (const [id, f] of Object.entries(CLICKS)) $(id).addEventListener('click', f);
$('token-form').addEventListener('submit', (e) => {
	e.preventDefault();
	setToken($('paste').value.trim().replace(/^.*token=/, ''));
	$('paste').value = '';
	feed.start();
});
addEventListener('hashchange', () => readAddress().token && (token(), feed.start()));
setInterval(() => {
	if (fresh) $('said').textContent = plural(fresh, 'new call');
	fresh = 0;
	if (link.is === 'lost' || link.is === 'busy') linked(link);
}, 1000);
setInterval(() => link.is === 'live' && ask(), 5000);

const { view: shown, call } = address;
filter(address.q);
view(shown);
feed.start();
if (call) open(call);
