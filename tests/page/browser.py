#!/usr/bin/env python3
"""browser.py OLE FOLDER - opens a report in headless Chromium and uses it as a reader would.

Makes a report with the program OLE, opens it from disk, points, filters, zooms, switches to dark and
to a phone, runs the checks of accessibility.js, and keeps screenshots in FOLDER.  Where Chromium is
not installed it says so and is skipped (exit 77).  Chromium is spoken to through a pipe, in its
DevTools protocol; nothing but Python's standard library is needed.
"""
import base64
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SKIPPED = 77
failures = []


def check(name, condition, detail=""):
    print(f"{'ok' if condition else 'FAILED'}  {name}" + (f": {detail}" if detail and not condition else ""))
    if not condition:
        failures.append(name)


class Browser:
    """A Chromium without a window and one page in it."""

    def __init__(self, program, profile):
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        # Chromium reads its descriptor 3 and writes its descriptor 4.
        command = ["sh", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "sh", program,
                   "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   "--no-first-run", "--disable-background-networking", "--disable-extensions",
                   "--disable-dev-shm-usage", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                return None
            part = os.read(self.back, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(60)
            if answer is None:
                raise RuntimeError(f"no answer to {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def settle(self, seconds=0.3):
        """Takes what arrives within so much time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            event = self.receive(left)
            if event:
                self.events.append(event)

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:600])
        return answer["result"].get("value")

    def open(self, path):
        self.call("Page.navigate", url=path.as_uri())
        for _ in range(100):
            self.settle(0.1)
            if self.evaluate("document.readyState") == "complete":
                return
        raise RuntimeError("the page does not load")

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if mobile else 1, mobile=mobile)
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle(0.1)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle(0.1)

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


# ---- What is tried ------------------------------------------------------------------------------

def centre(browser, selector):
    """Where an element is, scrolled into view."""
    return browser.evaluate(f"""(() => {{
        const element = document.querySelector({json.dumps(selector)});
        element.scrollIntoView({{ block: "center", behavior: "instant" }});
        const box = element.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    }})()""")


def visible_tips(browser):
    """The values that are shown beside the pointer."""
    return browser.evaluate("""[...document.querySelectorAll(".value-tip")].filter((tip) => tip.checkVisibility())
        .map((tip) => tip.textContent)""")


def check_console(browser):
    wrong = []
    for event in browser.events:
        kind, about = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            wrong.append(json.dumps(about)[:300])
        elif kind == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            wrong.append(about["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            wrong.append(json.dumps(about["args"])[:300])
        elif kind == "Network.requestWillBeSent":
            url = about["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                wrong.append("asks the network for " + url)
    check("no console error, nothing from the network", not wrong, "; ".join(wrong))


def check_policy(browser):
    """What the page did not bring along does not run, and nothing is loaded: last, as it is logged."""
    blocked = browser.evaluate("""(async () => {
        const blocked = [];
        document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        const button = document.createElement("button");
        button.setAttribute("onclick", "window.injected = true");
        document.body.append(button);
        button.click();
        const image = new Image();
        const failed = new Promise((done) => { image.onerror = done; });
        image.src = "http://127.0.0.1:9/x.png";
        await failed;
        await fetch("http://127.0.0.1:9/").catch(() => {});
        await new Promise((done) => setTimeout(done, 200));
        return [window.injected || false, ...new Set(blocked)].map(String).sort();
    })()""")
    check("injected scripts and requests are blocked",
          blocked == ["connect-src", "false", "img-src", "script-src-attr", "script-src-elem"], str(blocked))


def check_hover(browser):
    centre(browser, "figure.map canvas")
    x, y, name = browser.evaluate("""(() => {
        const map = document.querySelector("figure.map").pointMap;
        const box = map.canvas.getBoundingClientRect(), [x, y] = map.place(7);
        return [box.x + x, box.y + y, map.names[map.labels[7]]];
    })()""")
    browser.mouse("mouseMoved", x, y)
    browser.settle()
    tip = browser.evaluate("""(() => {
        const map = document.querySelector("figure.map").pointMap, tip = map.tip;
        const at = tip.querySelector("canvas").getContext("2d")
            .getImageData(0, 0, map.picture.width, map.picture.height).data;
        return { hidden: tip.hidden, text: tip.textContent, bright: at.some((v, i) => i % 4 < 3 && v > 100),
            width: map.picture.width, shape: map.picture.clientWidth / map.picture.clientHeight };
    })()""")
    check("pointing shows label and thumbnail", not tip["hidden"] and tip["text"].startswith(name) and
          tip["bright"] and tip["width"] == 8 and abs(tip["shape"] - 1) < 0.1, str(tip))


def check_filter(browser):
    before = browser.evaluate("document.querySelector('figure.map').pointMap.count")
    browser.click(*centre(browser, "fieldset.classes label:nth-of-type(3) input"))
    state = browser.evaluate("""(() => {
        const map = document.querySelector("figure.map").pointMap;
        const expected = [...map.labels].filter((label) => label !== 2).length;
        return [Number(map.canvas.dataset.visible), expected, map.spoken.textContent];
    })()""")
    check("a class can be filtered out", state[0] == state[1] < before, str(state))
    check("the filter is announced", state[2].startswith(f"{state[1]} of {before}"), state[2])
    browser.click(*centre(browser, "button[data-do=none]"))
    hidden = browser.evaluate("""(() => {
        const map = document.querySelector("figure.map").pointMap, [x, y] = map.place(7);
        return map.nearest(x, y);
    })()""")
    check("filtered points cannot be pointed at", hidden == -1, str(hidden))
    browser.click(*centre(browser, "button[data-do=all]"))


def check_names(browser):
    """Classes are named on the map, and found by name."""
    named = "(() => { const map = document.querySelector('figure.map').pointMap; return [Number(map.canvas.dataset.named)," \
        " map.names.length, map.boxes.filter((box) => box.checkVisibility()).length, map.spoken.textContent]; })()"
    state = browser.evaluate(named)
    check("classes are named on the map", state[0] >= 0.7 * state[1] > 0, str(state))
    name = browser.evaluate("document.querySelector('figure.map').pointMap.names[3]")
    browser.click(*centre(browser, "figure.map input[type=search]"))
    for letter in name:
        browser.key(letter)
    browser.settle()
    state = browser.evaluate(named)
    check("a class is found by its name", state[0] == 1 and state[2] == 1 and state[3].startswith("1 of"), str(state))
    for _ in name:
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="Backspace", windowsVirtualKeyCode=8)
    browser.settle()
    check("without a search all classes are listed", browser.evaluate(named)[2] == state[1])


def check_moving(browser):
    zoom = "document.querySelector('figure.map').pointMap.view.zoom"
    x, y = centre(browser, "figure.map canvas")
    top = browser.evaluate("scrollY")
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
    browser.settle(0.6)
    state = browser.evaluate(f"[{zoom}, scrollY, document.querySelector('.map-advice').checkVisibility()]")
    check("the wheel over the map scrolls the page", state[0] == 1 and state[1] < top, f"{top} {state}")
    check("the map says how to zoom", state[2])
    x, y = centre(browser, "figure.map canvas")
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400, modifiers=2)
    browser.settle()
    wheel = browser.evaluate(zoom)
    check("Ctrl and the wheel zoom", wheel > 1.5, str(wheel))
    browser.click(x, y)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-100)
    browser.settle()
    clicked = browser.evaluate(zoom)
    check("after a click the wheel zooms", clicked > wheel, f"{wheel} {clicked}")
    wheel = clicked
    before = browser.evaluate("document.querySelector('figure.map').pointMap.view.x")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x - 80, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x - 80, y, button="left", clickCount=1)
    after = browser.evaluate("document.querySelector('figure.map').pointMap.view.x")
    check("dragging moves the map", after > before, f"{before} {after}")
    browser.evaluate("document.querySelector('figure.map canvas').focus()")
    browser.key("+")
    check("the keyboard zooms", browser.evaluate(zoom) > wheel)
    browser.key("n")
    spoken = browser.evaluate("document.querySelector('figure.map [aria-live]').textContent")
    check("the keyboard shows and announces points", "sample 0" in spoken, spoken)
    browser.key("0")
    check("0 shows the whole map again", browser.evaluate(zoom) == 1)


def check_touch(browser):
    """One finger scrolls the page, two zoom the map."""
    state = "[scrollY, document.querySelector('figure.map').pointMap.view.zoom]"
    browser.size(390, 844, mobile=True)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=5)
    x, y = centre(browser, "figure.map canvas")
    before = browser.evaluate(state)
    for step in range(12):
        kind = "touchStart" if step == 0 else "touchEnd" if step == 11 else "touchMove"
        points = [{"x": x, "y": y + 20 * step, "id": 1}] if step < 11 else []
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        browser.settle(0.05)
    browser.settle()
    after = browser.evaluate(state)
    check("one finger on the map scrolls the page", after[0] < before[0] - 100 and after[1] == before[1],
          f"{before} {after}")
    x, y = centre(browser, "figure.map canvas")
    before = browser.evaluate(state)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60), ("touchEnd", 0)):
        points = [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}] if apart else []
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        browser.settle(0.1)
    after = browser.evaluate(state)
    check("two fingers zoom the map", after[1] > 2 and after[0] == before[0], f"{before} {after}")
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    browser.evaluate("document.querySelector('figure.map').pointMap.reset()")
    browser.size(1280, 900)


def check_space(browser):
    """Points in three dimensions turn by pointer and keys."""
    first = "document.querySelector('figure.space svg svg path').getAttribute('d').slice(0, 40)"
    start = browser.evaluate(first)
    x, y = centre(browser, "figure.space svg.figure")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x + 60, y + 20, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 60, y + 20, button="left", clickCount=1)
    dragged = browser.evaluate(first)
    check("dragging turns the points in space", dragged != start, start)
    browser.evaluate("document.querySelector('figure.space svg.figure').focus()")
    browser.key("ArrowLeft")
    check("an arrow key turns the points in space", browser.evaluate(first) != dragged)
    browser.key("0")
    check("0 turns the points back", browser.evaluate(first) == start)
    check_accessibility(browser, "space")


def check_layout(browser):
    """One run on a wide screen: opened numbers, the recipe; on a phone: headlines."""
    heights = "[...document.querySelector('.grid:has(details)').children].slice(0, 2).map((e) => e.offsetHeight)"
    browser.size(1280, 900)
    before = browser.evaluate(heights)
    browser.evaluate("document.querySelector('.grid details').open = true")
    after = browser.evaluate(heights)
    browser.evaluate("document.querySelector('.grid details').open = false")
    check("opened numbers do not stretch their neighbour", after[0] > before[0] and after[1] <= before[1],
          f"{before} {after}")
    aligned = browser.evaluate("""[...new Set([...document.querySelectorAll("section:last-of-type .table td")]
        .map((cell) => getComputedStyle(cell).textAlign))]""")
    check("the recipe's column has one alignment", aligned == ["left"], str(aligned))
    browser.size(390, 844, mobile=True)
    lines = browser.evaluate("""(() => {
        const value = document.querySelector(".headline .value"), text = value.textContent;
        value.textContent = "85.6 ± 0.2°";
        const lines = value.offsetHeight / parseFloat(getComputedStyle(value).lineHeight);
        const fits = value.scrollWidth <= value.clientWidth;
        value.textContent = text;
        return [Math.round(lines), fits];
    })()""")
    check("a phone shows a headline on one line", lines == [1, True], str(lines))
    narrow = browser.evaluate("""[...document.querySelectorAll("svg.figure")].filter((drawing) => drawing.checkVisibility())
        .map((drawing) => Boolean(drawing.closest(".narrow")))""")
    check("a phone shows each figure as drawn for it", len(narrow) >= 7 and all(narrow), str(narrow))
    browser.mouse("mouseMoved", *centre(browser, "figure[data-x] .narrow svg svg"))
    browser.settle(0.2)
    tips = visible_tips(browser)
    check("a phone shows values of a learning curve", len(tips) == 1 and "epoch" in tips[0], str(tips))
    browser.mouse("mouseMoved", 1, 1)
    browser.size(1280, 900)
    wide = browser.evaluate("[...document.querySelectorAll('.narrow')].filter((drawing) => drawing.checkVisibility()).length")
    check("a wide screen shows each figure once", wide == 0, str(wide))


def check_linked(browser):
    """Two maps of one test set: a sample or a class chosen in one shows in both."""
    maps = "[...document.querySelectorAll('figure.map')].map((figure) => figure.pointMap)"
    place = f"""(() => {{ const map = {maps}[0], box = map.canvas.getBoundingClientRect(), [x, y] = map.place(7);
        return [box.x + x, box.y + y]; }})()"""
    state = f"{maps}.map((map) => [map.shown, map.kept, map.tip.hidden, map.tip.textContent])"
    centre(browser, "figure.map canvas")
    x, y = browser.evaluate(place)
    browser.mouse("mouseMoved", x, y)
    browser.settle()
    shown = browser.evaluate(state)
    check("a sample pointed at shows in both maps", shown[0] == shown[1] and shown[0][0] >= 0 and not shown[1][2],
          str(shown))
    browser.click(x, y)
    browser.mouse("mouseMoved", 2, 2)
    browser.settle()
    kept = browser.evaluate(state)
    check("a click keeps the sample in both maps", [m[:3] for m in kept] == [[shown[0][0], shown[0][0], False]] * 2,
          str(kept))
    browser.evaluate("document.querySelector('figure.map canvas').focus()")
    browser.key("Escape")
    check("Escape lets it go", [m[:2] for m in browser.evaluate(state)] == [[-1, -1]] * 2)
    browser.mouse("mouseMoved", *centre(browser, "fieldset.classes label:nth-of-type(4)"))
    browser.settle()
    lit = browser.evaluate(f"{maps}.map((map) => [map.lit, map.names.filter((_, label) => map.stands(label)).length])")
    check("a class pointed at stands out in both maps", lit == [[3, 1]] * 2, str(lit))
    browser.mouse("mouseMoved", 2, 2)
    browser.click(*centre(browser, "fieldset.classes label:nth-of-type(3) input"))
    visible = browser.evaluate(f"{maps}.map((map) => [Number(map.canvas.dataset.visible), map.boxes[2].checked])")
    check("a filter holds in both maps", visible[0] == visible[1] and not visible[0][1], str(visible))
    browser.click(*centre(browser, "button[data-do=all]"))
    browser.evaluate("(() => { const field = document.querySelector('figure.map input[type=search]');"
                     " field.value = '4'; field.dispatchEvent(new Event('input')); })()")
    found = browser.evaluate(f"{maps}.map((map) => [map.field.value, map.found.filter(Boolean).length])")
    check("a search holds in both maps", found == [["4", 1]] * 2, str(found))


def check_comparison(browser):
    """Beside softmax alone, headlines say better or worse."""
    notes = browser.evaluate("[...document.querySelectorAll('.headline .note')].map((note) => note.textContent)")
    judged = [note for note in notes if any(word in note for word in ("▲", "▼", "≈"))]
    check("headlines compare with softmax alone", len(judged) >= 4 and all("softmax alone" in note for note in notes),
          str(notes))


def check_words(browser):
    """A narrow column breaks its cells between words, not in one."""
    broken = browser.evaluate("""[...document.querySelectorAll(".table td.words")].filter((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return !/[ -]/.test(cell.textContent) && range.getClientRects().length > 1;
    }).map((cell) => cell.textContent)""")
    check("no word is broken in the table of runs", not broken, str(broken))


def check_photos(browser):
    """Images of a folder: mistakes large, with their files; files in the map's tooltip."""
    mistakes = browser.evaluate("""[...document.querySelectorAll(".strip li")].map((item) => [
        item.querySelector("img").clientWidth, item.querySelector("b").textContent, item.textContent])""")
    check("mistakes are large enough to see", bool(mistakes) and all(m[0] >= 120 for m in mistakes), str(mistakes[:3]))
    check("mistakes name both classes and their file",
          all(" → " in m[1] and ".ppm" in m[2] for m in mistakes), str(mistakes[:3]))
    centre(browser, "figure.map canvas")
    x, y = browser.evaluate("""(() => { const map = document.querySelector("figure.map").pointMap,
        box = map.canvas.getBoundingClientRect(), [x, y] = map.place(0); return [box.x + x, box.y + y]; })()""")
    browser.mouse("mouseMoved", x, y)
    browser.settle()
    tip = browser.evaluate("document.querySelector('.map-tip').textContent")
    check("the map's tooltip names the file", ".ppm" in tip and "/" in tip, tip)
    names = browser.evaluate("""[...document.querySelectorAll("figure[data-blocks] svg.figure text")].map((e) => e.textContent)""")
    check("the angles' heat map names its classes", {"bright", "dim", "mixed"} <= set(names), str(names))
    browser.mouse("mouseMoved", *centre(browser, "figure[data-blocks] image"))
    browser.settle(0.2)
    tips = visible_tips(browser)
    check("the pointer shows the angle of two classes", len(tips) == 1 and "mean " in tips[0] and
          any(name in tips[0] for name in ("bright", "dim", "mixed")), str(tips))
    browser.mouse("mouseMoved", 1, 1)


def check_values(browser):
    """Pointing at a chart shows its numbers."""
    cell = "figure:not([data-x]) svg.figure path:not([class])"  # the first: of class 0 for class 0
    number = browser.evaluate("document.querySelector('figure:not([data-x]) tbody td').textContent")
    for selector, name, wanted in (("figure[data-x] svg.figure svg", "a learning curve", "epoch"),
                                   (cell, "the confusion", f"0, 0: {number}")):
        x, y = centre(browser, selector)
        browser.mouse("mouseMoved", x, y)
        browser.settle(0.2)
        tips = visible_tips(browser)
        check(f"the pointer shows values of {name}", len(tips) == 1 and wanted in tips[0] and
              any(letter.isdigit() for letter in tips[0]), str(tips))
    browser.mouse("mouseMoved", 1, 1)


def check_points(browser, selector, where):
    """Pointing at a point names its class."""
    browser.evaluate(f"document.querySelector('{selector}').scrollIntoView({{ block: 'center', behavior: 'instant' }})")
    x, y = browser.evaluate(f"""(() => {{
        const drawing = document.querySelector("{selector} svg.figure"), path = drawing.querySelector(":scope svg path");
        const [px, py, r] = path.getAttribute("d").match(/-?[\\d.]+/g).map(Number);
        const box = drawing.getBoundingClientRect(), scale = box.width / drawing.viewBox.baseVal.width;
        return [box.x + (px + r) * scale, box.y + py * scale];
    }})()""")
    browser.mouse("mouseMoved", x, y)
    browser.settle(0.2)
    tips = visible_tips(browser)
    check(f"the pointer names a point {where}", len(tips) == 1 and tips[0][:1] in ("0", "1", "2"), str(tips))
    browser.mouse("mouseMoved", 1, 1)


def check_seeds(browser):
    """Several seeds are drawn as a mean and a shaded band, whose deviation the pointer shows."""
    bands = browser.evaluate("""[...document.querySelectorAll("figure[data-x] svg svg path[fill-opacity]")].length""")
    check("seeds are shaded bands", bands >= 3, str(bands))
    browser.mouse("mouseMoved", *centre(browser, "figure[data-x] svg.figure svg"))
    browser.settle(0.2)
    tips = visible_tips(browser)
    check("the pointer shows the deviation", len(tips) == 1 and " ± " in tips[0], str(tips))
    guide = browser.evaluate("document.querySelector('figure[data-x] svg svg line').getAttribute('visibility')")
    check("a guide marks the place", guide == "visible", guide)
    browser.mouse("mouseMoved", 1, 1)


def check_marks(browser):
    """The threshold is a line in the histogram, under its name, which stays inside the axes: up to 4 px aside."""
    marks = browser.evaluate("""[...document.querySelectorAll("figure > svg.figure > path.stroke-ink")].map((line) => {
        const name = [...line.parentElement.children].find((e) => e.textContent === "threshold");
        const [a, b] = [line, name].map((e) => e?.getBoundingClientRect());
        return b && a.height > 100 && b.bottom <= a.top + 8 && b.left <= a.right + 4 && b.right >= a.left - 4;
    })""")
    check("thresholds are marked in the histograms", len(marks) >= 3 and all(marks), str(marks))
    check_accessibility(browser, "novelty")
    browser.size(390, 844, mobile=True)
    check_accessibility(browser, "novelty on a phone")
    browser.size(1280, 900)


def check_accessibility(browser, look):
    problems = browser.evaluate((Path(__file__).parent / "accessibility.js").read_text())
    check(f"accessibility, {look}", not problems, "; ".join(problems[:12]))


def check_the_checks(browser):
    """What is wrong is found: an image, a button and a heading as they should not be."""
    browser.evaluate("""document.querySelector("main").insertAdjacentHTML("beforeend", '<div id="wrong">'
        + '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><button></button><h5>deep</h5>'
        + '<p style="color:#bbb;background:#fff">pale</p></div>')""")
    problems = browser.evaluate((Path(__file__).parent / "accessibility.js").read_text())
    found = [any(p.startswith(what) for p in problems)
             for what in ("an image without alt", "no name", "a heading skips", "contrast 1.")]
    check("the checks of accessibility find mistakes", all(found), str(problems))
    browser.evaluate("document.getElementById('wrong').remove()")


def check_dark_colours(browser):
    """Series and classes stand out from dark cards."""
    pale = browser.evaluate("""(() => {
        const luminance = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number)
            .map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0.05);
        const card = luminance(getComputedStyle(document.querySelector("figure")).backgroundColor);
        const colours = [...document.querySelectorAll(".swatch")].map((e) => getComputedStyle(e).backgroundColor)
            .concat([...document.querySelectorAll("svg [class*=stroke-s]")].map((e) => getComputedStyle(e).stroke));
        return [...new Set(colours)].filter((colour) => luminance(colour) / card < 4.5);
    })()""")
    check("series and classes have contrast on dark", not pale, str(pale))
    check("the map is drawn in the dark's colours", browser.evaluate(
        "(() => { const map = document.querySelector('figure.map').pointMap;"
        " return map.colours[0] !== map.boxes[0].dataset.colour"
        " && map.colours[0] === getComputedStyle(document.querySelector('.swatch')).backgroundColor; })()"))


def check_looks(browser, folder):
    background = "getComputedStyle(document.body).backgroundColor"
    browser.size(1280, 900)
    check_accessibility(browser, "light")
    browser.screenshot(folder / "page-light.png")
    light = browser.evaluate(background)
    browser.click(*centre(browser, "#theme"))
    check("the button switches to dark", browser.evaluate(background) != light)
    check_accessibility(browser, "dark")
    check_dark_colours(browser)
    browser.evaluate("window.scrollTo(0, 0)")
    browser.screenshot(folder / "page-dark.png")
    dark = browser.evaluate(background)
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    printed = browser.evaluate(f"[{background}, document.querySelector('figure.map').pointMap.colours[0]]")
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    check("a dark page is printed light, its map too", printed[0] == light and browser.evaluate(background) == dark and
          printed[1] != browser.evaluate("document.querySelector('figure.map').pointMap.colours[0]"), str(printed))
    browser.size(360, 740, mobile=True)
    wide = browser.evaluate("document.documentElement.scrollWidth")
    check("a phone need not scroll sideways", wide <= 360, f"{wide} pixels")
    check_accessibility(browser, "phone")
    browser.screenshot(folder / "page-phone.png")
    browser.call("Emulation.setEmulatedMedia", features=[
        {"name": "prefers-reduced-motion", "value": "reduce"},
        {"name": "prefers-color-scheme", "value": "dark"}])
    browser.evaluate("delete document.documentElement.dataset.theme")
    check("the system's dark look is followed", browser.evaluate(background) != light)
    motion = browser.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
    check("reduced motion is respected", motion == "auto", motion)


def make_page(ole, work):
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    for loss in ("softmax", "softmax+ole"):
        subprocess.run([ole, "train", "digits", "--net", "C16-MP-C32-MP-FC32", "--epochs", "3", "--loss",
                        loss, "--out", loss, "--no-report"], cwd=work, env=environment, check=True,
                       capture_output=True)
    for runs, page in ((["softmax+ole"], "one.html"), (["softmax", "softmax+ole"], "two.html")):
        subprocess.run([ole, "report", *runs, "--out", page], cwd=work, env=environment, check=True,
                       capture_output=True)


def make_photos(ole, work):
    """A run on a folder of small images that a single epoch does not learn, and one of two seeds."""
    for label, name in enumerate(("bright", "dim", "mixed")):
        (work / "photos" / name).mkdir(parents=True)
        for i in range(80):
            shade = [(40 * label + 97 * i * (k + 3) + 13 * k * k) % 256 for k in range(16 * 16 * 3)]
            (work / "photos" / name / f"{i}.ppm").write_bytes(b"P6 16 16 255\n" + bytes(shade))
    subprocess.run([ole, "train", "folder:photos", "--net", "C8-MP-FC8", "--epochs", "1", "--out", "photos-run"],
                   cwd=work, check=True, capture_output=True)
    subprocess.run([ole, "train", "digits", "--net", "C4-MP-FC8", "--samples-per-class", "12", "--epochs", "3",
                    "--seeds", "2", "--out", "seeds"], cwd=work, check=True, capture_output=True)
    subprocess.run([ole, "report", "photos-run", "seeds/seed-0", "--no-tsne", "--out", "mixed.html"], cwd=work, check=True,
                   capture_output=True)


def make_novelty(ole, work):
    """The scores of known and novel digits, with a threshold."""
    for command in ("train digits --classes 0,1,2 --val-split 20% --net C4-MP-FC8 --epochs 2 --no-report --out three",
                    "novelty three --known digits --novel digits --out novelty.html"):
        subprocess.run([ole, *command.split()], cwd=work, check=True, capture_output=True)


def make_space(ole, work):
    """Pages of three classes in three dimensions, each along an axis, and in two."""
    rows = [[(5 + i % 7) if k == c else (i * (k + 1) % 5) / 10 for k in range(3)] for c in range(3) for i in range(20)]
    for name, kind, shape, values in (("F", "d", (60, 3), sum(rows, [])), ("L", "q", (60,), [i // 20 for i in range(60)])):
        header = str({"descr": {"d": "<f8", "q": "<i8"}[kind], "fortran_order": False, "shape": shape}).ljust(117) + "\n"
        (work / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                                           + struct.pack(f"<{len(values)}{kind}", *values))
    subprocess.run([ole, "analyze", "F.npy", "L.npy", "--no-tsne", "--out", "space.html"], cwd=work, check=True,
                   capture_output=True)
    flat = "".join(f"{row[0]},{row[1] + row[2]}\n" for row in rows)
    (work / "flat.csv").write_text(flat)
    subprocess.run([ole, "analyze", "flat.csv", "L.npy", "--no-tsne", "--out", "flat.html"], cwd=work, check=True,
                   capture_output=True)


def main():
    ole, folder = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not program:
        print("skipped: Chromium is not installed (Debian: chromium)")
        return SKIPPED
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_page(ole, work)
        make_photos(ole, work)
        make_novelty(ole, work)
        make_space(ole, work)
        browser = Browser(program, work / "profile")
        try:
            browser.size(1280, 900)
            browser.open(work / "one.html")
            check_hover(browser)
            check_filter(browser)
            check_names(browser)
            check_moving(browser)
            check_touch(browser)
            check_layout(browser)
            check_values(browser)
            check_the_checks(browser)
            check_looks(browser, folder)
            browser.size(1280, 900)
            browser.open(work / "two.html")
            check("two runs, two maps", browser.evaluate(
                "[...document.querySelectorAll('figure.map')].filter((f) => f.pointMap).length") == 2)
            wide = browser.evaluate("(() => { const e = document.querySelector('.table .scroll');"
                                    " return [e.scrollWidth, e.clientWidth]; })()")
            check("the table of two runs is whole at 1280 pixels", wide[0] <= wide[1], str(wide))
            check_linked(browser)
            check_comparison(browser)
            check_accessibility(browser, "two runs")
            browser.screenshot(folder / "page-two-runs.png")
            browser.open(work / "photos-run" / "report.html")
            check_photos(browser)
            check_accessibility(browser, "photos")
            browser.screenshot(folder / "page-photos.png")
            browser.open(work / "mixed.html")
            check_words(browser)
            browser.open(work / "seeds" / "report.html")
            check_seeds(browser)
            browser.open(work / "novelty.html")
            check_marks(browser)
            browser.open(work / "flat.html")
            check_points(browser, "figure[data-y]", "in a plane")
            browser.open(work / "space.html")
            check_points(browser, "figure.space", "in space")
            check_space(browser)
            check_console(browser)
            check_policy(browser)
        finally:
            browser.close()
    return 1 if failures else 0


sys.exit(main())
