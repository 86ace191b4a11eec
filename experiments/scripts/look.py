#!/usr/bin/env python3
"""Opens pages in a headless Firefox at three widths, light and dark, and measures what an eye would stumble over.

    experiments/scripts/look.py                                  the committed reports
    experiments/scripts/look.py --shots /tmp/shots a.html b.html  any page, with a picture of each

Complaints are: the page scrolls sideways; an element reaches beyond the right edge; a table is blank or a column so
narrow that words are broken; two columns of a table have one name and the same cells; labels of a figure
overlap or are cut; text whose contrast to what is under it is below 4.5 (WCAG AA). The exit code is 1 if there is any,
and 0 with a sentence where no Firefox is found. It speaks Marionette, Firefox's own protocol, and needs no package.
"""

import argparse
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS = (375, 768, 1280)
SCREEN = 900

# Runs in the page. Each complaint is a sentence; equal ones are counted by the caller.
MEASURE = r"""
const found = [];
const wide = document.scrollingElement.scrollWidth, room = document.documentElement.clientWidth;
if (wide > room) found.push(`the page is ${wide} px wide`);
const name = (e) => {
  const text = (e.textContent || '').trim().replace(/\s+/g, ' ').slice(0, 40);
  return `${e.tagName.toLowerCase()}${e.className && e.className.baseVal === undefined ? '.' + e.className : ''} "${text}"`;
};
const section = (e) => {
  let last = '';
  for (const h of heads) { if (h.compareDocumentPosition(e) & 4) last = h.id || h.textContent.slice(0, 20); else break; }
  return last ? ` (in ${last})` : '';
};
const heads = [...document.querySelectorAll('h2')];
// Words of a cell that go on in the next line without a hyphen.
const broken = (cell) => {
  const words = [], walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
  while (walk.nextNode()) for (const word of walk.currentNode.data.matchAll(/(?<![\p{L}\d])\p{L}{3,16}(?![\p{L}\d])/gu)) {
    range.setStart(walk.currentNode, word.index);
    range.setEnd(walk.currentNode, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) words.push(word[0]);
  }
  return words;
};
for (const d of document.querySelectorAll('details')) d.open = true;
for (const e of document.body.querySelectorAll('*')) {
  if (e.closest('svg') && e.tagName.toLowerCase() !== 'svg') continue;
  const box = e.getBoundingClientRect();
  if (box.width && box.right > room + 0.5) found.push(`beyond the right edge: ${name(e)}${section(e)}`);
}
for (const t of document.querySelectorAll('table')) {
  const box = t.getBoundingClientRect();
  if (!t.querySelector('td') || box.height < 5 || !t.innerText.trim()) found.push(`a blank table${section(t)}`);
  for (const c of t.querySelectorAll('td, th')) {
    const b = c.getBoundingClientRect(), text = c.innerText.trim();
    if (b.width && text.length > 12 && b.width < 40) found.push(`a cell of ${Math.round(b.width)} px: ${name(c)}${section(t)}`);
    if (b.height > 700) found.push(`a cell ${Math.round(b.height)} px tall: ${name(c)}${section(t)}`);
    if (!c.querySelector('code')) for (const word of broken(c)) found.push(`a broken word: "${word}"${section(t)}`);
  }
  const rows = [...t.querySelectorAll('tbody tr')].map((r) => [...r.children].map((c) => c.textContent.trim()));
  const head = [...t.querySelectorAll('thead th')].map((c) => c.textContent.trim());
  for (let a = 0; a < head.length; a++) for (let b = a + 1; b < head.length; b++) {
    if (head[a] === head[b]) found.push(`two columns are called "${head[a]}"${section(t)}`);
    else if (rows.length > 2 && rows.every((r) => r[a] === r[b] && r[a])) found.push(`the columns "${head[a]}" and "${head[b]}" are the same${section(t)}`);
  }
}
for (const s of document.querySelectorAll('svg')) {
  const area = s.getBoundingClientRect();
  if (!area.width) continue;
  const texts = [...s.querySelectorAll('text')].filter((t) => t.textContent.trim()).map((t) => [t, t.getBoundingClientRect()]);
  for (const [t, b] of texts) {
    if (b.left < area.left - 1 || b.right > area.right + 1 || b.top < area.top - 1 || b.bottom > area.bottom + 1)
      found.push(`a label is cut: "${t.textContent.trim()}"${section(s)}`);
    const px = parseFloat(getComputedStyle(t).fontSize) * area.width / (s.viewBox.baseVal?.width || area.width);
    if (px < 8) found.push(`a label of ${px.toFixed(1)} px: "${t.textContent.trim()}"${section(s)}`);
  }
  for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
    const [a, b] = [texts[i][1], texts[j][1]];
    const w = Math.min(a.right, b.right) - Math.max(a.left, b.left), h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (w > 1 && h > 3) found.push(`labels overlap: "${texts[i][0].textContent.trim()}" and "${texts[j][0].textContent.trim()}"${section(s)}`);
  }
}
const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const under = (e) => {
  for (let x = e; x; x = x.parentElement) { const c = parse(getComputedStyle(x).backgroundColor); if (c.length === 3 || c[3] > 0.5) return c; }
  return [255, 255, 255];
};
const seen = new Set();
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.textContent.trim() || ['STYLE', 'SCRIPT', 'TITLE'].includes(e.tagName.toUpperCase())) continue;
  if (!e.getBoundingClientRect().width) continue;
  const style = getComputedStyle(e);
  const text = e.closest('svg') ? style.fill : style.color;
  const key = `${text} on ${under(e)}`;
  if (seen.has(key)) continue;
  seen.add(key);
  const [a, b] = [light(parse(text)), light(under(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(1)}: ${key}, as in ${name(e)}`);
}
return {found, height: document.scrollingElement.scrollHeight};
"""


class Firefox:
    """A headless Firefox with a profile of its own, driven over Marionette."""

    def __init__(self, program, dark):
        self.profile = tempfile.TemporaryDirectory(prefix="look-")
        preferences = {
            "marionette.port": 0,
            "ui.systemUsesDarkTheme": int(dark),
            "layout.css.prefers-color-scheme.content-override": 0 if dark else 1,
            "ui.useOverlayScrollbars": 1,
            "browser.shell.checkDefaultBrowser": False,
            "datareporting.policy.dataSubmissionEnabled": False,
            "app.update.auto": False,
        }
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items())
        pathlib.Path(self.profile.name, "user.js").write_text("".join(lines))
        self.process = subprocess.Popen(
            [program, "--headless", "--marionette", "--no-remote", "--profile", self.profile.name],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={"HOME": self.profile.name, "PATH": "/usr/bin:/bin"})
        try:
            self.socket = self._connect()
        except Exception:
            self.close()
            raise
        self.buffer = b""
        self.count = 0
        self._read()
        self.call("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {"pageLoadStrategy": "normal"}}})
        self.call("WebDriver:SetTimeouts", {"script": 120000, "pageLoad": 120000})

    def _connect(self):
        port_file = pathlib.Path(self.profile.name, "MarionetteActivePort")
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"Firefox ended with {self.process.returncode}")
            if port_file.exists() and port_file.read_text().strip():
                return socket.create_connection(("127.0.0.1", int(port_file.read_text())), timeout=180)
            time.sleep(0.1)
        raise RuntimeError("Firefox opened no port within a minute")

    def _read(self):
        while b":" not in self.buffer:
            self._more()
        size, _, self.buffer = self.buffer.partition(b":")
        while len(self.buffer) < int(size):
            self._more()
        text, self.buffer = self.buffer[: int(size)], self.buffer[int(size) :]
        return json.loads(text)

    def _more(self):
        received = self.socket.recv(1 << 20)
        if not received:
            raise RuntimeError("Firefox closed the connection")
        self.buffer += received

    def call(self, command, arguments=None):
        self.count += 1
        text = json.dumps([0, self.count, command, arguments or {}]).encode()
        self.socket.sendall(str(len(text)).encode() + b":" + text)
        _, _, error, result = self._read()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result

    def open(self, page, width, height):
        """Shows the page in a frame of that size: a window of Firefox is never as narrow as a phone."""
        wrapper = pathlib.Path(self.profile.name, "frame.html")
        wrapper.write_text(
            f'<!doctype html><style>body{{margin:0}}iframe{{border:0;display:block;width:{width}px;height:{height}px}}'
            f'</style><iframe src="{page.as_uri()}"></iframe>')
        self.call("WebDriver:SetWindowRect", {"width": 1400, "height": 1000})
        self.call("WebDriver:Navigate", {"url": wrapper.as_uri()})
        self.call("WebDriver:SwitchToFrame", {"id": 0})

    def script(self, text):
        return self.call("WebDriver:ExecuteScript", {"script": text, "args": []})["value"]

    def picture(self):
        """A picture of the frame."""
        self.call("WebDriver:SwitchToFrame", {"id": None})
        frame = self.call("WebDriver:FindElement", {"using": "css selector", "value": "iframe"})["value"]
        taken = self.call("WebDriver:TakeScreenshot", {"id": list(frame.values())[0], "full": False, "hash": False})
        self.call("WebDriver:SwitchToFrame", {"id": 0})
        return base64.b64decode(taken["value"])

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()


def complaints(firefox, page, width, name, shots):
    """What is wrong with the page at that width, most frequent first."""
    firefox.open(page, width, SCREEN)
    if shots:
        (shots / f"{name}.png").write_bytes(firefox.picture())
    result = firefox.script(MEASURE)
    count = {}
    for text in result["found"]:
        count[text] = count.get(text, 0) + 1
    return result["height"], sorted(count.items(), key=lambda item: -item[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="default: experiments/results/*/report.html")
    parser.add_argument("--shots", type=pathlib.Path, help="a folder for pictures of the first screen")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS)
    parser.add_argument("--firefox", help="default: firefox or firefox-esr on PATH")
    parser.add_argument("--most", type=int, default=12, help="complaints to print for each page and width")
    options = parser.parse_args()
    program = options.firefox or shutil.which("firefox") or shutil.which("firefox-esr")
    if not program:
        print("NOT LOOKED AT: there is no firefox here (Debian: apt-get install firefox-esr)")
        return 0
    pages = options.pages or sorted(ROOT.glob("experiments/results/*/report.html"))
    if options.shots:
        options.shots.mkdir(parents=True, exist_ok=True)
    bad = 0
    for dark in (False, True):
        firefox = Firefox(program, dark)
        try:
            for page in (page.resolve() for page in pages):
                for width in options.widths:
                    scheme = "dark" if dark else "light"
                    name = f"{page.parent.name if page.name == 'report.html' else page.stem}-{width}-{scheme}"
                    height, found = complaints(firefox, page, width, name, options.shots)
                    print(f"{name}: {height} px tall, {len(found) or 'no'} complaints", flush=True)
                    for text, count in found[: options.most]:
                        print(f"    {text}" + (f" ({count} times)" if count > 1 else ""))
                    if len(found) > options.most:
                        print(f"    and {len(found) - options.most} others")
                    bad += len(found)
        finally:
            firefox.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
