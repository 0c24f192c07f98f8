#!/usr/bin/env python3
"""Drives the page of live-board in real browsers, against the real server.

Needs Chromium, its driver, Selenium and nats-server; Examples/README.md says how to get them.

    python3 Examples/Tests/Browser/board_test.py [--server PROGRAM] [--screenshots FOLDER] [-k PATTERN] [-v]
"""

import argparse
import contextlib
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

EXAMPLES = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 20  # seconds until a wait fails; a page that works needs far less
TOKEN = "known-to-the-test"  # what the inspector asks for

options = argparse.Namespace(
    server=os.environ.get("LIVE_BOARD", str(EXAMPLES / ".build/debug/live-board")), screenshots=None
)


class Server:
    """The program, on a folder of its own; it may be killed and started again on the same port and data."""

    def __init__(self, *arguments):
        self.folder = tempfile.TemporaryDirectory(prefix="board-test-")
        self.arguments = arguments
        self.port = 0
        self.process = None
        self.start()

    def start(self):
        command = [options.server, "--port", str(self.port), "--data", self.folder.name + "/data", "--inspect", TOKEN,
                   *self.arguments]
        self.log = open(self.folder.name + "/log", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        lines = queue.Queue()
        threading.Thread(target=lambda: lines.put(self.process.stdout.readline()), daemon=True).start()
        with contextlib.suppress(queue.Empty):
            self.address = lines.get(timeout=PATIENCE).strip()
            if self.address.startswith("http://"):
                self.port = int(self.address.rsplit(":", 1)[1])
                return
        self.kill()
        log = pathlib.Path(self.folder.name, "log").read_text()
        raise AssertionError(f"{options.server} did not print its address. Its log:\n{log[-4000:]}")

    def kill(self):
        """Ends the program as a crash would."""
        self.process.kill()
        self.ended()

    def terminate(self):
        """Asks the program to end; returns its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self):
        try:
            return self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"The server still runs {PATIENCE} s after it was asked to end.") from None
        finally:
            self.process.wait()
            self.process.stdout.close()
            self.log.close()

    def close(self):
        if self.process.returncode is None:
            self.kill()
        self.folder.cleanup()

    def request(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=PATIENCE)

    def ask(self, path, body=None):
        with self.request(path, body) as answer:
            return json.load(answer)


class Board:
    """A board of the server, filled without a browser."""

    def __init__(self, server, title, **lists):
        self.server = server
        self.id = server.ask("/boards", {"title": title})["id"]
        for list in self.state()["lists"]:
            self.command("removeList", list=list["id"])
        self.lists = {}
        self.cards = {}
        for list, cards in lists.items():
            self.lists[list] = self.command("addList", title=list)["id"]
            for card in cards:
                self.cards[card] = self.command("addCard", list=self.lists[list], title=card)["id"]

    def command(self, type, client="test-client", **parts):
        return self.server.ask(f"/boards/{self.id}/commands?client={client}", {"type": type, **parts})

    def state(self):
        return self.server.ask(f"/boards/{self.id}")["board"]

    def card(self, id):
        return next(card for list in self.state()["lists"] for card in list["cards"] if card["id"] == id)

    def shown(self):
        return [[list["title"], [card["title"] for card in list["cards"]]] for list in self.state()["lists"]]


def new_browser():
    settings = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,860",
                     "--hide-scrollbars"):
        settings.add_argument(argument)
    settings.binary_location = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    settings.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(settings, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_page_load_timeout(PATIENCE)
    return driver


class Page:
    """One person in front of a board. What is on the page is always read in one step, since it may change meanwhile."""

    def __init__(self, driver):
        self.driver = driver
        self.name = None

    def open(self, board, name):
        self.driver.get(board.server.address + "/health")
        self.driver.execute_script(
            "sessionStorage.clear(); localStorage.setItem('live-board-name', arguments[0])", name)
        self.name = name
        self.driver.get(f"{board.server.address}/b/{board.id}")
        self.until(lambda: self.connection() == "live", "is not connected to the board")

    def look(self, dark=False, width=1280, height=860, phone=False, scale=1):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone})
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": phone})

    def until(self, condition, message):
        try:
            return WebDriverWait(self.driver, PATIENCE, 0.05).until(lambda _: condition())
        except TimeoutException:
            raise AssertionError(f"The page of {self.name} {message}. It shows {self.lists()}.") from None

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def lists(self):
        return self.run("""
            return [...document.querySelectorAll(".list[data-list]")].map((list) => [
                list.querySelector(".list-title").textContent,
                [...list.querySelectorAll(".card-title")].map((card) => card.textContent)])""")

    def shows(self, *lists):
        wanted = [list(one) for one in lists]
        self.until(lambda: self.lists() == wanted, f"does not show {wanted}")

    def connection(self):
        return self.run("return document.getElementById('connection').dataset.state")

    def people(self):
        return self.run("""
            return [document.getElementById("people-count").textContent,
                [...document.querySelectorAll("#names li > :last-child")].map((name) => name.textContent)]""")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? null", selector)

    def value(self, selector):
        return self.run("return document.querySelector(arguments[0])?.value ?? null", selector)

    def shown(self, selector):
        return self.run("return document.querySelector(arguments[0])?.checkVisibility() ?? false", selector)

    def focused(self):
        """What has the focus, as far as a person would name it."""
        return self.run("""
            const it = document.activeElement;
            return it.getAttribute("aria-label") || it.textContent.trim() || it.id || it.tagName""")

    def at_rest(self, selector):
        """Waits until it is shown and nothing glides to its place any more: the driver clicks where it saw it last."""
        self.until(lambda: self.shown(selector), f"does not show {selector}")
        self.until(lambda: self.run("""
            return document.getAnimations().every((one) => one.playState !== "running"
                || one.effect.getKeyframes().every((frame) => !("transform" in frame)))"""), "never stands still")

    def click(self, selector):
        self.at_rest(selector)
        self.find(selector).click()

    def keys(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, modifier, key):
        ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def write(self, selector, text):
        field = self.find(selector)
        field.clear()
        field.send_keys(text)

    def add_card(self, list, title):
        self.click(f"[data-list={list}] [data-do=compose]")
        self.keys(title, Keys.ENTER)

    def open_card(self, card):
        self.click(f"[data-card={card}] .card-title")
        self.until(lambda: self.shown("#editor"), "does not open the card")

    def votes(self, card):
        return self.run("""
            const vote = document.querySelector(`[data-card=${arguments[0]}] .vote`);
            return [vote.getAttribute("aria-pressed"), vote.textContent.trim()]""", card)

    def middle(self, selector):
        self.at_rest(selector)
        return self.run("""
            const { x, y, width, height } = document.querySelector(arguments[0]).getBoundingClientRect();
            return [Math.round(x + width / 2), Math.round(y + height / 2)]""", selector)

    def problems(self):
        """What the browser has complained of: errors of the script, and what the page's policy has stopped."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if "Uncaught" in entry["message"] or "Content Security Policy" in entry["message"]]


class Hand:
    """Carries a card step by step, as a hand does: browsers tell of few moves where they are far apart."""

    def __init__(self, page):
        self.page = page

    def press(self, selector):
        self.x, self.y = self.page.middle(selector)
        self.down()

    def move(self, x, y):
        from_x, from_y = self.x, self.y
        for step in range(1, 7):
            self.x, self.y = from_x + (x - from_x) * step // 6, from_y + (y - from_y) * step // 6
            self.to()

    def carries(self):
        self.page.until(lambda: self.page.shown(".ghost"), "does not pick the card up")


class Mouse(Hand):
    def act(self, step):
        actions = ActionBuilder(self.page.driver, duration=20)
        step(actions.pointer_action)
        actions.perform()

    def down(self):
        self.to()
        self.act(lambda pointer: pointer.pointer_down())

    def to(self):
        self.act(lambda pointer: pointer.move_to_location(self.x, self.y))

    def release(self):
        self.act(lambda pointer: pointer.pointer_up())


class Finger(Hand):
    """Chromium's driver forgets a finger between two steps, so this one asks the browser itself."""

    def touch(self, type, *points):
        self.page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": type, "touchPoints": points})

    def down(self):
        self.touch("touchStart", {"x": self.x, "y": self.y})

    def to(self):
        self.touch("touchMove", {"x": self.x, "y": self.y})

    def release(self):
        self.touch("touchEnd")


class BoardTest(unittest.TestCase):
    """What people do on a board, each time on a new one with Ada and Bo before it."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.drivers = []
        for _ in range(2):
            driver = new_browser()
            cls.addClassCleanup(driver.quit)
            cls.drivers.append(driver)

    def setUp(self):
        self.board = Board(self.server, "Spring release", Ideas=["Dark theme", "Faster search"], Doing=["New icons"], Done=[])
        self.ada, self.bo = map(Page, self.drivers)
        for page, name in ((self.ada, "Ada"), (self.bo, "Bo")):
            page.look()
            page.open(self.board, name)
            page.shows(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.ideas, self.doing, self.done = self.board.lists.values()
        self.theme, self.search, self.icons = self.board.cards.values()

    def tearDown(self):
        for page in (self.ada, self.bo):
            self.assertEqual(page.problems(), [], f"{page.name}'s browser complains.")

    def both_show(self, *lists):
        for page in (self.ada, self.bo):
            page.shows(*lists)

    # What everybody sees

    def test_a_card_that_one_adds_is_seen_by_both_and_is_there_after_a_reload(self):
        self.ada.add_card(self.done, "Written plan")
        self.bo.add_card(self.done, "Signed off")
        wanted = ["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]]
        for page in (self.ada, self.bo):
            page.until(lambda: sorted(page.lists()[2][1]) == ["Signed off", "Written plan"], "does not show both cards")
        self.ada.driver.refresh()
        self.ada.shows(*wanted, self.bo.lists()[2])
        self.assertEqual(self.board.shown(), self.ada.lists())

    def test_several_cards_are_added_one_after_the_other_without_leaving_the_field(self):
        self.ada.click(f"[data-list={self.done}] [data-do=compose]")
        self.ada.keys("One", Keys.ENTER, "Two", Keys.ENTER, "Three", Keys.ENTER)
        for page in (self.ada, self.bo):
            page.until(lambda: sorted(page.lists()[2][1]) == ["One", "Three", "Two"], "does not show all three cards")
        self.ada.keys(Keys.ESCAPE)
        self.assertEqual(self.ada.focused(), "Add a card to Done")

    def test_words_of_a_card_that_one_edits_are_seen_by_both(self):
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Dark and light")
        self.ada.write("#editor-text", "As the system says.\nNo switch.")
        self.ada.click("#editor-save")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not close the editor")
        self.both_show(["Ideas", ["Dark and light", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.assertEqual(self.bo.text(f"[data-card={self.theme}] .card-text"), "As the system says.\nNo switch.")

    def test_lists_are_added_renamed_moved_and_removed_for_both(self):
        self.ada.click("#add-list [data-do=compose]")
        self.ada.keys("Later", Keys.ENTER)
        self.bo.until(lambda: len(self.bo.lists()) == 4, "does not show the new list")
        later = self.board.state()["lists"][3]["id"]
        self.bo.click(f"[data-list={later}] .list-more")
        self.bo.click(f"[data-list={later}] [data-do=rename]")
        self.bo.keys("Some day", Keys.ENTER)
        self.ada.until(lambda: self.ada.lists()[3][0] == "Some day", "does not show the new title")
        self.ada.click(f"[data-list={later}] .list-more")
        self.ada.click(f"[data-list={later}] [data-do=left]")
        self.bo.until(lambda: self.bo.lists()[2][0] == "Some day", "does not show the list moved")
        self.bo.click(f"[data-list={self.ideas}] .list-more")
        self.bo.click(f"[data-list={self.ideas}] [data-do=remove]")
        self.both_show(["Doing", ["New icons"]], ["Some day", []], ["Done", []])

    def test_keys_that_compose_a_character_neither_end_nor_leave_a_field(self):
        keys = """for (const key of ["Enter", "Escape"]) document.activeElement.dispatchEvent(
            new KeyboardEvent("keydown", { key, isComposing: true, bubbles: true, cancelable: true }));"""
        self.ada.click("#title")
        self.ada.keys("Summer")
        self.ada.run(keys)
        self.ada.keys(" release", Keys.ENTER)
        self.bo.until(lambda: self.bo.text("#title") == "Summer release", "does not show the board's new title")
        self.ada.click(f"[data-list={self.done}] [data-do=compose]")
        self.ada.keys("Plan")
        self.ada.run(keys)
        self.ada.keys(" it", Keys.ENTER)
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", ["Plan it"]])

    def test_the_board_is_renamed_for_both_and_a_new_one_can_be_made(self):
        self.ada.click("#title")
        self.ada.keys("Summer release", Keys.ENTER)
        for page in (self.ada, self.bo):
            page.until(lambda: page.text("#title") == "Summer release", "does not show the board's new title")
            page.until(lambda: page.driver.title.startswith("Summer release"), "does not have it as its own title")
        self.bo.click("#boards-button")
        self.bo.until(lambda: "Summer release" in self.bo.text("#boards-list"), "does not list the board")
        self.bo.write("#boards-title", "Another one")
        self.bo.keys(Keys.ENTER)
        self.bo.until(lambda: self.bo.text("#title") == "Another one", "does not go to the new board")

    def test_a_tab_that_is_copied_has_a_vote_of_its_own(self):
        self.ada.click(f"[data-card={self.theme}] .vote")
        self.bo.until(lambda: self.bo.votes(self.theme) == ["false", "1"], "does not show Ada's vote")
        own, driver = self.ada.driver.current_window_handle, self.ada.driver
        self.ada.run("window.open(location.href)")
        driver.switch_to.window(next(handle for handle in driver.window_handles if handle != own))
        try:
            self.ada.shows(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
            self.ada.until(lambda: self.ada.votes(self.theme) == ["false", "1"], "takes Ada's vote for its own")
            self.ada.click(f"[data-card={self.theme}] .vote")
            self.bo.until(lambda: self.bo.votes(self.theme) == ["false", "2"], "does not show both votes")
        finally:
            driver.close()
            driver.switch_to.window(own)

    def test_a_vote_is_counted_for_all_and_taken_back_by_the_one_who_gave_it(self):
        self.ada.click(f"[data-card={self.theme}] .vote")
        self.ada.until(lambda: self.ada.votes(self.theme) == ["true", "1"], "does not show Ada's vote as hers")
        self.bo.until(lambda: self.bo.votes(self.theme) == ["false", "1"], "does not show Ada's vote")
        self.bo.click(f"[data-card={self.theme}] .vote")
        self.ada.until(lambda: self.ada.votes(self.theme) == ["true", "2"], "does not show both votes")
        self.ada.click(f"[data-card={self.theme}] .vote")
        self.bo.until(lambda: self.bo.votes(self.theme) == ["true", "1"], "does not show that Ada took hers back")
        self.assertEqual(len(self.board.card(self.theme)["voters"]), 1)

    def test_undo_takes_back_what_one_did_oneself_by_button_and_by_keys(self):
        self.ada.open_card(self.theme)
        self.ada.click("#editor [data-do=remove]")
        self.both_show(["Ideas", ["Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.bo.add_card(self.done, "Bo's card")
        self.both_show(["Ideas", ["Faster search"]], ["Doing", ["New icons"]], ["Done", ["Bo's card"]])
        self.ada.chord(Keys.CONTROL, "z")
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", ["Bo's card"]])
        self.bo.click("#undo")
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.ada.click("#undo")
        self.ada.until(lambda: "nothing" in self.ada.text("#notices"), "does not say that there is nothing to undo")

    def test_undo_keys_in_a_field_leave_the_board_alone(self):
        self.ada.add_card(self.done, "Stays")
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", ["Stays"]])
        self.ada.keys("words")
        self.ada.chord(Keys.CONTROL, "z")
        self.bo.add_card(self.done, "Later")
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", ["Stays", "Later"]])

    def test_html_in_what_people_write_is_shown_as_text(self):
        words = "<img src=x onerror=\"window.broken = 1\"><b>bold</b> & <script>window.broken = 1</script>"
        self.board.command("rename", title=words)
        self.board.command("renameList", list=self.ideas, title=words)
        card = self.board.card(self.theme)
        self.board.command("editCard", card=self.theme, title=words, text=words, revision=card["revision"])
        self.ada.shows([words, [words, "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.ada.open_card(self.theme)
        self.bo.click("#people-button")
        self.bo.write("#name", words[:40])
        self.bo.keys(Keys.ENTER)
        self.ada.until(lambda: words[:40] in self.ada.people()[1], "does not show Bo's new name")
        self.assertEqual(self.ada.text("#title"), words)
        self.assertEqual(self.ada.value("#editor-title"), words)
        self.assertEqual(self.ada.run(
            "return [window.broken ?? 0, document.querySelectorAll('main img, main b, main script, #names img').length]"), [0, 0])

    def test_separators_of_lines_and_paragraphs_in_what_people_write_are_text_like_any_other(self):
        words = "one\u2028data: two\u2029event: three"
        for title in (words, "after it"):
            self.board.command("addCard", list=self.done, title=title)
        wanted = ["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", [words, "after it"]]
        self.both_show(*wanted)
        self.bo.click("#people-button")
        self.bo.write("#name", words)
        self.bo.keys(Keys.ENTER)
        self.ada.until(lambda: words in self.ada.people()[1], "does not show Bo's new name")
        self.ada.driver.refresh()
        self.ada.shows(*wanted)
        self.ada.until(lambda: self.ada.connection() == "live", "is not connected to the board")

    # Who is here

    def test_everybody_sees_who_is_here_as_people_come_go_and_change_their_name(self):
        for page in (self.ada, self.bo):
            page.until(lambda: page.people()[0] == "2 here" and sorted(page.people()[1]) == ["Ada", "Bo"],
                       "does not show that Ada and Bo are here")
        self.bo.click("#people-button")
        self.bo.write("#name", "Bo Berg")
        self.bo.keys(Keys.ENTER)
        self.ada.until(lambda: sorted(self.ada.people()[1]) == ["Ada", "Bo Berg"], "does not show Bo's new name")
        self.bo.driver.refresh()
        self.bo.until(lambda: sorted(self.bo.people()[1]) == ["Ada", "Bo Berg"], "has forgotten Bo's name")
        self.assertEqual(self.bo.value("#name"), "Bo Berg")
        self.bo.driver.get("about:blank")
        self.ada.until(lambda: self.ada.people() == ["1 here", ["Ada"]], "does not show that Bo has left")

    def test_half_a_character_in_a_name_does_not_keep_anybody_away(self):
        self.bo.run("localStorage.setItem('live-board-name', 'Bo \\ud83d')")
        self.bo.driver.refresh()
        self.bo.shows(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.ada.until(lambda: "Bo \ufffd" in self.ada.people()[1], "does not show that Bo is here")

    def test_a_page_that_is_opened_behind_another_gives_up_its_line_and_comes_back_once_it_is_seen(self):
        # Its minute is made short, and the browser told that nobody sees it: so it is in a window of its own too.
        self.bo.driver.execute_cdp_cmd("Page.enable", {})
        script = self.bo.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
            let isHidden = true;
            Object.defineProperty(document, "hidden", { get: () => isHidden });
            const wait = window.setTimeout.bind(window);
            window.setTimeout = (body, time) => wait(body, time === 60_000 ? 300 : time);
            window.beSeen = () => { isHidden = false; document.dispatchEvent(new Event("visibilitychange")); };"""})
        self.addCleanup(
            self.bo.driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", {"identifier": script["identifier"]})
        self.bo.driver.refresh()
        self.bo.until(lambda: self.bo.connection() == "paused", "keeps its line")
        self.ada.until(lambda: self.ada.people() == ["1 here", ["Ada"]], "still counts Bo")
        self.board.command("addCard", list=self.done, title="Meanwhile")
        self.bo.run("beSeen()")
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", ["Meanwhile"]])

    # Moving cards

    def test_a_card_is_dragged_to_another_list_with_the_place_shown_on_the_way(self):
        hand = Mouse(self.ada)
        hand.press(f"[data-card={self.theme}]")
        hand.move(hand.x + 20, hand.y + 8)
        hand.carries()
        hand.move(*self.ada.middle(f"[data-list={self.done}] .cards"))
        self.ada.shows(["Ideas", ["Faster search"]], ["Doing", ["New icons"]], ["Done", ["Dark theme"]])
        self.assertTrue(self.ada.shown(".card.carried:not(.ghost)"), "The place it would drop in is not marked.")
        self.assertEqual(self.bo.lists()[2][1], [], "Others must see a move only once it is dropped.")
        hand.release()
        self.both_show(["Ideas", ["Faster search"]], ["Doing", ["New icons"]], ["Done", ["Dark theme"]])
        self.assertFalse(self.ada.shown(".ghost"))
        self.assertFalse(self.ada.shown("#editor"), "The end of a drag must not open the card.")

    def test_a_card_is_dragged_down_and_up_within_its_list(self):
        for target, wanted in ((self.search, ["Faster search", "Dark theme"]), (self.search, ["Dark theme", "Faster search"])):
            hand = Mouse(self.ada)
            hand.press(f"[data-card={self.theme}]")
            hand.move(*self.ada.middle(f"[data-card={target}]"))
            hand.carries()
            self.ada.shows(["Ideas", wanted], ["Doing", ["New icons"]], ["Done", []])
            hand.release()
            self.both_show(["Ideas", wanted], ["Doing", ["New icons"]], ["Done", []])
            self.ada.until(lambda: not self.ada.run("return document.getAnimations().length"), "does not come to rest")

    def test_escape_puts_a_dragged_card_back(self):
        hand = Mouse(self.ada)
        hand.press(f"[data-card={self.theme}]")
        hand.move(*self.ada.middle(f"[data-list={self.done}] .cards"))
        hand.carries()
        self.ada.keys(Keys.ESCAPE)
        self.ada.shows(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        hand.release()
        self.assertFalse(self.ada.shown("#editor"))
        self.assertEqual(self.board.shown()[2][1], [])

    def test_a_dropped_card_does_not_jump_back_while_the_server_is_asked(self):
        self.ada.driver.execute_cdp_cmd("Network.enable", {})
        self.ada.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
            "offline": False, "latency": 400, "downloadThroughput": -1, "uploadThroughput": -1})
        hand = Mouse(self.ada)
        hand.press(f"[data-card={self.theme}]")
        hand.move(*self.ada.middle(f"[data-list={self.done}] .cards"))
        hand.carries()
        self.ada.shows(["Ideas", ["Faster search"]], ["Doing", ["New icons"]], ["Done", ["Dark theme"]])
        self.ada.run("""
            window.seenIn = new Set();
            const look = () => {
                window.seenIn.add(document.querySelector(`[data-card=${arguments[0]}]:not(.ghost)`).closest(".list").dataset.list);
                requestAnimationFrame(look);
            };
            look();""", self.theme)
        hand.release()
        self.bo.shows(["Ideas", ["Faster search"]], ["Doing", ["New icons"]], ["Done", ["Dark theme"]])
        self.board.command("addCard", list=self.doing, title="After it")
        self.ada.shows(["Ideas", ["Faster search"]], ["Doing", ["New icons", "After it"]], ["Done", ["Dark theme"]])
        self.ada.driver.execute_cdp_cmd("Network.disable", {})
        self.assertEqual(self.ada.run("return [...window.seenIn]"), [self.done])

    def test_others_can_work_while_a_card_is_dragged_and_may_even_remove_it(self):
        hand = Mouse(self.ada)
        hand.press(f"[data-card={self.theme}]")
        hand.move(*self.ada.middle(f"[data-list={self.done}] .cards"))
        hand.carries()
        self.board.command("addCard", list=self.doing, title="Meanwhile")
        self.ada.shows(["Ideas", ["Faster search"]], ["Doing", ["New icons", "Meanwhile"]], ["Done", ["Dark theme"]])
        self.board.command("removeCard", card=self.theme)
        self.ada.shows(["Ideas", ["Faster search"]], ["Doing", ["New icons", "Meanwhile"]], ["Done", []])
        self.assertFalse(self.ada.shown(".ghost"))
        hand.release()

    def test_a_card_is_moved_by_keyboard_and_each_step_is_announced(self):
        self.ada.run("document.querySelector(`[data-card=${arguments[0]}] .card-title`).focus()", self.theme)
        says = lambda words: self.ada.until(lambda: words in self.ada.text("#announcer"), f"does not announce “{words}”")
        self.ada.keys(Keys.SPACE)
        says("Picked up, in Ideas, position 1 of 2")
        self.ada.keys(Keys.ARROW_DOWN)
        says("Ideas, position 2 of 2")
        self.ada.keys(Keys.ARROW_RIGHT)
        says("Doing, position 2 of 2")
        self.ada.keys(Keys.ARROW_UP)
        says("Doing, position 1 of 2")
        self.assertEqual(self.ada.focused(), "Dark theme")
        self.assertEqual(self.bo.lists()[1][1], ["New icons"], "Others must see a move only once it is dropped.")
        self.ada.keys(Keys.SPACE)
        says("Dropped in Doing, position 1 of 2")
        self.both_show(["Ideas", ["Faster search"]], ["Doing", ["Dark theme", "New icons"]], ["Done", []])
        self.assertEqual(self.ada.focused(), "Dark theme")
        self.ada.keys(Keys.SPACE, Keys.ARROW_RIGHT)
        says("Done, position 1 of 1")
        self.ada.keys(Keys.ESCAPE)
        says("Put back where it was")
        self.ada.shows(["Ideas", ["Faster search"]], ["Doing", ["Dark theme", "New icons"]], ["Done", []])

    def test_a_card_is_moved_in_its_editor_without_dragging(self):
        self.ada.open_card(self.theme)
        self.ada.run("""
            const [list, id] = [document.getElementById("editor-list"), arguments[0]];
            list.value = id;
            list.dispatchEvent(new Event("change"));
            document.getElementById("editor-position").value = 0;""", self.doing)
        self.ada.click("#editor-save")
        self.both_show(["Ideas", ["Faster search"]], ["Doing", ["Dark theme", "New icons"]], ["Done", []])

    # Working at the same time

    def test_half_written_words_and_the_focus_survive_what_others_do(self):
        self.ada.click(f"[data-list={self.ideas}] [data-do=compose]")
        self.ada.keys("Half writ")
        self.board.command("moveList", list=self.ideas, index=2)
        self.board.command("removeCard", card=self.theme)
        self.board.command("addCard", list=self.ideas, title="From elsewhere")
        self.ada.shows(["Doing", ["New icons"]], ["Done", []], ["Ideas", ["Faster search", "From elsewhere"]])
        self.ada.keys("ten", Keys.ENTER)
        self.both_show(["Doing", ["New icons"]], ["Done", []], ["Ideas", ["Faster search", "From elsewhere", "Half written"]])

    def test_a_card_keeps_the_focus_when_somebody_else_moves_it(self):
        self.ada.run("document.querySelector(`[data-card=${arguments[0]}] .card-title`).focus()", self.search)
        self.board.command("moveCard", card=self.search, list=self.doing, index=0)
        self.ada.shows(["Ideas", ["Dark theme"]], ["Doing", ["Faster search", "New icons"]], ["Done", []])
        self.assertEqual(self.ada.focused(), "Faster search")
        self.board.command("removeCard", card=self.search)
        self.ada.shows(["Ideas", ["Dark theme"]], ["Doing", ["New icons"]], ["Done", []])
        self.assertEqual(self.ada.focused(), "Add a card to Doing")

    def test_the_focus_goes_on_in_a_field_that_is_open_and_where_the_list_is_gone_in_the_next(self):
        self.ada.click(f"[data-list={self.doing}] [data-do=compose]")
        self.ada.run("document.querySelector(`[data-card=${arguments[0]}] .card-title`).focus()", self.icons)
        self.board.command("removeCard", card=self.icons)
        self.ada.until(lambda: self.ada.focused() == "Title of the new card in Doing", "does not go on in the open field")
        for list, rest, wanted in ((self.ideas, 2, "Title of the new card in Doing"), (self.doing, 1, "Add a card to Done"),
                                   (self.done, 0, "Add a list")):
            self.ada.run("document.querySelector(`[data-list=${arguments[0]}] .list-more`).focus()", list)
            self.ada.keys(Keys.ENTER)
            self.ada.until(lambda: self.ada.shown(f"[data-list={list}] .menu"), "does not open the menu")
            self.ada.run("document.querySelector(`[data-list=${arguments[0]}] .danger`).focus()", list)
            self.ada.keys(Keys.ENTER)
            self.ada.until(lambda: len(self.ada.lists()) == rest, "does not remove the list")
            self.ada.until(lambda: self.ada.focused() == wanted, f"does not go on at “{wanted}”")

    def test_a_conflict_shows_the_others_words_and_keeps_ones_own(self):
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Ada's title")
        self.bo.open_card(self.theme)
        self.bo.write("#editor-title", "Bo's title")
        self.bo.write("#editor-text", "Bo's words")
        self.bo.click("#editor-save")
        self.ada.until(lambda: "Someone else" in self.ada.text("#editor-note"), "does not say that Bo changes the card")
        self.assertEqual(self.ada.value("#editor-title"), "Ada's title")
        self.ada.click("#editor-save")
        self.ada.until(lambda: self.ada.shown("#editor-conflict"), "does not show the conflict")
        self.assertEqual(self.ada.text("#conflict-title"), "Bo's title")
        self.assertEqual(self.ada.text("#conflict-text"), "Bo's words")
        self.assertEqual(self.ada.value("#editor-title"), "Ada's title")
        self.assertEqual(self.board.card(self.theme)["title"], "Bo's title")
        self.ada.click("#editor-save")
        self.both_show(["Ideas", ["Ada's title", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])

    def test_after_a_conflict_the_words_that_the_card_had_before_may_be_put_back(self):
        before = self.board.card(self.theme)
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Ada's title")
        self.board.command("editCard", card=self.theme, title="Bo's title", text="", revision=before["revision"])
        self.ada.click("#editor-save")
        self.ada.until(lambda: self.ada.shown("#editor-conflict"), "does not show the conflict")
        self.ada.write("#editor-title", before["title"])
        self.ada.click("#editor-save")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not save the words")
        self.assertEqual(self.board.card(self.theme)["title"], before["title"])

    def test_a_card_whose_words_the_fields_show_differently_is_left_alone_where_nothing_was_written(self):
        revision = self.board.card(self.theme)["revision"]
        self.board.command("editCard", card=self.theme, title="Dark\ntheme", text="one\r\ntwo", revision=revision)
        before = self.board.card(self.theme)
        self.ada.open_card(self.theme)
        self.ada.click("#editor-save")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not close")
        self.assertEqual(self.board.card(self.theme), before)

    def test_after_a_conflict_one_may_take_the_others_words(self):
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Ada's title")
        revision = self.board.card(self.theme)["revision"]
        self.board.command("editCard", card=self.theme, title="Bo's title", text="Bo's words", revision=revision)
        self.ada.click("#editor-save")
        self.ada.click("#editor [data-do=theirs]")
        self.assertEqual(self.ada.value("#editor-title"), "Bo's title")
        self.assertEqual(self.ada.value("#editor-text"), "Bo's words")
        self.ada.write("#editor-text", "Bo's words, and Ada's")
        self.ada.click("#editor-save")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not save what is built on Bo's words")
        self.assertEqual(self.board.card(self.theme)["text"], "Bo's words, and Ada's")

    def test_a_card_that_is_removed_while_it_is_edited_says_so_and_keeps_the_words(self):
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Ada's title")
        self.board.command("removeCard", card=self.theme)
        self.ada.until(lambda: "removed" in self.ada.text("#editor-note"), "does not say that the card is gone")
        self.ada.click("#editor-save")
        self.ada.until(lambda: self.ada.text("#editor-error"), "does not say why the words are not saved")
        self.assertEqual(self.ada.value("#editor-title"), "Ada's title")

    def hold_commands(self, page):
        """Keeps what the page sends from now on, until `window.letGo()`: as a server that is slow to answer."""
        page.run("""
            const send = window.fetch;
            const free = new Promise((done) => { window.letGo = () => { window.fetch = send; done(); }; });
            window.fetch = async (path, request) => {
                if (request?.method === "POST") await free;
                return send(path, request);
            };""")

    def lose_answers(self, page):
        """Has what the page sends done, and its answer lost, until `window.findAnswers()` or, where that is held, `window.letGo()`."""
        page.run("""
            const send = window.fetch;
            window.findAnswers = () => { window.fetch = send; };
            window.fetch = async (path, request) => {
                const answer = await send(path, request);
                if (request?.method === "POST") throw new Error("Its answer is lost.");
                return answer;
            };""")

    def save_and_open_another(self, title, other_title):
        """Ada saves a card, does not wait for the server, and writes on another one."""
        self.hold_commands(self.ada)
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", title)
        self.ada.click("#editor-save")
        self.ada.click("#editor [data-do=cancel]")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not close the editor")
        self.ada.open_card(self.search)
        self.ada.write("#editor-title", other_title)

    def test_an_answer_that_is_late_leaves_the_card_alone_that_was_opened_since(self):
        self.save_and_open_another("Ada's title", "Half writ")
        self.ada.run("letGo()")
        self.both_show(["Ideas", ["Ada's title", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.ada.keys("ten")
        self.ada.click("#editor-save")
        self.both_show(["Ideas", ["Ada's title", "Half written"]], ["Doing", ["New icons"]], ["Done", []])

    def test_a_conflict_that_is_late_is_told_and_is_not_one_of_the_card_that_was_opened_since(self):
        self.save_and_open_another("Ada's title", "Half writ")
        revision = self.board.card(self.theme)["revision"]
        self.board.command("editCard", card=self.theme, title="Bo's title", text="Bo's words", revision=revision)
        self.ada.run("letGo()")
        self.ada.until(lambda: self.ada.run("return document.getElementById('alerts').textContent.trim()"),
                       "does not tell that the words are not saved")
        self.assertFalse(self.ada.shown("#editor-conflict"))
        self.ada.keys("ten")
        self.ada.click("#editor-save")
        self.both_show(["Ideas", ["Bo's title", "Half written"]], ["Doing", ["New icons"]], ["Done", []])

    def test_words_that_are_refused_come_back_before_those_that_were_written_meanwhile(self):
        self.ada.click(f"[data-list={self.done}] [data-do=compose]")
        self.hold_commands(self.ada)
        self.lose_answers(self.ada)
        self.ada.keys("First", Keys.ENTER, "Sec")
        self.ada.run("letGo()")
        self.ada.until(lambda: self.ada.text("#alerts"), "does not tell that there was no answer")
        self.ada.until(lambda: self.ada.run("return document.activeElement.value") == "First Sec", "has lost the words")

    def test_what_i_have_saved_myself_is_not_told_as_somebody_elses_though_its_answer_is_lost(self):
        self.lose_answers(self.ada)
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Mine")
        self.ada.click("#editor-save")
        self.both_show(["Ideas", ["Mine", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])
        self.ada.until(lambda: self.ada.text("#editor-error"), "does not tell that there was no answer")
        self.assertEqual(self.ada.text("#editor-note"), "")
        self.ada.run("findAnswers()")
        self.ada.write("#editor-title", "Mine again")
        self.ada.click("#editor-save")
        self.both_show(["Ideas", ["Mine again", "Faster search"]], ["Doing", ["New icons"]], ["Done", []])

    def test_a_card_that_is_opened_again_before_its_edit_is_answered_does_not_take_that_back_in_silence(self):
        self.hold_commands(self.ada)
        self.ada.open_card(self.theme)
        self.ada.write("#editor-title", "Mine")
        self.ada.click("#editor-save")
        self.ada.click("#editor [data-do=cancel]")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not close the editor")
        self.ada.open_card(self.theme)
        self.ada.run("letGo()")
        self.ada.until(lambda: self.ada.text("#editor-note"), "does not tell that the card is another one")
        self.ada.write("#editor-text", "Some words")
        self.ada.click("#editor-save")
        self.ada.until(lambda: self.ada.shown("#editor-conflict"), "does not show both")
        self.assertEqual(self.board.card(self.theme)["title"], "Mine")

    def test_the_focus_goes_back_after_a_new_title_and_after_a_message(self):
        for key in (Keys.ENTER, Keys.ESCAPE):
            self.ada.click(f"[data-list={self.done}] .list-more")
            self.ada.click(f"[data-list={self.done}] [data-do=rename]")
            self.ada.keys("Over", key)
            self.ada.until(lambda: self.ada.focused().startswith("Options of"), "does not give the focus back to the menu")
            self.ada.click("#title")
            self.ada.keys("Summer", key)
            self.assertEqual(self.ada.focused(), "Boards")
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Over", []])
        self.ada.chord(Keys.CONTROL, "z")
        self.ada.chord(Keys.CONTROL, "z")
        self.ada.chord(Keys.CONTROL, "z")
        self.ada.until(lambda: self.ada.shown("#notices .toast"), "does not say that there is nothing to undo")
        self.ada.click("#notices .toast button")
        self.ada.until(lambda: not self.ada.shown("#notices .toast"), "does not take the message away")
        self.assertEqual(self.ada.focused(), "Boards")

    def test_a_long_title_of_characters_that_are_two_to_a_browser_can_be_edited(self):
        card = self.board.card(self.theme)
        self.board.command("editCard", card=self.theme, title="🎈" * 150, text="", revision=card["revision"])
        self.ada.until(lambda: self.ada.lists()[0][1][0] == "🎈" * 150, "does not show the title")
        self.ada.open_card(self.theme)
        self.ada.click("#editor-title")
        self.ada.keys(Keys.END, "!")
        self.ada.click("#editor-save")
        self.ada.until(lambda: not self.ada.shown("#editor"), "does not take the title")
        self.assertEqual(self.board.card(self.theme)["title"], "🎈" * 150 + "!")

    def test_boards_are_listed_as_people_sort_them(self):
        titles = ["apple 2", "Apple 10", "Zebra"]
        for title in reversed(titles):
            Board(self.server, title)
        self.ada.click("#boards-button")
        self.ada.until(lambda: [title for title in self.ada.text("#boards-list").split("\n") if title in titles] == titles,
                       "does not sort the boards")

    def test_a_list_of_boards_that_the_server_cannot_give_is_empty(self):
        self.ada.run("window.fetch = async () => new Response('{}', { status: 503 })")
        self.ada.click("#boards-button")
        self.assertEqual(self.ada.text("#boards-list"), "")

    def test_a_new_title_that_is_not_taken_can_be_sent_again(self):
        self.ada.click(f"[data-list={self.done}] .list-more")
        self.ada.click(f"[data-list={self.done}] [data-do=rename]")
        self.ada.run("document.activeElement.value = 'x'.repeat(201)")
        self.ada.keys(Keys.ENTER)
        self.ada.until(lambda: self.ada.text("#alerts"), "does not tell that the title is too long")
        self.ada.until(lambda: self.ada.run("return document.activeElement.value?.length") == 201, "has lost the words")
        self.ada.keys(Keys.BACKSPACE, "Over", Keys.ENTER)
        self.both_show(["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]], ["Over", []])

    def test_a_board_is_made_once_however_often_it_is_asked_for(self):
        self.hold_commands(self.ada)
        self.ada.click("#boards-button")
        self.ada.write("#boards-title", "Only one")
        self.ada.run("for (const _ of [1, 2]) document.querySelector('#boards-form button').click(); letGo();")
        self.ada.until(lambda: self.ada.text("#title") == "Only one", "does not go to the new board")
        titles = [board["title"] for board in self.server.ask("/boards")["boards"]]
        self.assertEqual(titles.count("Only one"), 1)

    def test_the_editor_knows_the_moves_that_the_server_has_yet_to_answer(self):
        self.hold_commands(self.ada)
        for card in (self.theme, self.search):
            self.ada.run("document.querySelector(`[data-card=${arguments[0]}] .card-title`).focus()", card)
            self.ada.keys(Keys.SPACE, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.SPACE)
        self.ada.shows(["Ideas", []], ["Doing", ["New icons"]], ["Done", ["Dark theme", "Faster search"]])
        self.ada.open_card(self.search)
        self.ada.write("#editor-title", "Fast search")
        self.ada.run("letGo()")
        self.bo.shows(["Ideas", []], ["Doing", ["New icons"]], ["Done", ["Dark theme", "Faster search"]])
        self.ada.click("#editor-save")
        self.both_show(["Ideas", []], ["Doing", ["New icons"]], ["Done", ["Dark theme", "Fast search"]])

    def test_an_error_of_the_server_is_told(self):
        self.ada.click(f"[data-list={self.ideas}] [data-do=compose]")
        self.ada.run("document.activeElement.value = 'x'.repeat(201)")
        self.ada.keys(Keys.ENTER)
        self.ada.until(lambda: self.ada.text("#alerts"), "does not tell that the title is too long")
        self.ada.until(lambda: self.ada.run("return document.activeElement.value.length") == 201, "has lost the words")
        self.assertEqual(self.ada.run("return document.getElementById('alerts').getAttribute('role')"), "alert")

    def test_a_board_that_does_not_exist_is_said_not_to(self):
        self.ada.driver.get(self.server.address + "/b/no-such-board")
        self.ada.until(lambda: "no board here" in self.ada.text("#board"), "does not say that there is no such board")
        self.assertFalse(self.ada.shown("#people-button"))
        self.assertFalse(self.ada.find("#undo").is_enabled())

    def test_a_board_that_goes_while_it_is_open_is_said_to_and_is_shown_again_once_it_is_back(self):
        # What the page is answered is made up: no board is lost and found on a server while that runs.
        def answer(fetch):
            self.ada.run(f"window.ask ??= window.fetch; window.fetch = {fetch}; window.dispatchEvent(new Event('online'))")

        answer("async () => { throw new TypeError() }")
        self.ada.until(lambda: self.ada.text("#connection") == "Reconnecting…", "does not say that the server is gone")
        answer("async () => new Response('', { status: 404 })")
        self.ada.until(lambda: self.ada.shown("#no-board"), "does not say that there is no such board")
        self.assertEqual(self.ada.text("#connection"), "No such board")
        self.assertEqual([self.ada.lists(), self.ada.shown("#add-list")], [[], False])
        self.assertIsNone(self.ada.run("return document.querySelector('[aria-busy]')"))
        others = ["Ideas", ["Dark theme", "Faster search"]], ["Doing", ["New icons"]]
        self.bo.add_card(self.done, "Meanwhile")
        self.bo.shows(*others, ["Done", ["Meanwhile"]])
        answer("window.ask")
        self.both_show(*others, ["Done", ["Meanwhile"]])
        self.assertEqual([self.ada.text("#connection"), self.ada.shown("#no-board")], ["Live", False])
        self.ada.add_card(self.done, "Afterwards")
        self.both_show(*others, ["Done", ["Meanwhile", "Afterwards"]])

    # Phones, colours, and people who cannot see or point

    def test_a_phone_shows_one_list_at_a_time_and_the_page_does_not_overflow(self):
        self.ada.look(width=390, height=844, phone=True)
        self.ada.open(self.board, "Ada")
        for selector in ("#people-button", "#boards-button"):
            self.ada.click(selector)
            self.assertLessEqual(self.ada.run("return document.documentElement.scrollWidth"), 390)
            self.ada.keys(Keys.ESCAPE)
        self.ada.look(width=360, height=780, phone=True)
        self.board.command("rename", title="Welcome")
        self.ada.until(lambda: self.ada.text("#title") == "Welcome", "does not show the title")
        with self.server.request(f"/boards/{self.board.id}/events?client=the-third&name=Cy"):
            self.ada.until(lambda: self.ada.people()[0] == "3 here", "does not show the third")
            self.assertTrue(self.ada.run("""
                const { scrollWidth, clientWidth } = document.getElementById("title");
                return scrollWidth <= clientWidth"""), "The heading is cut.")
        self.ada.look(width=390, height=844, phone=True)
        widths = self.ada.run("return [...document.querySelectorAll('.list')].map((list) => list.offsetWidth)")
        self.assertTrue(all(300 <= width <= 390 for width in widths), widths)
        self.ada.run("document.getElementById('board').scrollBy(200, 0)")
        self.ada.until(lambda: self.ada.run("""
            const left = document.querySelectorAll(".list")[1].getBoundingClientRect().left;
            return left >= 0 && left <= 24"""), "does not snap to the next list")
        self.ada.open_card(self.icons)
        self.assertEqual(self.ada.run("""
            const { left, right } = document.getElementById("editor").getBoundingClientRect();
            return left >= 0 && right <= 390"""), True)

    def test_a_finger_that_rests_picks_a_card_up_and_carries_it(self):
        self.ada.look(width=390, height=844, phone=True)
        self.ada.open(self.board, "Ada")
        finger = Finger(self.ada)
        finger.press(f"[data-card={self.theme}]")
        finger.carries()
        finger.move(finger.x, self.ada.middle(f"[data-card={self.search}]")[1] + 12)
        self.ada.shows(["Ideas", ["Faster search", "Dark theme"]], ["Doing", ["New icons"]], ["Done", []])
        finger.release()
        self.both_show(["Ideas", ["Faster search", "Dark theme"]], ["Doing", ["New icons"]], ["Done", []])
        self.assertFalse(self.ada.shown("#editor"))

    def test_the_text_has_contrast_in_the_light_and_in_the_dark(self):
        grounds = []
        for dark in (False, True):
            self.ada.look(dark=dark)
            self.ada.click(f"[data-card={self.theme}] .vote")
            self.ada.until(lambda: not self.ada.run("return document.getAnimations().length"), "does not come to rest")
            grounds.append(self.ada.run("return getComputedStyle(document.body).backgroundColor"))
            self.assertEqual(self.ada.run(CONTRAST), [], "The text has too little contrast: " + ("dark" if dark else "light"))
        self.assertNotEqual(*grounds)

    def test_every_control_has_a_name_and_every_id_is_there_once(self):
        self.ada.open_card(self.theme)
        in_editor = self.controls()
        self.assertIn(("textbox", "Title"), in_editor)
        self.assertIn(("combobox", "List"), in_editor)
        self.ada.click("#editor [data-do=cancel]")
        self.ada.click(f"[data-list={self.ideas}] [data-do=compose]")
        self.ada.click("#people-button")
        on_board = self.controls()
        for control in (("button", "Dark theme"), ("button", "Vote for Dark theme: 0 votes"), ("button", "Options of Ideas"),
                        ("textbox", "Title of the new card in Ideas"), ("button", "Add a card to Done"),
                        ("textbox", "Your name"), ("button", "Undo")):
            self.assertIn(control, on_board)
        self.assertEqual([name for name in in_editor + on_board if not name[1]], [], "Controls without a name.")
        self.assertEqual(self.ada.run("""
            const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
            return ids.filter((id, index) => ids.indexOf(id) !== index)"""), [])

    def controls(self):
        """The role and the name of each control, as the browser tells them to a screen reader."""
        roles = {"button", "link", "textbox", "combobox", "searchbox", "checkbox", "menuitem"}
        nodes = self.ada.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in nodes
                if not node["ignored"] and node["role"]["value"] in roles]

    def test_the_focus_goes_through_the_page_in_reading_order_and_is_seen(self):
        order = []
        for _ in range(12):
            self.ada.keys(Keys.TAB)
            order.append(self.ada.focused())
            self.assertTrue(self.ada.run("""
                const it = document.activeElement;
                return [getComputedStyle(it), getComputedStyle(it, "::after")].some(
                    (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2)"""),
                f"One does not see that “{order[-1]}” has the focus.")
        self.assertEqual(order, [
            "The welcome board", "Boards", "Undo", order[3], "Options of Ideas", "Dark theme", "Vote for Dark theme: 0 votes",
            "Faster search", "Vote for Faster search: 0 votes", "Add a card to Ideas", "Options of Doing", "New icons"])
        self.assertIn("here", order[3])

    def test_the_page_may_load_nothing_from_elsewhere(self):
        with self.server.request(f"/b/{self.board.id}") as answer:
            self.assertIn("default-src 'self'", answer.headers["Content-Security-Policy"])
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")


class RestartTest(unittest.TestCase):
    """What people see of a server that crashes or ends, and comes back."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.board = Board(self.server, "Spring release", Ideas=["Dark theme"], Done=[])
        self.pages = []
        for name in ("Ada", "Bo"):
            driver = new_browser()
            self.addCleanup(driver.quit)
            page = Page(driver)
            page.open(self.board, name)
            page.shows(["Ideas", ["Dark theme"]], ["Done", []])
            page.run("window.sameAsBefore = true")
            self.pages.append(page)
        self.ada, self.bo = self.pages
        self.done = self.board.lists["Done"]

    def comes_back(self):
        """Both pages have noticed; nobody reloads; all that was saved is there, and they go on together."""
        for page in self.pages:
            page.until(lambda: page.connection() == "lost", "does not show that the server is gone")
        self.ada.add_card(self.done, "Not saved")
        self.ada.until(lambda: self.ada.text("#alerts"), "does not tell that nothing was saved")
        self.ada.until(lambda: self.ada.run("return document.activeElement.value") == "Not saved", "has lost the words")
        self.server.start()
        for page in self.pages:
            page.until(lambda: page.connection() == "live", "is not connected again")
        self.ada.keys(Keys.ENTER)
        for page in self.pages:
            page.shows(["Ideas", ["Dark theme"]], ["Done", ["Before", "Not saved"]])
        card = self.board.state()["lists"][1]["cards"][0]["id"]
        self.bo.click(f"[data-card={card}] .vote")
        self.ada.until(lambda: self.ada.votes(card) == ["false", "1"], "does not show what Bo does after the restart")
        for page in self.pages:
            page.until(lambda: sorted(page.people()[1]) == ["Ada", "Bo"], "does not show who is here")
            self.assertTrue(page.run("return window.sameAsBefore"), "The page was loaded again.")
            self.assertEqual(page.problems(), [])

    def before(self):
        self.bo.add_card(self.done, "Before")
        for page in self.pages:
            page.shows(["Ideas", ["Dark theme"]], ["Done", ["Before"]])

    def test_after_a_crash_the_pages_are_connected_again_and_nothing_is_lost(self):
        self.before()
        self.server.kill()
        self.comes_back()

    def test_after_an_orderly_end_the_pages_are_connected_again_and_nothing_is_lost(self):
        self.before()
        self.assertEqual(self.server.terminate(), 0, "The server did not end as one that was asked to.")
        self.comes_back()

    def test_a_page_that_missed_changes_catches_up(self):
        self.ada.driver.execute_cdp_cmd("Network.enable", {})
        self.ada.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
            "offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
        self.server.kill()
        self.ada.until(lambda: self.ada.connection() == "lost", "does not show that the server is gone")
        self.server.start()
        for number in range(5):
            self.board.command("addCard", list=self.done, title=f"Card {number}")
        self.ada.driver.execute_cdp_cmd("Network.disable", {})
        self.ada.shows(["Ideas", ["Dark theme"]], ["Done", [f"Card {number}" for number in range(5)]])


class SharedLogTest(unittest.TestCase):
    """What people see of two servers on one log, each before another of them, and of a log that goes and comes back."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="board-test-log-")
        self.addCleanup(self.folder.cleanup)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start_log()
        self.addCleanup(lambda: self.kill_log())
        log = ("--log", f"nats://127.0.0.1:{self.port}", "--replicas", "1", "--patience", "2")
        self.servers = [Server(*log) for _ in range(2)]
        self.board = Board(self.servers[0], "Spring release", Ideas=["Dark theme"], Done=[])
        self.pages = []
        for server, name in zip(self.servers, ("Ada", "Bo")):
            self.addCleanup(server.close)
            driver = new_browser()
            self.addCleanup(driver.quit)
            page = Page(driver)
            self.board.server = server
            page.open(self.board, name)
            page.shows(["Ideas", ["Dark theme"]], ["Done", []])
            self.pages.append(page)
        self.ada, self.bo = self.pages
        self.ideas, self.done = self.board.lists.values()
        self.theme = self.board.cards["Dark theme"]

    def start_log(self):
        program = shutil.which("nats-server") or "/usr/sbin/nats-server"
        self.log = subprocess.Popen(
            [program, "-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", self.folder.name],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_log(self):
        self.log.kill()
        self.log.wait()

    def test_people_at_two_servers_see_what_each_other_does(self):
        self.ada.add_card(self.done, "From Ada")
        self.bo.shows(["Ideas", ["Dark theme"]], ["Done", ["From Ada"]])
        for page in self.pages:
            page.click(f"[data-card={self.theme}] .vote")
        for page in self.pages:
            page.until(lambda: page.votes(self.theme) == ["true", "2"], "does not count both votes")
        self.assertEqual([page.problems() for page in self.pages], [[], []])

    def test_a_board_that_cannot_be_changed_says_so_and_goes_on_by_itself(self):
        self.kill_log()
        for page in self.pages:
            page.until(lambda: page.connection() == "read-only", "does not show that the board cannot be changed")
            self.assertEqual(page.text("#connection"), "Read-only")
        self.ada.add_card(self.done, "Waits")
        self.ada.until(lambda: self.ada.text("#alerts"), "does not tell that it was not saved")
        self.ada.look(width=390, height=700, phone=True)
        self.assertLessEqual(self.ada.run("return document.documentElement.scrollWidth - innerWidth"), 0)
        self.start_log()
        for page in self.pages:
            page.until(lambda: page.connection() == "live", "does not show that the board can be changed again")
        self.ada.look()
        self.bo.click(f"[data-card={self.theme}] .vote")
        self.ada.until(lambda: self.ada.votes(self.theme) == ["false", "1"], "does not show what Bo does afterwards")


class InspectorTest(unittest.TestCase):
    """What a developer sees of the board in the inspector, while somebody uses it."""

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.board = Board(self.server, "Spring release", Ideas=[])
        driver = new_browser()
        self.addCleanup(driver.quit)
        self.page = Page(driver)
        self.page.name = "the developer"
        driver.get(f"{self.server.address}/inspect?token={TOKEN}")
        self.wait(lambda: self.page.text("#status") == "live", "is not connected")

    def tearDown(self):
        self.assertEqual(self.page.problems(), [])

    def wait(self, condition, message):
        try:
            return WebDriverWait(self.page.driver, PATIENCE, 0.05).until(lambda _: condition())
        except TimeoutException:
            shown = [self.page.text(selector) for selector in ("#stores", "#rows", "#detail")]
            raise AssertionError(f"The inspector {message}. It shows {shown}.") from None

    def add(self, title, client="test-client"):
        self.board.command("addCard", client=client, list=self.board.lists["Ideas"], title=title)

    def rows(self):
        """The kind and the words of each row."""
        return self.page.run("""
            return [...document.querySelectorAll("#rows .row")].map((row) => [
                row.querySelector(".mark").title, row.querySelector(".what").title])""")

    def choose(self, kind, words):
        """Clicks on the newest row of a kind with these words."""
        found = """[...document.querySelectorAll("#rows .row")].filter((row) =>
            row.querySelector(".mark").title === arguments[0] && row.querySelector(".what").title.includes(arguments[1])).pop()"""
        self.wait(lambda: self.page.run(f"return !!{found}", kind, words), f"shows no {kind} with {words}")
        self.page.run(f"{found}.click()", kind, words)

    def choose_action(self, title):
        """Goes from the event of a new card to its action, by the link between them."""
        self.choose("event", title)
        self.wait(lambda: "Led to" in self.detail(), "does not show what the event led to")
        self.page.run("document.querySelector('#detail dd button').click()")
        self.wait(lambda: "action, row" in self.detail() and "Revision" in self.detail(), "does not show the action")

    def detail(self):
        return self.page.text("#detail")

    def tab(self, number):
        self.page.run("document.querySelectorAll('#detail [role=tab]')[arguments[0]].click()", number)

    def test_it_follows_an_event_to_its_action_and_to_what_that_changed(self):
        self.wait(lambda: f"board {self.board.id}" in self.page.text("#stores"), "does not show the store of the board")
        self.add("Seen from inside")
        self.choose("event", "Seen from inside")
        self.wait(lambda: "Led to" in self.detail(), "does not show what the event led to")
        self.tab(1)
        self.wait(lambda: "Seen from inside" in self.page.text("#detail pre"), "does not show the arguments of the event")
        self.choose_action("Seen from inside")
        self.tab(0)
        added = "return [...document.querySelectorAll('#detail pre .more')].map((line) => line.textContent).join('\\n')"
        self.wait(lambda: "Seen from inside" in self.page.run(added), "does not show what the action changed")
        self.page.run("[...document.querySelectorAll('#detail dd button')].at(-1).click()")
        self.wait(lambda: "event, row" in self.detail(), "does not lead back to the event")

    def test_one_goes_back_to_the_state_of_any_action_and_the_board_stays_as_it_is(self):
        self.add("The first")
        self.add("The second")
        self.choose_action("The first")
        self.tab(2)
        self.wait(lambda: "The first" in (self.page.text("#detail pre") or ""), "does not show the state after the action")
        self.assertNotIn("The second", self.page.text("#detail pre"))
        self.assertEqual(self.board.shown(), [["Ideas", ["The first", "The second"]]])

    def test_rows_are_filtered_held_and_pinned(self):
        self.add("An apple")
        self.add("A pear")
        self.choose("event", "An apple")
        self.page.write("#filter", "pear")
        self.wait(lambda: self.rows() and all("pear" in words for _, words in self.rows()), "shows rows without the word")
        self.page.click("#pause")
        self.add("Another pear")
        self.wait(lambda: self.page.shown("#follow"), "does not say that there is more")
        self.assertFalse(any("Another" in words for _, words in self.rows()))
        self.page.write("#filter", "apple")
        self.wait(lambda: any("apple" in words for _, words in self.rows()), "does not filter what it holds")
        self.page.write("#filter", "pear")
        self.wait(lambda: any("A pear" in words for _, words in self.rows()), "does not show what it held")
        self.assertFalse(any("Another" in words for _, words in self.rows()))
        self.page.click("#pause")
        self.wait(lambda: any("Another" in words for _, words in self.rows()), "does not go on")
        self.page.run("document.querySelector('#detail [aria-pressed]').click()")
        self.wait(lambda: "An apple" in self.page.text("#pins"), "does not keep the row that was pinned")

    def test_the_focus_stays_while_stores_come(self):
        self.wait(lambda: self.page.run("return !!document.querySelector('#stores .look')"), "shows no store")
        self.page.run("document.querySelector('#stores .look').focus()")
        other = Board(self.server, "Another", Ideas=[])
        self.wait(lambda: f"board {other.id}" in self.page.text("#stores"), "does not show the store that has come")
        self.assertEqual(self.page.run("return document.activeElement.className"), "look")

    def test_html_in_what_it_shows_is_text(self):
        self.add("<img src=x onerror=alert(1)><b>bold</b>")
        self.choose_action("<b>bold</b>")
        self.wait(lambda: "<b>bold</b>" in (self.page.text("#detail pre") or ""), "does not show the words as they are")
        self.assertEqual(self.page.run("return document.querySelectorAll('#rows img, #detail img, #detail pre b').length"), 0)

    def test_nobody_looks_without_the_token(self):
        for path in ("/inspect", "/inspect/stores", "/inspect/stream", "/inspect?token=guessed"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.server.request(path)
            self.assertEqual(refused.exception.code, 401, path)
            refused.exception.close()

    def test_it_is_connected_again_after_a_restart(self):
        self.server.kill()
        self.wait(lambda: self.page.text("#status") == "reconnecting", "does not show that the server is gone")
        self.server.start()
        # The cookie was worth nothing any more.
        self.page.driver.get(f"{self.server.address}/inspect?token={TOKEN}")
        self.add("After it")
        self.choose_action("After it")

    def test_the_server_ends_in_order_while_somebody_looks(self):
        self.assertEqual(self.server.terminate(), 0)

    def test_it_has_room_for_what_it_shows(self):
        self.page.look()
        for title in ("Offline mode for the tram", "Share a single card by link", "Sounds? Rather not"):
            self.add(title)
        self.choose_action("Share a single card")
        self.wait(lambda: self.page.text("#detail pre"), "does not show what the action changed")
        self.assertTrue(self.page.run("return document.documentElement.scrollWidth <= window.innerWidth"))
        if options.screenshots:
            self.page.driver.save_screenshot(str(pathlib.Path(options.screenshots, "inspector.png")))
        self.page.look(width=390, height=700, phone=True)
        self.assertLessEqual(self.page.run("return document.querySelector('main').offsetWidth"), 390)
        self.assertGreaterEqual(self.page.run("return document.getElementById('filter').offsetWidth"), 300)


class ScreenshotTest(unittest.TestCase):
    """Takes the pictures of the README: a board as a team has it. Is run where --screenshots names a folder."""

    LISTS = {
        "Ideas": [
            ("Offline mode for the tram", "Keep the last board, send what was written once we are back.", 2),
            ("Share a single card by link", "", 1),
            ("Search across all boards", "", 0),
            ("Sounds? Rather not", "", 0),
            ("Colours for lists that one chooses", "", 1),
        ],
        "Next": [
            ("Dark theme follows the system", "No switch of our own.", 3),
            ("Import from a spreadsheet", "Title and notes are enough at first.", 1),
            ("Translate the help page", "Mina does Norwegian.", 0),
        ],
        "In progress": [
            ("Undo for removed lists", "The cards have to come back in their order.", 2),
            ("Screen reader test with Mina", "Thursday, 14:00, room 3.", 0),
            ("Shorter start page", "", 1),
        ],
        "Done": [
            ("Move cards by keyboard", "", 4),
            ("Fix: votes counted twice after a reconnection", "", 2),
            ("Who is here, with names", "", 3),
            ("Pictures for the README", "", 0),
        ],
    }

    def test_takes_the_pictures(self):
        server = Server()
        self.addCleanup(server.close)
        board = Board(server, "Spring release", **{list: [card[0] for card in cards] for list, cards in self.LISTS.items()})
        for title, text, votes in (card for cards in self.LISTS.values() for card in cards):
            id = board.cards[title]
            if text:
                board.command("editCard", card=id, title=title, text=text, revision=board.card(id)["revision"])
            for voter in range(votes):
                board.command("vote", client=f"voter-of-the-{voter}", card=id, on=True)
        pages = []
        for name in ("Ada", "Mina"):
            driver = new_browser()
            self.addCleanup(driver.quit)
            page = Page(driver)
            if name == "Ada":
                page.look(width=1440, height=570)
            else:
                page.look(dark=True, width=390, height=700, phone=True, scale=2)
            page.open(board, name)
            for title in ("Dark theme follows the system", "Undo for removed lists"):
                page.click(f"[data-card={board.cards[title]}] .vote")
            pages.append(page)
        for page, picture in zip(pages, ("board-light.png", "board-phone-dark.png")):
            page.until(lambda: page.people()[0] == "2 here", "does not show that two are here")
            page.until(lambda: page.votes(board.cards["Undo for removed lists"]) == ["true", "4"], "does not show all votes")
            page.run("document.activeElement.blur(); document.getElementById('board').scrollTo(0, 0)")
            page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 4, "y": 4})
            page.until(lambda: not page.run("return document.getAnimations().length"), "does not come to rest")
            path = pathlib.Path(options.screenshots, picture)
            path.parent.mkdir(parents=True, exist_ok=True)
            page.driver.save_screenshot(str(path))
            self.assertLessEqual(path.stat().st_size, 200_000, f"{picture} is larger than a README should load.")


# Each visible text with its contrast to what is behind it, where that is less than WCAG's AA asks for.
CONTRAST = """
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const paint = (colours) => {
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([red, green, blue]) => {
        const [r, g, b] = [red, green, blue].map((part) => part / 255).map(
            (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const poor = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.textContent.trim() || !element.checkVisibility() || element.closest(".unseen")) continue;
        const grounds = [];
        for (let it = element; it; it = it.parentElement) grounds.unshift(getComputedStyle(it).backgroundColor);
        const ground = light(paint(grounds));
        const ink = light(paint([...grounds, getComputedStyle(element).color]));
        const contrast = (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
        if (contrast < 4.5) poor.push(`${texts.currentNode.textContent.trim()}: ${contrast.toFixed(2)}`);
    }
    return poor;"""


def load_tests(loader, tests, pattern):
    suite = unittest.TestSuite()
    for case in (BoardTest, RestartTest, SharedLogTest, InspectorTest) + ((ScreenshotTest,) if options.screenshots else ()):
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--server", default=options.server)
    parser.add_argument("--screenshots")
    _, remaining = parser.parse_known_args(namespace=options)
    unittest.main(argv=[sys.argv[0], *remaining])
