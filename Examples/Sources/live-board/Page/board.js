// The page of one board. What the server tells is the only truth: the stream of events brings the board and each change
// of it, commands are sent beside it. A move or a vote is drawn before the server has told of it, as a guess on top of
// the truth, so that nothing jumps back for the time of a round trip. Whatever people write is shown as text.

const boardPath = `/boards/${location.pathname.split("/")[2]}`;
const byId = (id) => document.getElementById(id);
const boardArea = byId("board");

function make(tag, properties, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
}

// ---- Who I am ------------------------------------------------------------------------------------------------------
function kept(storage, key, value, isNew) {
    try {
        if (!isNew) value = window[storage].getItem(key) ?? value;
        window[storage].setItem(key, value);
    } catch { /* Where the browser keeps nothing, the page forgets who it was when it is loaded again. */ }
    return value;
}

const animals = ["Otter", "Heron", "Badger", "Finch", "Lynx", "Marten", "Wren", "Hare", "Plover", "Seal"];
const bytes = () => Array.from(crypto.getRandomValues(new Uint8Array(12)));
const someClient = () => bytes().map((byte) => byte.toString(36)).join("-");
let client = kept("sessionStorage", "live-board-client", someClient());
let myName = kept("localStorage", "live-board-name", animals[bytes()[0] % animals.length]);

// A tab that the browser has copied comes with the client of the other: it asks, and then is one of its own.
const [tabs, tab] = [new BroadcastChannel("live-board-tabs"), someClient()];
tabs.addEventListener("message", ({ data }) => {
    if (data.asks === client) tabs.postMessage({ taken: data.tab });
    if (data.taken !== tab) return;
    client = kept("sessionStorage", "live-board-client", someClient(), true);
    drawSoon(); // its votes are not the other's
    connect();
});
tabs.postMessage({ asks: client, tab });

// ---- The board as the server has told of it ------------------------------------------------------------------------
let board = null;
let revision = -1;
let order; // what tells the newest change from another of this revision, which a restored copy may have
let guesses = []; // { change, revision }: my changes that are drawn already; the revision is known once it is answered
let held = null; // { card, list, index, from, pointer }: the card in my hand, and where it would drop

// There may be no board, while a card of it is still open.
const listIn = (board, id) => board?.lists.find((list) => list.id === id);

function placeIn(board, id) {
    for (const list of board?.lists ?? []) {
        const index = list.cards.findIndex((card) => card.id === id);
        if (index >= 0) return { list, index, card: list.cards[index] };
    }
}

// A guess may be of a card or a list that somebody else has removed: then there is nothing to change.
function apply(change, board) {
    const { type, index, title } = change;
    if (type === "renamed") board.title = title;
    if (type === "listAdded") board.lists.splice(index, 0, change.list);
    const list = listIn(board, change.list);
    if (list && type === "listRenamed") list.title = title;
    if (list && type === "cardAdded") list.cards.splice(index, 0, change.card);
    if (list && (type === "listMoved" || type === "listRemoved")) {
        board.lists.splice(board.lists.indexOf(list), 1);
        if (type === "listMoved") board.lists.splice(index, 0, list);
    }
    const place = placeIn(board, change.card);
    if (!place) return;
    const { card } = place;
    if (type === "cardEdited") Object.assign(card, { title, text: change.text, revision: change.revision });
    if (type === "cardRemoved" || (type === "cardMoved" && list)) place.list.cards.splice(place.index, 1);
    if (type === "cardMoved") list?.cards.splice(index, 0, card);
    if (type === "voted") {
        card.voters = card.voters.filter((voter) => voter !== change.client);
        if (change.on) card.voters.push(change.client);
    }
}

// What is drawn: the truth, my guesses, and the card in my hand where it would drop.
function shownBoard() {
    const changes = guesses.map((guess) => guess.change);
    if (held) changes.push({ ...held, type: "cardMoved" });
    if (!board || changes.length === 0) return board;
    const shown = structuredClone(board);
    for (const change of changes) apply(change, shown);
    return shown;
}

function takeState(state) {
    ({ board, revision, order } = state); // it may be an older one, of a server that has lost its data
    guesses = guesses.filter((guess) => guess.revision === Infinity);
    settle();
}

function takeChange(news) {
    if (news.revision <= revision) return;
    if (news.revision > revision + 1) {
        revision = -1; // the next line then starts with the state
        throw new Error("A change is missing before this one.");
    }
    apply(news.change, board);
    ({ revision, order } = news);
    const isMine = news.client === client;
    if (!isMine && news.change.type !== "voted") changed.add(news.change.card?.id ?? news.change.card);
    // What this opening of the editor has sent is known before its answer comes, or though that never does.
    const { type, card, title, text } = news.change;
    if (isMine && edited?.isSent && type === "cardEdited" && card === edited.id) {
        Object.assign(edited, { title, text, revision: news.change.revision });
        showConflict(null);
    }
    settle();
}

// Forgets the guesses that the server has told of by now, and what is held where somebody else has removed it.
function settle() {
    guesses = guesses.filter((guess) => guess.revision > revision);
    drawSoon();
    if (!held || (placeIn(board, held.card) && listIn(board, held.list))) return;
    endDrag();
    letGo("Someone else removed it.");
}

// ---- The stream of events ------------------------------------------------------------------------------------------
const silenceLimit = 40_000; // the server sends a comment every 15 s, so a line that is silent for longer is dead
const hiddenLimit = 60_000; // a page nobody sees gives up its line: a browser has six for all pages of a server
let line = null; // the AbortController of the stream that is open
let failures = 0;
let writable = true; // false while the server cannot save, and so waits with what it is sent
let retryTimer = 0;
let hiddenTimer = 0;

function showConnection(state, words) {
    const shown = byId("connection");
    shown.dataset.state = state;
    setText(shown, words); // which tells those who do not see it, and only where it says something else
}

function hangUp() {
    clearTimeout(retryTimer);
    line?.abort();
    line = null;
}

async function connect() {
    hangUp();
    const mine = line = new AbortController();
    try {
        await listen(mine);
    } catch { /* However the line has ended, the next one is the answer. */ }
    if (mine !== line) return;
    hangUp();
    showConnection("lost", "Reconnecting…");
    retryTimer = setTimeout(connect, Math.min(8000, 250 * 2 ** failures) * (0.75 + Math.random() / 2));
    failures += 1;
}

async function listen(mine) {
    let silence = setTimeout(() => mine.abort(), silenceLimit);
    const last = revision < 0 ? "" : `&last=${revision}${order ? `-${order}` : ""}`;
    // Half a character, which a field may have, cannot be encoded.
    const query = `client=${client}&name=${encodeURIComponent(myName.toWellFormed())}${last}`;
    const response = await fetch(`${boardPath}/events?${query}`, { signal: mine.signal, cache: "no-store" });
    writable = true; // until this line says otherwise
    if (response.status === 404) return showNoBoard();
    if (!response.ok) {
        const problem = await response.json();
        if (byId("loading")) setText(byId("loading"), wordsOf(problem) || "This board cannot be shown.");
        throw new Error(`The server answered ${response.status}.`);
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { value, done } = await reader.read();
        clearTimeout(silence);
        if (done || mine !== line) return;
        silence = setTimeout(() => mine.abort(), silenceLimit);
        const blocks = (rest + value).split("\n\n"); // an event is some lines with an empty one after them
        rest = blocks.pop();
        blocks.forEach(takeEvent);
    }
}

function takeEvent(block) {
    // By "\n" alone: to a regular expression a line also ends at U+2028 and U+2029, which may be in what people write.
    const field = (name) => block.split("\n").find((one) => one.startsWith(`${name}: `))?.slice(name.length + 2);
    const [event, data] = [field("event"), field("data")];
    if (!data) return;
    if (event === "access") ({ writable } = JSON.parse(data));
    if (writable) showConnection("live", "Live");
    else showConnection("read-only", "Read-only");
    if (event === "state") takeState(JSON.parse(data));
    if (event === "change") takeChange(JSON.parse(data));
    if (event === "here") showPeople(JSON.parse(data));
    failures = 0; // not before: a line whose events are not understood is not tried again at once each time
}

// It may be back later, and is drawn anew then.
function showNoBoard() {
    hangUp();
    endDrag();
    if (held) letGo("Someone else removed it.");
    [board, revision, guesses] = [null, -1, []];
    for (const drawn of [lists, cards]) removeGone(drawn, []);
    showWhatThereIs(false);
    showConnection("lost", "No such board");
}

function showWhatThereIs(isBoard) {
    byId("loading")?.remove();
    boardArea.removeAttribute("aria-busy");
    byId("add-list").hidden = byId("people-button").hidden = !isBoard;
    byId("no-board").hidden = isBoard;
    byId("undo").disabled = !isBoard;
}

function heedWhetherSeen() {
    clearTimeout(hiddenTimer);
    if (!document.hidden && !line) connect();
    if (document.hidden) hiddenTimer = setTimeout(() => { hangUp(); showConnection("paused", "Paused"); }, hiddenLimit);
}

document.addEventListener("visibilitychange", heedWhetherSeen);
addEventListener("online", () => { if (!document.hidden) connect(); });
addEventListener("offline", () => { if (line) connect(); }); // which finds that out at once
// A browser may keep a page that one has left, with its line, for the way back.
addEventListener("pagehide", hangUp);
addEventListener("pageshow", (event) => { if (event.persisted) heedWhetherSeen(); });

// ---- Commands ------------------------------------------------------------------------------------------------------
async function post(path, content) {
    try {
        const headers = { "Content-Type": "application/json" };
        const body = JSON.stringify(content);
        const response = await fetch(path, { method: "POST", headers, body, signal: AbortSignal.timeout(15_000) });
        const answer = await response.json();
        return response.ok ? { answer } : { problem: answer };
    } catch {
        return { problem: { detail: "The server does not answer. Saved changes appear once the page is connected again." } };
    }
}

const postCommand = (command) => post(`${boardPath}/commands?client=${client}`, command);

// Sends a command, draws at once what is guessed to come of it, and tells of a problem. Returns the answer, if any.
async function send(command, change) {
    const guess = { change, revision: Infinity };
    if (change) guesses.push(guess);
    drawSoon();
    const { answer, problem } = await postCommand(command);
    guess.revision = answer?.revision ?? -1;
    settle();
    if (problem) tell(problem);
    return answer;
}

function tell(problem) {
    if (problem.type?.endsWith(":nothing-to-undo")) toast("notices", "You have nothing to undo.");
    else toast("alerts", wordsOf(problem));
}

const wordsOf = ({ title, detail }) => [title, detail].filter(Boolean).join(". ");
// In isolation: words that run from right to left turn round nothing but themselves.
const quoted = (words) => `“\u2068${words}\u2069”`;

function toast(kind, text) {
    const message = byId("toast-template").content.firstElementChild.cloneNode(true);
    let before = null; // what had the focus before the message's button
    const dismiss = () => {
        const next = before?.isConnected ? before : byId("undo");
        if (message.contains(document.activeElement)) next.focus({ preventScroll: true });
        message.remove();
    };
    message.querySelector("p").textContent = text;
    message.querySelector("button").addEventListener("click", dismiss);
    message.addEventListener("focusin", (event) => { before = event.relatedTarget; });
    message.addEventListener("dismiss", dismiss);
    byId(kind).append(message);
    if (byId(kind).children.length > 3) byId(kind).firstElementChild.dispatchEvent(new Event("dismiss"));
    setTimeout(dismiss, 8000);
}

function announce(text) {
    byId("announcer").textContent = text;
}

// ---- Drawing -------------------------------------------------------------------------------------------------------
const lists = new Map(); // id -> what is drawn of the list
const cards = new Map(); // id -> what is drawn of the card
let drawing = false;
let drawAsked = 0;

function drawSoon() {
    if (!drawAsked) drawAsked = requestAnimationFrame(draw);
}

function draw() {
    cancelAnimationFrame(drawAsked);
    drawAsked = 0;
    if (!board) return;
    const focused = document.activeElement;
    const list = focused.closest(".list");
    const near = list ? [list, list.nextElementSibling, byId("add-list")] : [];
    const places = placesOfCards();
    drawing = true;
    drawBoard(shownBoard());
    drawing = false;
    // Where what had the focus is gone, whoever works by keyboard goes on in the list, or the next, and not at the top of
    // the page.
    const there = near.find((one) => one.isConnected);
    const next = there?.querySelector("form:not([hidden]) [name=title], .add:not([hidden])");
    if (focused !== document.activeElement) (focused.isConnected ? focused : next)?.focus({ preventScroll: true });
    glide(places);
    noteInEditor();
}

function drawBoard(shown) {
    showWhatThereIs(true);
    document.title = `${shown.title} · live board`;
    setText(byId("title"), shown.title);
    removeGone(lists, shown.lists);
    arrange(boardArea, shown.lists.map((list, index) => drawList(list, index, shown.lists.length)), byId("add-list"));
    for (const list of shown.lists) arrange(lists.get(list.id).cards, list.cards.map(drawCard), null);
    removeGone(cards, shown.lists.flatMap((list) => list.cards));
}

function removeGone(drawn, wanted) {
    const ids = new Set(wanted.map((one) => one.id));
    for (const [id, parts] of drawn) {
        if (ids.has(id)) continue;
        parts.root.remove();
        drawn.delete(id);
    }
}

// Puts the wanted elements in order before `end`, and moves as few as it can: one that is moved may lose its focus,
// if the browser is not one of the newer ones, which can move an element with its focus and its animations.
function arrange(parent, wanted, end) {
    const move = (element, before) => {
        if (element.isConnected && parent.moveBefore) parent.moveBefore(element, before);
        else parent.insertBefore(element, before);
    };
    wanted.forEach((element, index) => {
        const there = parent.children[index] ?? end;
        if (there === element) return;
        if (there && there !== end && there.nextElementSibling === element) move(there, end);
        else move(element, there);
    });
}

function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function drawList({ id, title, cards }, index, count) {
    if (!lists.has(id)) lists.set(id, makeList(id));
    const parts = lists.get(id);
    setText(parts.title, title);
    setText(parts.count, String(cards.length));
    parts.count.setAttribute("aria-label", counted(cards.length, "card"));
    parts.more.setAttribute("aria-label", `Options of ${title}`);
    parts.add.setAttribute("aria-label", `Add a card to ${title}`);
    parts.field.setAttribute("aria-label", `Title of the new card in ${title}`);
    parts.left.disabled = index === 0;
    parts.right.disabled = index === count - 1;
    parts.root.dataset.colour = index % 6;
    return parts.root;
}

function makeList(id) {
    const root = byId("list-template").content.firstElementChild.cloneNode(true);
    const part = (selector) => root.querySelector(selector);
    const [menu, more, title] = [part(".menu"), part(".list-more"), part(".list-title")];
    root.dataset.list = id;
    title.id = `title-${id}`;
    root.setAttribute("aria-labelledby", title.id);
    more.popoverTargetElement = menu;
    menu.addEventListener("toggle", () => putBelow(menu, more));
    return {
        root, menu, more, title, cards: part(".cards"), count: part(".list-count"), add: part("[data-do=compose]"),
        field: part("textarea"), left: part("[data-do=left]"), right: part("[data-do=right]"),
    };
}

function drawCard({ id, title, text, voters }) {
    if (!cards.has(id)) cards.set(id, makeCard(id));
    const parts = cards.get(id);
    setText(parts.title, title);
    setText(parts.text, text);
    setText(parts.count, String(voters.length || ""));
    parts.vote.setAttribute("aria-pressed", voters.includes(client));
    parts.vote.setAttribute("aria-label", `Vote for ${title}: ${counted(voters.length, "vote")}`);
    parts.root.classList.toggle("held", held?.card === id);
    parts.root.classList.toggle("carried", held?.card === id && held.pointer);
    return parts.root;
}

function makeCard(id) {
    const root = byId("card-template").content.firstElementChild.cloneNode(true);
    const [title, text, vote, count] = root.querySelectorAll(".card-title, .card-text, .vote, .vote-count");
    root.dataset.card = id;
    return { root, title, text, vote, count };
}

// ---- Motion --------------------------------------------------------------------------------------------------------
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const changed = new Set(); // the cards that somebody else has just changed
let dropped = null; // { card, rectangle }: where a card was let go of, to glide into its place from there

// Where the cards are on the screen. Nothing moves where people do not want it, or where it would be too much work.
function placesOfCards() {
    const places = new Map();
    if (calm.matches || cards.size > 300) return places;
    for (const [id, parts] of cards) places.set(id, parts.root.getBoundingClientRect());
    if (dropped) places.set(dropped.card, dropped.rectangle);
    dropped = null;
    return places;
}

// Lets the cards glide from where they were to where they are now, and those that others changed light up.
function glide(places) {
    for (const [id, parts] of places.size ? cards : []) {
        const before = places.get(id);
        parts.glide?.cancel();
        const after = parts.root.getBoundingClientRect();
        const from = before && `translate(${before.x - after.x}px, ${before.y - after.y}px)`;
        const moved = before && Math.abs(before.x - after.x) + Math.abs(before.y - after.y) > 1;
        if (moved) parts.glide = parts.root.animate([{ transform: from }, {}], { duration: 180, easing: "ease-out" });
        if (!before) parts.root.animate([{ opacity: 0 }, {}], { duration: 180 });
        if (changed.has(id)) parts.root.animate([{ outlineColor: "var(--accent)" }, {}], { duration: 1600 });
    }
    changed.clear();
}

// ---- Moving a card: what pointer and keyboard share ----------------------------------------------------------------
function pickUp(card, pointer) {
    const { list, index } = placeIn(shownBoard(), card);
    const from = { list: list.id, index };
    held = { card, pointer, from, ...from };
    draw();
}

function putDown() {
    const { card, list, index, from } = held;
    const moved = list !== from.list || index !== from.index;
    announce(moved ? `Dropped in ${wordsForPlace()}.` : "Put back where it was.");
    held = null;
    if (moved) send({ type: "moveCard", card, list, index }, { type: "cardMoved", card, list, index });
    draw();
}

function letGo(words = "Put back where it was.") {
    held = null;
    announce(words);
    draw();
}

function wordsForPlace() {
    const { title, cards } = listIn(shownBoard(), held.list);
    return `${title}, position ${held.index + 1} of ${cards.length}`;
}

// ---- Moving a card by keyboard -------------------------------------------------------------------------------------
const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

boardArea.addEventListener("keydown", (event) => {
    if (!event.target.matches(".card-title") || event.ctrlKey || event.metaKey || event.altKey || held?.pointer) return;
    if (event.key === " " && !held) {
        pickUp(event.target.closest(".card").dataset.card, false);
        announce(`Picked up, in ${wordsForPlace()}. Arrow keys move it, Space drops it, Escape puts it back.`);
    } else if (held && (event.key === " " || event.key === "Enter")) putDown();
    else if (held && event.key === "Escape") letGo();
    else if (held && arrows[event.key]) carry(...arrows[event.key]);
    else return;
    event.preventDefault();
});

// A button is pressed as Space comes up again: after Space has picked a card up, that must not open it.
boardArea.addEventListener("keyup", (event) => {
    if (event.key === " " && event.target.matches(".card-title")) event.preventDefault();
});

boardArea.addEventListener("focusout", () => {
    if (!drawing && held && !held.pointer) letGo();
});

function carry(across, down) {
    const shown = shownBoard();
    const list = shown.lists[shown.lists.findIndex((list) => list.id === held.list) + across];
    if (!list) return;
    const last = list.id === held.list ? list.cards.length - 1 : list.cards.length;
    held.list = list.id;
    held.index = Math.max(0, Math.min(held.index + down, last));
    draw();
    cards.get(held.card).root.scrollIntoView({ block: "nearest", inline: "nearest" });
    announce(`${wordsForPlace()}.`);
}

// ---- Moving a card by pointer --------------------------------------------------------------------------------------
let press = null; // the pointer that is down on a card, and once it drags, the ghost of the card that follows it

boardArea.addEventListener("pointerdown", (event) => {
    const root = event.target.closest(".card");
    if (!root || press || held || event.button !== 0 || !event.isPrimary || event.target.closest(".vote")) return;
    const { x, y } = root.getBoundingClientRect();
    const [startX, startY] = [event.clientX, event.clientY];
    press = {
        card: root.dataset.card, id: event.pointerId, touch: event.pointerType !== "mouse",
        x: startX, y: startY, startX, startY, insideX: startX - x, insideY: startY - y,
    };
    // A finger that moves at once scrolls; one that rests picks the card up.
    if (press.touch) press.timer = setTimeout(startDrag, 260);
});

document.addEventListener("pointermove", (event) => {
    if (press?.id !== event.pointerId) return;
    if (!press.touch && !event.buttons) return finishPress(letGo); // it was let go of where nobody told
    [press.x, press.y] = [event.clientX, event.clientY];
    const way = Math.hypot(press.x - press.startX, press.y - press.startY);
    if (press.ghost) followPointer();
    else if (press.touch && way > 10) endDrag();
    else if (!press.touch && way > 5) startDrag();
});

document.addEventListener("pointerup", (event) => { if (press?.id === event.pointerId) finishPress(putDown); });
document.addEventListener("pointercancel", (event) => { if (press?.id === event.pointerId) finishPress(letGo); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && press?.ghost) finishPress(letGo); });

// While a finger drags a card, the page must not scroll along, and no menu may open over it.
document.addEventListener("touchmove", (event) => { if (press?.ghost) event.preventDefault(); }, { passive: false });
document.addEventListener("contextmenu", (event) => { if (press?.touch) event.preventDefault(); });

function startDrag() {
    const { root } = cards.get(press.card) ?? {};
    if (!root) return endDrag();
    const { width, height } = root.getBoundingClientRect();
    press.ghost = root.cloneNode(true);
    press.ghost.classList.add("ghost");
    press.ghost.inert = true;
    Object.assign(press.ghost.style, { width: `${width}px`, height: `${height}px` });
    document.body.append(press.ghost);
    document.body.classList.add("dragging");
    boardArea.setPointerCapture(press.id); // so the click at the end is not one on the card
    pickUp(press.card, true);
    followPointer();
    press.frame = requestAnimationFrame(scrollAtEdges);
}

function finishPress(finish) {
    if (!press.ghost) return endDrag();
    dropped = { card: press.card, rectangle: press.ghost.getBoundingClientRect() };
    endDrag();
    finish();
}

function endDrag() {
    clearTimeout(press?.timer);
    cancelAnimationFrame(press?.frame);
    press?.ghost?.remove();
    document.body.classList.remove("dragging");
    press = null;
}

function followPointer() {
    const top = press.y - press.insideY;
    press.ghost.style.translate = `${press.x - press.insideX}px ${top}px`;
    const place = placeUnder(press.x, top);
    if (place.list === held.list && place.index === held.index) return;
    Object.assign(held, place);
    drawSoon();
}

// The list nearest to the pointer, and how many cards of it have their middle above the top of the ghost. They are
// counted as if the card in the hand were not among them, so the place cannot flip to and fro.
function placeUnder(x, top) {
    const distance = ([, { root }]) => {
        const { left, right } = root.getBoundingClientRect();
        return Math.max(left - x, x - right, 0);
    };
    const [list, { cards: column }] = [...lists].reduce((best, one) => (distance(one) < distance(best) ? one : best));
    const gap = parseFloat(getComputedStyle(column).rowGap);
    let y = column.getBoundingClientRect().top - column.scrollTop;
    let index = 0;
    for (const root of column.children) {
        if (root.dataset.card === held.card) continue;
        if (top <= y + root.offsetHeight / 2) break;
        y += root.offsetHeight + gap;
        index += 1;
    }
    return { list, index };
}

// Scrolls the board and the list while the pointer rests at an edge of it.
function scrollAtEdges() {
    const beyond = (at, start, end) => Math.min(0, at - start - 40) + Math.max(0, at - end + 40);
    const speed = (...position) => Math.max(-14, Math.min(14, beyond(...position) / 4));
    const { cards: column } = lists.get(held.list);
    const { top, bottom } = column.getBoundingClientRect();
    boardArea.scrollLeft += speed(press.x, 0, innerWidth);
    column.scrollTop += speed(press.y, top, bottom);
    followPointer();
    press.frame = requestAnimationFrame(scrollAtEdges);
}

// ---- What is clicked on the board ----------------------------------------------------------------------------------
boardArea.addEventListener("click", (event) => {
    const list = event.target.closest(".list");
    const card = event.target.closest(".card")?.dataset.card;
    const button = event.target.closest("button");
    const on = button?.getAttribute("aria-pressed") !== "true";
    if (event.target.matches(".list-title")) renameList(list.dataset.list);
    if (!button) return;
    if (button.matches(".card-title")) openEditor(card);
    if (button.matches(".vote")) send({ type: "vote", card, on }, { type: "voted", card, client, on });
    if (["compose", "close"].includes(button.dataset.do)) compose(list, button.dataset.do);
    if (button.closest(".menu")) choose(button.dataset.do, list);
});

function choose(action, { dataset: { list } }) {
    lists.get(list).menu.hidePopover();
    if (action === "rename") renameList(list);
    if (action === "remove") remove({ type: "removeList", list }, lists.get(list));
    if (action !== "left" && action !== "right") return;
    const index = shownBoard().lists.findIndex(({ id }) => id === list) + (action === "left" ? -1 : 1);
    send({ type: "moveList", list, index }, { type: "listMoved", list, index });
    announce(`Moved to position ${index + 1} of ${board.lists.length}.`);
}

async function remove(command, drawn) {
    const words = drawn?.title.textContent;
    if (await send(command)) toast("notices", `${quoted(words)} was removed. Undo brings it back.`);
}

function renameList(list) {
    editInPlace(lists.get(list).title, "Title of the list", (title) => send({ type: "renameList", list, title }));
}

// Puts a field in place of a heading until Enter or another focus saves it, or Escape leaves it as it was. After a key, the
// button beside the heading has the focus. Where the words are not taken the field is there again with them.
function editInPlace(heading, label, save, refused) {
    if (heading.hidden && refused === undefined) heading.nextElementSibling.select(); // it may have lost the focus
    if (heading.hidden || !heading.isConnected) return;
    const before = heading.textContent;
    const button = heading.parentElement.querySelector("button");
    const field = make("input", { className: "in-place", ariaLabel: label, value: refused ?? before });
    let finished = false;
    const finish = (title) => {
        if (finished) return; // the field loses its focus as it is taken away
        finished = true;
        heading.hidden = false;
        field.remove();
        // The server may have told of these words meanwhile, though their answer was lost.
        if (!title || title === before || title === heading.textContent) return;
        save(title).then((answer) => answer ?? editInPlace(heading, label, save, title));
    };
    field.addEventListener("blur", () => { if (!drawing) finish(field.value.trim()); });
    field.addEventListener("keydown", (event) => {
        if (event.isComposing) return; // the key is for whoever composes the character
        if (event.key !== "Enter" && event.key !== "Escape") return;
        event.preventDefault(); // the button gets the focus, and not the key
        finish(event.key === "Enter" ? field.value.trim() : before);
        button.focus({ preventScroll: true });
    });
    heading.hidden = true;
    heading.after(field);
    // Nobody is taken away from what they do meanwhile.
    if (refused === undefined || [document.body, button].includes(document.activeElement)) field.select();
}

// ---- Adding cards and lists ----------------------------------------------------------------------------------------
// Opens the field for a new card or list in place of its button, or closes it.
function compose(root, action) {
    const [button, form] = root.querySelectorAll(".list > .add, .composer");
    button.hidden = action === "compose";
    form.hidden = action === "close";
    (button.hidden ? form.elements.title : button).focus();
}

// The field is empty at once for the next title. Where the server does not take this one, the words come back, before
// those that were written meanwhile.
boardArea.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { list } = event.target.closest(".list").dataset;
    const field = event.target.elements.title;
    const title = field.value.replace(/\s+/g, " ").trim();
    if (!title) return;
    field.value = "";
    const answer = await send(list ? { type: "addCard", list, title } : { type: "addList", title });
    if (!answer) field.value = `${title} ${field.value}`.trimEnd();
    else field.scrollIntoView({ block: "nearest", inline: "nearest" });
});

boardArea.addEventListener("keydown", (event) => {
    const composer = event.target.closest(".composer");
    if (!composer || event.isComposing) return;
    if (event.key === "Escape") compose(composer.closest(".list"), "close");
    if (event.key !== "Enter" || !event.target.matches("textarea")) return;
    event.preventDefault();
    composer.requestSubmit();
});

// ---- The editor of a card ------------------------------------------------------------------------------------------
const dialog = byId("editor");
const fields = ["note", "title", "text", "list", "position", "conflict", "error", "save"];
const editor = Object.fromEntries(fields.map((name) => [name, byId(`editor-${name}`)]));
let edited = null; // the card as it was when my words were begun, with its list and its index
let theirs = null; // the card as somebody else has left it, once the server has refused mine for that

function openEditor(id) {
    const { card, list, index } = placeIn(shownBoard(), id) ?? {};
    if (!card) return;
    edited = { ...card, list: list.id, index };
    showWords(card);
    editor.error.textContent = "";
    showConflict(null);
    editor.save.disabled = false; // the answer for the card before it may be yet to come
    editor.list.replaceChildren(...board.lists.map((list) => new Option(list.title, list.id)));
    editor.list.value = list.id;
    offerPositions();
    dialog.showModal();
    noteInEditor();
}

// Fills the fields; what they make of the words is what mine are compared with, for they have no line breaks, or others.
function showWords({ title, text }) {
    editor.title.value = title;
    editor.text.value = text;
    edited.title = editor.title.value.trim();
    edited.text = editor.text.value;
}

// The positions the card may have in the chosen list: in its own it stays, in another it goes to the end.
function offerPositions() {
    const others = listIn(shownBoard(), editor.list.value)?.cards.filter((card) => card.id !== edited.id) ?? [];
    const option = (_, index) => new Option(`${index + 1} of ${others.length + 1}`, index);
    editor.position.replaceChildren(...Array.from({ length: others.length + 1 }, option));
    editor.position.value = editor.list.value === edited.list ? edited.index : others.length;
}

// Says as soon as it happens that somebody else changes the card that is open here; saving then shows both.
function noteInEditor() {
    if (!dialog.open) return;
    const card = placeIn(board, edited.id)?.card;
    const words = card ? "Someone else changed this card." : "Someone else removed this card. Your text stays here.";
    setText(editor.note, card?.revision <= edited.revision ? "" : words);
}

function showConflict(card) {
    theirs = card;
    editor.conflict.hidden = !card;
    byId("conflict-title").textContent = card?.title ?? "";
    byId("conflict-text").textContent = card?.text ?? "";
    editor.save.textContent = card ? "Save mine instead" : "Save";
}

byId("editor-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const mine = edited;
    // While the server is asked it may be closed, and another card opened.
    const isOpen = () => dialog.open && edited === mine;
    const { id: card, revision } = mine;
    const title = editor.title.value.trim();
    const text = editor.text.value;
    const place = { card, list: editor.list.value, index: Number(editor.position.value) };
    if (title !== edited.title || text !== edited.text) {
        mine.isSent = true;
        editor.save.disabled = true;
        const { problem } = await postCommand({ type: "editCard", card, title, text, revision });
        if (isOpen()) editor.save.disabled = false;
        if (problem && isOpen()) return refuse(problem);
        if (problem) return toast("alerts", `${quoted(mine.title)}: ${wordsOf(problem)}`);
    }
    if (isOpen()) dialog.close();
    const moved = place.list !== mine.list || place.index !== mine.index;
    if (moved) send({ type: "moveCard", ...place }, { type: "cardMoved", ...place });
});

// My words stay in the fields. Saving again is then based on what the other has written, which is shown below them.
function refuse(problem) {
    editor.error.textContent = problem.card ? "" : wordsOf(problem);
    if (!problem.card) return;
    Object.assign(edited, problem.card);
    showConflict(problem.card);
    noteInEditor();
    editor.conflict.scrollIntoView({ block: "nearest" });
}

function useTheirs() {
    showWords(theirs);
    showConflict(null);
    editor.title.focus();
}

dialog.addEventListener("click", (event) => {
    const action = event.target.closest("button")?.dataset.do;
    if (action === "theirs") useTheirs();
    if (action === "cancel" || action === "remove") dialog.close();
    if (action === "remove") remove({ type: "removeCard", card: edited.id }, cards.get(edited.id));
});
dialog.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) editor.save.click(); // not while it is saved
});
editor.list.addEventListener("change", offerPositions);

// ---- People, boards, and the bar -----------------------------------------------------------------------------------
// The first letter of a name, which has the same colour each time.
function face(name) {
    const drawn = make("span", { className: "face", ariaHidden: "true" }, [...name.trim()][0]?.toUpperCase() ?? "?");
    drawn.dataset.colour = [...name].reduce((sum, character) => sum + character.codePointAt(0), 0) % 6;
    return drawn;
}

function showPeople({ count, names }) {
    byId("faces").replaceChildren(...names.slice(0, 3).map(face));
    byId("people-count").textContent = `${count} here`;
    byId("names").replaceChildren(
        ...names.map((name) => make("li", {}, face(name), make("span", { dir: "auto", textContent: name }))));
    if (count > names.length) byId("names").append(make("li", { textContent: `and ${count - names.length} more` }));
}

byId("name").value = myName;
byId("name-form").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("people").hidePopover();
    myName = kept("localStorage", "live-board-name", byId("name").value.trim() || myName, true);
    connect();
});

byId("people").addEventListener("toggle", () => putBelow(byId("people"), byId("people-button")));
byId("boards").addEventListener("toggle", () => putBelow(byId("boards"), byId("boards-button")));
byId("boards-button").addEventListener("click", async () => {
    const { boards = [] } = await fetch("/boards").then((response) => response.json()).catch(() => ({}));
    boards.sort((one, other) => one.title.localeCompare(other.title, undefined, { numeric: true }));
    byId("boards-list").replaceChildren(...boards.map(({ id, title }) => {
        const ariaCurrent = boardPath === `/boards/${id}` ? "page" : null;
        return make("li", {}, make("a", { href: `/b/${id}`, textContent: title, dir: "auto", ariaCurrent }));
    }));
});

// The field is empty at once, as that of a card is: to press twice makes one board.
byId("boards-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = byId("boards-title");
    const title = field.value.trim();
    field.value = "";
    const { answer, problem } = await post("/boards", { title });
    if (answer) return location.assign(`/b/${answer.id}`);
    field.value = title;
    tell(problem);
});

function renameBoard() {
    byId("boards").hidePopover();
    if (board) editInPlace(byId("title"), "Title of the board", (title) => send({ type: "rename", title }));
}

function putBelow(popover, button) {
    const { left, right, bottom } = button.getBoundingClientRect();
    const x = left + popover.offsetWidth > innerWidth - 12 ? right - popover.offsetWidth : left;
    Object.assign(popover.style, { left: `${Math.max(12, x)}px`, top: `${bottom + 8}px` });
}

byId("title").addEventListener("click", renameBoard);
byId("rename-board").addEventListener("click", renameBoard);
byId("undo").addEventListener("click", undo);

async function undo() {
    if (byId("undo").disabled) return;
    if (await send({ type: "undo" })) announce("Your last change was undone.");
}

document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input, textarea, select, dialog");
    const key = event.key?.toLowerCase(); // none where the browser fills in a field
    if (key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || inField) return;
    event.preventDefault();
    undo();
});

connect();
heedWhetherSeen(); // also where the page is opened behind another, and is told of no change
