import { Detail, TABS } from './detail.js';
import { $, $$, copy, count, fill, h, plural, toast } from './dom.js';
import { enter, feed, get, getJSON, readAddress, setToken, token, writeAddress } from './feed.js';
import { about, empty, help, panel, ruleWords, story } from './panels.js';
import { Rows, table as makeTable } from './table.js';

await enter();
const rows = new Rows(), address = readAddress(), table = makeTable(rows);
/** @type {Hello | undefined} */
let hello;
/** @type {State} */
let state = { sessions: [], ended: [], parked: [], replicas: [], losses: [] };
/** @type {Link} */
let link = { is: 'opening' };
/** @type {Map<number, Row> | undefined} what came while the table is paused */
let waiting;
let missed = 0, fresh = 0;

const remember = () => writeAddress({ ...address, call: detail.n });
const detail = new Detail(() => {
	remember();
	table.select(table.selected(), true);
});

function open(n) {
	if (!n) return;
	view('calls');
	table.select(n);
	detail.open(n);
	remember();
}

/** Shows the calls that fit q, which dragoman knows. */
function filter(q) {
	address.q = $('q').value = q;
	for (const b of $$('[data-word]')) b.ariaPressed = String(q.split(' ').includes(b.dataset.word));
	rows.show(q);
	view('calls');
	search();
}

let searching = 0;
const quiet = () => {}; // the feed says what is wrong

/** Asks soon which calls fit the filter, of those that are new or have changed. */
function search() {
	$('table').ariaBusy = String(!!address.q && !rows.until);
	if (address.q) searching ||= setTimeout(async () => {
		const { q } = address, found = await getJSON(`search?q=${encodeURIComponent(q)}&since=${rows.until}`).catch(quiet);
		searching = 0;
		if (q !== address.q) return search();
		if (found) rows.found(found);
		$('table').ariaBusy = 'false';
		draw();
	}, 100);
}

function view(name) {
	address.view = name;
	for (const b of $$('#views button')) {
		b.ariaPressed = String(b.dataset.view === name);
		if (b.dataset.view === name) b.scrollIntoView({ block: 'nearest', inline: 'nearest' });
	}
	$('split').hidden = name !== 'calls';
	$('panel').hidden = name === 'calls';
	if (name !== 'calls') ask();
	remember();
	draw();
}

/** Asks for what the feed does not tell. */
async function ask() {
	state = { ...state, ...(await getJSON('state').catch(quiet)) };
	draw();
}

/** Shows everything but the open call. */
function draw() {
	const { sessions, parked, replicas, losses } = state, { length } = rows.all;
	if (hello) fill($('about'), ...about(state, hello));
	fill($('story'), ...story(sessions));
	const numbers = { sessions: sessions.length, parked: parked.length, replicas: replicas.length, losses: losses.reduce((n, l) => n + l.count, 0) };
	for (const [k, n] of Object.entries(numbers)) $('n-' + k).textContent = count(n);
	$('t-replicas').hidden = !replicas.length && address.view !== 'replicas';
	if (address.view !== 'calls') fill($('panel'), ...panel(address.view, state));
	$('empty').hidden = link.is !== 'live' || length > 0;
	if (!$('empty').hidden) fill($('empty'), ...empty(hello));
	$('none').hidden = !length || rows.shown.length > 0;
	$('missed').textContent = missed ? plural(missed, 'call') + ' not shown: too many at once' : '';
	table.draw();
}

/** Says where the page stands with dragoman. @param {Link} to */
function linked(to) {
	link = to;
	const live = to.is === 'live', lost = to.is === 'lost' || to.is === 'busy';
	document.body.dataset.link = waiting && live ? 'paused' : to.is;
	$('link').textContent = lost ? 'not connected' : live && hello?.file ? 'recording' : to.is === 'opening' ? 'connecting' : (document.body.dataset.link ?? '');
	$('gate').hidden = to.is !== 'token' && to.is !== 'forbidden';
	$('no-token').hidden = to.is !== 'token';
	$('no-host').hidden = to.is !== 'forbidden';
	$('refused').hidden = !token();
	if (to.is === 'token') $('paste').focus();
	if (to.is !== 'opening') $('lost').hidden = !lost;
	if (lost) $('lost-text').textContent = `${to.is === 'lost' ? 'The connection to dragoman is lost.' : 'dragoman serves at most eight pages at once, and eight are open: close one.'} Next try in ${Math.ceil((to.at - Date.now()) / 1000)} s.`;
	draw();
}

const connect = feed(() => `after=${rows.after()}&started=${encodeURIComponent(hello?.started ?? '')}`, (name, data) => {
	if (name === 'rows' && waiting) {
		for (const r of data.rows) waiting.set(r.n, r);
		for (const n of waiting.keys()) if (waiting.size > 10_000) waiting.delete(n);
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
		search();
	}
}, linked);

/** @param {Row[]} list */
function take(list) {
	const first = !rows.all.length;
	fresh += rows.put(list);
	search();
	if (list.some((r) => r.n === detail.n)) detail.open(detail.n);
	if (first || !$('none').hidden) draw();
	else table.later();
}

async function save() {
	const r = await get('export?q=' + encodeURIComponent(address.q));
	if (!r.ok) return toast('the export has failed: HTTP ' + r.status);
	const url = URL.createObjectURL(await r.blob());
	h('a', { href: url, download: 'dragoman.jsonl' }).click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
	toast('dragoman.jsonl has what the filter shows');
}

/** The words for rules, once they were asked for. @type {Promise<Record<string, Words[]>> | undefined} */
let allWords;

/** Says what a rule does, beside the chip that names it. @param {HTMLElement} chip */
async function explain(chip, rule) {
	const { left, top, bottom } = chip.getBoundingClientRect(), tip = $('tip'); // the chip may have gone when the words come
	allWords ??= getJSON('rules');
	const all = await allWords.catch(quiet);
	if (!all) allWords = undefined;
	fill(tip, ...ruleWords(rule, all && Object.hasOwn(all, rule) ? all[rule] : []));
	tip.showPopover();
	const { offsetWidth: width, offsetHeight: height } = tip;
	tip.style.left = Math.max(8, Math.min(left, innerWidth - width - 8)) + 'px';
	tip.style.top = Math.max(8, bottom + 6 + height < innerHeight ? bottom + 6 : top - height - 6) + 'px';
}

function move(by) {
	const n = table.move(by);
	if (detail.n) open(n);
}

/** What buttons of the page do, by the id of the button. @type {Record<string, () => void>} */
const DO = {
	pause() {
		const list = waiting;
		waiting = list ? undefined : new Map();
		if (list) take([...list.values()]);
		$('pause').textContent = waiting ? 'Resume' : 'Pause';
		linked(link);
	},
	export: save,
	theme() {
		const now = document.documentElement.dataset, dark = now.theme ? now.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
		localStorage.setItem('dragoman.theme', (now.theme = dark ? 'light' : 'dark'));
	},
	keys() {
		fill($('help-text'), ...help());
		$('help').showModal();
	},
	again: connect,
	clear: () => filter(''),
	'help-close': () => $('help').close(),
};

/** @type {Record<string, () => void>} */
const KEYS = {
	j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1), Enter: () => open(table.selected()), '/': () => $('q').focus(),
	p: DO.pause, e: DO.export, t: DO.theme, '?': DO.keys, Escape: () => (detail.n ? detail.close() : filter('')),
};
TABS.forEach((tab, i) => (KEYS[i + 1] = () => detail.n && detail.show(tab)));

document.addEventListener('keydown', (e) => {
	const at = /** @type {HTMLElement} */ (e.target), typing = at.matches('input'), act = KEYS[e.key];
	if (!act || e.ctrlKey || e.metaKey || e.altKey || $('help').open || $('tip').matches(':popover-open') || !$('gate').hidden || (typing && e.key !== 'Escape')) return;
	if ((e.key === 'Enter' && at.matches('button')) || (e.key.startsWith('Arrow') && at.closest('#detail, #panel, button'))) return;
	e.preventDefault();
	if (typing) $('scroll').focus();
	else act();
});
document.addEventListener('click', (e) => {
	const at = /** @type {HTMLElement} */ (e.target).closest('button, #rows tr');
	if (!(at instanceof HTMLElement)) return;
	const { view: name, q, n, word, why, copy: text, ruleWords: rule } = at.dataset;
	DO[at.id]?.();
	if (name) view(name);
	if (q) $('tip').hidePopover(), filter(q);
	if (text) copy(text, 'the text');
	if (n && (at.matches('button') || !String(getSelection()))) open(Number(n));
	if (why) $('body').querySelector(`[data-rule="${CSS.escape(why)}"]`)?.focus();
	else if (rule) explain(at, rule);
	if (word) {
		const rest = address.q.split(' ').filter((x) => x && x !== word);
		filter((at.ariaPressed === 'true' ? rest : [...rest, word]).join(' '));
	}
});
$('q').addEventListener('input', () => filter($('q').value));
$('token-form').addEventListener('submit', (e) => {
	e.preventDefault();
	setToken($('paste').value.trim().replace(/^.*token=/, ''));
	$('paste').value = '';
	connect();
});
addEventListener('hashchange', async () => (readAddress().token || readAddress().once) && (await enter(), connect()));
setInterval(() => {
	if (fresh) $('said').textContent = plural(fresh, 'new call');
	fresh = 0;
	if (link.is === 'lost' || link.is === 'busy') linked(link);
}, 1000);
setInterval(() => link.is === 'live' && ask(), 5000);

$('logo').src = $('icon').href;
document.documentElement.dataset.theme = localStorage.getItem('dragoman.theme') ?? '';
const { view: shown, call } = address;
connect();
filter(address.q);
if (shown !== 'calls') view(shown);
if (call) open(call);
