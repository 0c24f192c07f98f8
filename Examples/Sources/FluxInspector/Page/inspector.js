// The page of the inspector. What comes from the program is put into the page as text, and never as HTML.

const rowsKept = 5000;
const rowsDrawn = 400;

const here = new URL(".", import.meta.url);
const element = (id) => document.getElementById(id);
const [list, pins, detail, filter, follow] = ["rows", "pins", "detail", "filter", "follow"].map(element);

/** Rows as they came, the oldest first; ends of events are not among them, but in the row of the event. */
let rows = [];
let run = null;
let newest = 0;
/** The rows of events by their number, to add how they ended. */
const events = new Map();
const stores = new Map();
/** By the row itself: another run of the program counts its rows from 1 again. */
const pinned = new Map();
let chosenStore = null;
/** The rows as they were when the list was paused; null: it is not. */
let held = null;
/** Whether the list goes on to what is new: until somebody scrolls away from its end. */
let follows = true;
/** The row whose details are shown, and what was asked for it. */
let chosen = null;
let shown = null;
/** What was asked last for a store, of which nothing else shows. */
let asked = null;
let tab = "changes";
/** Rows that came while the list stands still. */
let waiting = [];

// MARK: making elements

function make(name, options = {}, ...children) {
    const { className, on, ...rest } = options;
    const made = Object.assign(document.createElement(name), rest);
    if (className) made.className = className;
    if (on) made.addEventListener("click", on);
    made.append(...children);
    return made;
}

const pad = (number, length) => String(number).padStart(length, "0");

function clock(milliseconds) {
    const date = new Date(milliseconds);
    const parts = [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => pad(part, 2));
    return `${parts.join(":")}.${pad(date.getMilliseconds(), 3)}`;
}

function span(nanoseconds) {
    if (nanoseconds < 1e3) return `${Math.round(nanoseconds)} ns`;
    if (nanoseconds < 1e6) return `${(nanoseconds / 1e3).toPrecision(3)} µs`;
    if (nanoseconds < 1e9) return `${(nanoseconds / 1e6).toPrecision(3)} ms`;
    return `${(nanoseconds / 1e9).toPrecision(3)} s`;
}

// MARK: what comes from the program

function connect() {
    const source = new EventSource(new URL("stream", here));
    const status = element("status");
    source.onopen = () => {
        status.textContent = "live";
        status.className = "live";
    };
    source.onerror = () => {
        status.textContent = source.readyState === EventSource.CLOSED ? "refused: open the page again, with ?token= and the token" : "reconnecting";
        status.className = "";
    };
    source.addEventListener("stores", (message) => takeStores(JSON.parse(message.data)));
    source.addEventListener("rows", (message) => take(JSON.parse(message.data)));
}

function take(batch) {
    // The program was started anew, or the connection brings what is known.
    if (run !== batch.run) {
        if (run !== null) clear();
        [run, newest] = [batch.run, 0];
    }
    if (batch.missed > 0) {
        const gap = { kind: "gap", missed: batch.missed, number: newest };
        rows.push(gap);
        waiting.push(gap);
    }
    for (const row of batch.rows) {
        if (row.number <= newest) continue;
        newest = row.number;
        if (row.store && row.revision && stores.has(row.store)) stores.get(row.store).revision = row.revision;
        if (!addEnd(row)) add(row);
    }
    // Here, for a page that nobody looks at is not drawn.
    if (waiting.length > rowsKept) waiting = waiting.slice(-rowsKept);
    drawSoon();
}

/** Adds to the row of an event how it ended; false: what has come is a row of its own. */
function addEnd(row) {
    if (!["completed", "cancelled", "dropped", "failed", "retry"].includes(row.kind)) return false;
    const event = events.get(row.origin);
    if (event) {
        [event.outcome, event.problem] = [row.kind, row.error];
        event.milliseconds = row.time - event.time;
        if (event.element) event.element.replaceWith(draw(event));
        if (chosen === event) drawFacts();
    }
    return row.kind !== "failed" && row.kind !== "retry";
}

function add(row) {
    if (row.kind === "event") events.set(row.origin, row);
    const store = stores.get(row.store);
    row.place = store?.name ?? row.dispatcher ?? "";
    row.words = `${row.kind} ${row.type}${row.text} ${row.place} ${row.error ?? ""} event:${row.origin ?? ""} `.toLowerCase();
    rows.push(row);
    waiting.push(row);
    if (rows.length > rowsKept + 500) {
        for (const old of rows.splice(0, rows.length - rowsKept)) if (events.get(old.origin) === old) events.delete(old.origin);
    }
}

function clear() {
    [rows, waiting, held, chosen, shown] = [[], [], held && [], null, null];
    events.clear();
    drawAll();
    detail.replaceChildren();
}

// MARK: stores

function takeStores(all) {
    const open = new Set(all.map((store) => store.id));
    for (const id of [...stores.keys()]) if (!open.has(id)) stores.delete(id);
    for (const store of all) {
        const known = stores.get(store.id);
        stores.set(store.id, known?.name === store.name ? Object.assign(known, store) : store);
    }
    if (chosenStore !== null && !open.has(chosenStore)) {
        chosenStore = null;
        drawAll();
    }
    drawStores();
}

/** Those that stay keep their elements: one of them may have the focus. */
function drawStores() {
    const places = element("stores");
    for (const made of [...places.children]) if (stores.get(made.store.id) !== made.store) made.remove();
    for (const [index, store] of [...stores.values()].entries()) {
        store.element ??= makeStore(store);
        store.element.className = store.id === chosenStore ? "chosen" : "";
        drawRevision(store);
        if (places.children[index] !== store.element) places.insertBefore(store.element, places.children[index] ?? null);
    }
}

function makeStore(store) {
    store.facts = make("small");
    const choose = () => {
        chosenStore = chosenStore === store.id ? null : store.id;
        drawStores();
        drawAll();
    };
    return make(
        "li", { store },
        make("button", { type: "button", className: "name", title: store.name, on: choose }, store.name, store.facts),
        make("button", { type: "button", className: "look", on: () => showStore(store) }, "state"));
}

function drawRevision(store) {
    const type = store.name.includes(store.type) ? null : store.type;
    const facts = [type, store.dispatcher, `revision ${store.revision}`].filter((fact) => fact);
    const text = facts.join(" · ");
    if (store.facts.textContent !== text) store.facts.textContent = text;
}

async function showStore(store) {
    choose(null);
    shown = null;
    const mine = {};
    asked = mine;
    const text = await ask(`stores/${store.id}`, (answer) => answer.text());
    // Somebody has asked for something else meanwhile.
    if (asked !== mine || shown) return;
    detail.replaceChildren(make("h2", {}, `${store.name}, current state`), make("div", { className: "tabs" }), code(text));
}

// MARK: the list

function matches(row) {
    if (row.kind === "gap") return true;
    if (chosenStore !== null && row.store !== chosenStore) return false;
    const words = filter.value.toLowerCase().split(/\s+/).filter((word) => word && word !== "-");
    return words.every((word) => {
        // event:1 is not event:12.
        if (word.startsWith("event:")) return row.words.includes(`${word} `);
        return word.startsWith("-") ? !row.words.includes(word.slice(1)) : row.words.includes(word);
    });
}

const marks = { event: "⚡", action: "●", reaction: "◆", replaced: "⇄", failed: "✕", retry: "↻" };

function draw(row) {
    if (row.kind === "gap") return make("li", { className: "gap" }, `${row.missed} rows came too fast to show`);
    const facts = make("span", { className: "facts" });
    const fact = (text, className = "", on = null) => facts.append(make("span", { className, on }, text));
    if (row.place) fact(row.place);
    if (row.outcome && row.outcome !== "completed") fact(row.outcome, "problem");
    if (row.milliseconds !== undefined) fact(span(row.milliseconds * 1e6));
    if (row.nanoseconds !== undefined) fact(span(row.nanoseconds));
    if (row.kind !== "event" && row.origin) {
        fact(`⚡${row.origin}`, "origin", (click) => {
            click.stopPropagation();
            search(`event:${row.origin}`);
        });
    }
    if (row.revision !== undefined) fact(`r${row.revision}`);
    const made = make(
        "li", { className: `row ${row.kind}`, id: `row-${row.number}`, role: "option", on: () => choose(row) },
        make("time", {}, clock(row.time)),
        make("span", { className: "mark", title: row.kind }, marks[row.kind] ?? "·"),
        make("span", { className: "what", title: row.type + row.text }, make("b", {}, row.type), row.error ? ` ${row.error}` : row.text),
        facts);
    made.row = row;
    row.element = made;
    markOne(made);
    return made;
}

let isDrawing = false;

/** Draws what has come once per frame, however much that is. */
function drawSoon() {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(() => {
        isDrawing = false;
        drawNew();
    });
}

const isAtEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < 40;

function drawNew() {
    for (const store of stores.values()) if (store.facts) drawRevision(store);
    // A list that one looks at stands still.
    if (held || !follows) return drawFollow();
    const fresh = waiting.filter(matches).slice(-rowsDrawn);
    waiting = [];
    list.append(...fresh.map(draw));
    finish();
}

function drawAll() {
    waiting = held ? waiting.filter((row) => row.number > (held.at(-1)?.number ?? 0)) : [];
    list.replaceChildren(...(held ?? rows).filter(matches).slice(-rowsDrawn).map(draw));
    finish();
}

function drawFollow() {
    follow.hidden = waiting.length === 0;
    follow.textContent = `${waiting.length} new ↓`;
}

function finish() {
    while (list.childElementCount > rowsDrawn) list.firstElementChild.remove();
    list.scrollTop = list.scrollHeight;
    follows = true;
    drawFollow();
    const isEmpty = !list.querySelector(".row"); // there may be gaps
    element("empty").hidden = !isEmpty;
    element("empty").textContent = (held ?? rows).length === 0 ? "Nothing has happened yet." : "No row matches the filter.";
}

function search(words) {
    filter.value = words;
    drawAll();
}

// MARK: choosing

function choose(row) {
    const isOther = chosen !== row;
    chosen = row;
    list.setAttribute("aria-activedescendant", row ? `row-${row.number}` : "");
    for (const made of [...list.children, ...pins.children]) markOne(made);
    if (row && isOther) show(row);
}

function markOne(made) {
    const row = made.row;
    if (!row) return;
    made.classList.toggle("chosen", row === chosen);
    made.classList.toggle("same", row !== chosen && chosen?.origin !== undefined && row.origin === chosen.origin);
    made.setAttribute("aria-selected", String(row === chosen));
}

function move(step) {
    const drawn = [...list.children].filter((made) => made.row);
    const index = drawn.findIndex((made) => made.row === chosen);
    const next = drawn[index < 0 ? drawn.length - 1 : Math.min(Math.max(index + step, 0), drawn.length - 1)];
    if (!next) return;
    choose(next.row);
    next.scrollIntoView({ block: "nearest" });
}

// MARK: details

async function ask(path, read) {
    try {
        const answer = await fetch(new URL(path, here));
        if (answer.ok) return await read(answer);
        return answer.status === 404 ? "This is no longer kept." : `The program answered ${answer.status}.`;
    } catch {
        return "The program does not answer.";
    }
}

async function show(row) {
    const mine = pinned.get(row) ?? { row };
    shown = mine;
    // Who goes through many rows asks for the one they stay at.
    await new Promise((done) => setTimeout(done, 60));
    if (shown !== mine) return;
    const loading = setTimeout(() => {
        if (shown === mine) detail.replaceChildren(make("p", { className: "hint" }, "Loading…"));
    }, 200);
    await load(mine);
    clearTimeout(loading);
    if (shown !== mine) return;
    drawDetail();
}

async function load(mine) {
    if (mine.answer === undefined) {
        mine.answer = await ask(`rows/${mine.row.number}`, (answer) => answer.json());
    }
    if (mine.answer.hasState && mine.state === undefined && (tab === "state" || pinned.has(mine.row))) {
        mine.state = await ask(`rows/${mine.row.number}/state`, (answer) => answer.text());
    }
}

const tabs = [["changes", "Changes"], ["arguments", "Arguments"], ["state", "State after it"]];

function drawDetail() {
    const { row } = shown;
    const bar = make("div", { className: "tabs", role: "tablist" });
    for (const [name, title] of tabs) {
        const button = make("button", { type: "button", role: "tab", on: () => openTab(name) }, title);
        button.setAttribute("aria-selected", String(name === tab));
        bar.append(button);
    }
    const isPinned = pinned.has(row);
    const pin = make("button", { type: "button", className: "apart", on: () => togglePin() }, isPinned ? "Unpin" : "Pin");
    pin.setAttribute("aria-pressed", String(isPinned));
    bar.append(pin);
    detail.replaceChildren(make("h2", {}, row.type + row.text), make("dl"), bar, content());
    drawFacts();
}

function drawFacts() {
    const { row } = shown ?? {};
    const facts = detail.querySelector("dl");
    if (!row || !facts) return;
    const lines = [["When", clock(row.time)], ["What", `${row.kind}, row ${row.number}`]];
    if (row.place) lines.push([row.store ? "Store" : "Dispatcher", row.place]);
    if (row.outcome) lines.push(["Ended", row.outcome]);
    if (row.error ?? row.problem) lines.push(["Error", row.error ?? row.problem]);
    if (row.nanoseconds !== undefined) lines.push(["Took", span(row.nanoseconds)]);
    if (row.milliseconds !== undefined) lines.push(["Took", span(row.milliseconds * 1e6)]);
    if (["action", "reaction", "replaced"].includes(row.kind)) {
        lines.push(["Revision", row.revision === undefined ? "none: nothing was announced" : `${row.revision}`]);
    }
    facts.replaceChildren();
    for (const [name, value] of lines) facts.append(make("dt", {}, name), make("dd", {}, value));
    if (!row.origin) return;
    const links = (held ?? rows).filter((other) => other.origin === row.origin && other !== row).slice(0, 50).map((other) =>
        make("button", { type: "button", on: () => choose(other) }, `${marks[other.kind] ?? ""} ${other.type}${other.text}`.slice(0, 60)));
    if (links.length > 0) facts.append(make("dt", {}, row.kind === "event" ? "Led to" : "Same event"), make("dd", {}, ...links));
}

function content() {
    const { answer, state, row } = shown;
    if (typeof answer === "string") return make("p", { className: "hint" }, answer);
    if (tab === "arguments") return code(answer.arguments);
    if (!answer.hasState) {
        const isChange = ["action", "reaction", "replaced"].includes(row.kind);
        return make("p", { className: "hint" }, isChange
            ? "Nothing was announced. If this changed the state, the change appears with the next one that is announced."
            : "An event changes no state: its actions do.");
    }
    if (tab === "state") return code(state ?? "");
    if (!answer.difference) return make("p", { className: "hint" }, "The state is the same as before.");
    return code(answer.difference, true);
}

/** A text, line by line; of a difference those that came and went stand out. */
function code(text, isDifference = false) {
    return make("pre", { tabIndex: 0 }, ...text.split("\n").map((line) => {
        const kind = isDifference ? { "+": "more", "-": "less" }[line[0]] ?? "" : "";
        return make("span", { className: kind }, line === "" ? " " : line);
    }));
}

async function openTab(name) {
    tab = name;
    const mine = shown;
    if (!mine) return;
    await load(mine);
    if (shown === mine) drawDetail();
}

/** Keeps a row with all there is to say of it, also when the program has forgotten it. */
async function togglePin() {
    const mine = shown;
    if (!mine) return;
    if (!pinned.delete(mine.row)) {
        pinned.set(mine.row, mine);
        await load(mine);
        // There is nothing to keep.
        if (typeof mine.answer === "string") pinned.delete(mine.row);
    }
    // A row stands in the list and in the pins: the element that it knows is the one of the list.
    pins.replaceChildren(...[...pinned.values()].map(({ row }) => {
        const inList = row.element;
        const made = draw(row);
        made.removeAttribute("id");
        row.element = inList;
        return made;
    }));
    if (shown === mine) drawDetail();
}

// MARK: what people do

/** Has the list stand still on these rows; null: it goes on. */
function hold(what) {
    held = what;
    element("pause").setAttribute("aria-pressed", String(held !== null));
    element("pause").textContent = held ? "Resume" : "Pause";
}

function pause() {
    if (held) return goToEnd();
    hold(rows.slice());
}

function goToEnd() {
    hold(null);
    drawAll();
}

const keys = {
    ArrowUp: () => move(-1),
    ArrowDown: () => move(1),
    PageUp: () => move(-20),
    PageDown: () => move(20),
    End: goToEnd,
    "/": () => filter.focus(),
    " ": pause,
    p: togglePin,
    1: () => openTab("changes"),
    2: () => openTab("arguments"),
    3: () => openTab("state"),
};

document.addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey) return;
    const focus = document.activeElement;
    if (press.key === "Escape") {
        // The browser would clear the filter.
        press.preventDefault();
        return list.focus();
    }
    if (focus === filter) {
        if (press.key === "Enter" || press.key === "ArrowDown") list.focus();
        return;
    }
    // In the details the arrows scroll, and a button that has the focus takes Enter and Space.
    if (detail.contains(focus) && press.key.match(/^(Arrow|Page|End)/)) return;
    if (focus instanceof HTMLButtonElement && (press.key === " " || press.key === "Enter")) return;
    if (press.key === "Enter") return (detail.querySelector("pre") ?? detail).focus();
    const action = keys[press.key];
    if (!action) return;
    press.preventDefault();
    action();
});

filter.addEventListener("input", drawAll);
follow.addEventListener("click", goToEnd);
element("pause").addEventListener("click", pause);
element("clear").addEventListener("click", clear);
let lastTop = 0;
list.addEventListener("scroll", () => {
    // Who follows and scrolls no way up goes on: the list has got lower.
    follows = isAtEnd() || (follows && list.scrollTop >= lastTop);
    lastTop = list.scrollTop;
    if (!held && waiting.length > 0 && follows) drawSoon();
});
// A window that gets lower, or a pin that comes, is no scrolling away.
new ResizeObserver(() => {
    if (follows) list.scrollTop = list.scrollHeight;
}).observe(list);

// The token has become a cookie, and need not stand in the address.
if (location.search.includes("token=")) history.replaceState(null, "", location.pathname);
list.focus();
connect();
