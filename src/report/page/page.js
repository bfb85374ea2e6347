// What a report does beyond being read: the switch between light and dark, maps, points in space.
"use strict";

(() => {
    const root = document.documentElement;
    const button = document.getElementById("theme");
    const dark = () => root.dataset.theme ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
    const remembered = (value) => {
        try { // a page from disk may not be allowed to remember
            if (value) localStorage.setItem("ole-theme", value);
            return localStorage.getItem("ole-theme");
        } catch (refused) {
            return null;
        }
    };
    const label = () => {
        button.textContent = dark() ? "Light" : "Dark";
        button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} look`);
        document.dispatchEvent(new Event("themechange"));
    };
    const kept = remembered();
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    button.hidden = false;
    button.addEventListener("click", () => {
        root.dataset.theme = dark() ? "light" : "dark";
        remembered(root.dataset.theme);
        label();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
    label();
})();

// A map of points: drag, two fingers or arrow keys move it, + and - zoom, 0 shows all of it, the
// pointer or n and p show a point. It leaves the page its scrolling: the wheel zooms with Ctrl or
// Cmd, or after a click into the map and until the pointer leaves; one finger scrolls, two pinch.
class PointMap {
    constructor(figure) {
        this.canvas = figure.querySelector(".map-stage > canvas");
        this.tip = figure.querySelector(".map-tip");
        this.picture = this.tip.querySelector("canvas");
        this.advice = figure.querySelector(".map-advice");
        this.spoken = figure.querySelector("[aria-live]");
        this.boxes = [...figure.querySelectorAll("fieldset.classes input")];
        this.names = this.boxes.map((box) => box.parentElement.textContent.trim());
        this.takeColours();
        this.shapes = this.boxes.map((box) => Number(box.dataset.shape));
        this.found = this.boxes.map(() => true); // by the search
        this.named = true;
        this.at = PointMap.numbers(this.canvas.dataset.at); // x, y in 0 .. 65535, y upwards
        this.labels = PointMap.numbers(this.canvas.dataset.labels);
        this.count = this.labels.length;
        this.sprite = document.getElementById(this.canvas.dataset.sprite);
        this.tile = (this.canvas.dataset.tile || "").split(" ").map(Number); // width, height, columns
        this.shown = -1;
        this.pointers = new Map();
        this.view = { zoom: 1, x: 0.5, y: 0.5 }; // what lies in the middle
        this.grid = this.makeGrid();
        this.middles = this.findMiddles();
        this.listen(figure);
        new ResizeObserver(() => this.draw()).observe(this.canvas);
        if (this.sprite && !this.sprite.complete) this.sprite.addEventListener("load", () => this.draw());
        this.draw();
    }

    takeColours() { // those of the look, light or dark
        this.colours = this.boxes.map((box) => getComputedStyle(box.nextElementSibling).backgroundColor);
    }

    static numbers(base64) {
        const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
        const view = new DataView(bytes.buffer);
        return Uint16Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true));
    }

    // ---- Places --------------------------------------------------------------------------------

    // Points by cells of a 64 x 64 grid, to find the one under the pointer.
    makeGrid() {
        const cells = Array.from({ length: 64 * 64 }, () => []);
        for (let i = 0; i < this.count; i++)
            cells[(this.at[2 * i + 1] >> 10) * 64 + (this.at[2 * i] >> 10)].push(i);
        return cells;
    }

    // Where each class is densest, largest classes first, for the names: of 16 x 16 cells the one that
    // has most of the class together with its neighbours; the mean of the points there, and their top.
    findMiddles() {
        const members = this.boxes.map(() => []);
        for (let i = 0; i < this.count; i++) members[this.labels[i]]?.push(i);
        const middles = [];
        for (const [label, points] of members.entries()) {
            if (points.length === 0) continue;
            const cell = (i) => [this.at[2 * i] >> 12, this.at[2 * i + 1] >> 12];
            const crowd = new Uint32Array(18 * 18);
            for (const i of points) {
                const [x, y] = cell(i);
                for (let k = 0; k < 9; k++) crowd[(y + Math.floor(k / 3)) * 18 + x + k % 3]++;
            }
            const best = crowd.indexOf(crowd.reduce((a, b) => Math.max(a, b)));
            const [bx, by] = [best % 18 - 1, Math.floor(best / 18) - 1];
            const near = points.filter((i) => { const [x, y] = cell(i); return Math.abs(x - bx) < 2 && Math.abs(y - by) < 2; });
            const x = near.reduce((sum, i) => sum + this.at[2 * i], 0) / near.length / 65535;
            const heights = near.map((i) => this.at[2 * i + 1]).sort((a, b) => a - b); // a stray point is no top
            const y = 1 - heights[Math.floor(0.95 * (heights.length - 1))] / 65535;
            middles.push({ label, size: points.length, x, y });
        }
        return middles.sort((a, b) => b.size - a.size);
    }

    scale() { // pixels of the page for the whole map's side
        return 0.94 * Math.min(this.canvas.clientWidth, this.canvas.clientHeight) * this.view.zoom;
    }

    place(i) {
        const scale = this.scale();
        return [this.canvas.clientWidth / 2 + (this.at[2 * i] / 65535 - this.view.x) * scale,
            this.canvas.clientHeight / 2 + (1 - this.at[2 * i + 1] / 65535 - this.view.y) * scale];
    }

    visible(i) {
        const box = this.boxes[this.labels[i]];
        return !box || box.checked;
    }

    nearest(x, y) {
        const scale = this.scale(), reach = 14;
        const mx = ((x - this.canvas.clientWidth / 2) / scale + this.view.x) * 64;
        const my = (1 - ((y - this.canvas.clientHeight / 2) / scale + this.view.y)) * 64;
        const cells = Math.ceil(64 * reach / scale);
        let best = -1, least = reach * reach;
        for (let r = Math.max(0, Math.floor(my) - cells); r <= Math.min(63, Math.floor(my) + cells); r++)
            for (let c = Math.max(0, Math.floor(mx) - cells); c <= Math.min(63, Math.floor(mx) + cells); c++)
                for (const i of this.grid[r * 64 + c]) {
                    if (!this.visible(i)) continue;
                    const [px, py] = this.place(i);
                    const distance = (px - x) ** 2 + (py - y) ** 2;
                    if (distance < least) [best, least] = [i, distance];
                }
        return best;
    }

    // ---- Drawing -------------------------------------------------------------------------------

    draw() {
        if (this.waiting) return;
        this.waiting = true;
        requestAnimationFrame(() => {
            this.waiting = false;
            this.paint();
        });
    }

    paint() {
        const { clientWidth: width, clientHeight: height } = this.canvas;
        const dots = window.devicePixelRatio || 1;
        const [w, h] = [Math.round(width * dots), Math.round(height * dots)];
        if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
        const pen = this.canvas.getContext("2d");
        pen.setTransform(dots, 0, 0, dots, 0, 0);
        pen.clearRect(0, 0, width, height);
        const inside = [], scale = this.scale(), on = this.boxes.map((box) => box.checked);
        const left = width / 2 - this.view.x * scale, top = height / 2 + (1 - this.view.y) * scale;
        for (let i = 0; i < this.count; i++) {
            if (!on[this.labels[i]]) continue;
            const x = left + this.at[2 * i] / 65535 * scale, y = top - this.at[2 * i + 1] / 65535 * scale;
            if (x > -20 && y > -20 && x < width + 20 && y < height + 20) inside.push([i, x, y]);
        }
        const pictures = this.sprite && this.sprite.complete && this.view.zoom > 3 && inside.length <= 350;
        const radius = Math.min(6, Math.max(1.6, 60 / Math.sqrt(this.count)) * Math.min(2.2, Math.sqrt(this.view.zoom)));
        if (pictures) for (const [i, x, y] of inside) this.paintPicture(pen, i, x, y);
        else this.paintPoints(pen, inside, radius);
        if (this.named && !pictures) this.paintNames(pen, left, top - scale - radius - 1, scale, on);
        if (this.shown >= 0) this.paintRing(pen, radius);
    }

    // The names of classes above where they are densest; one that would cover another is left out.
    paintNames(pen, left, top, scale, on) {
        const style = getComputedStyle(this.canvas), taken = [];
        pen.font = `600 13px ${style.fontFamily}`;
        [pen.textAlign, pen.textBaseline, pen.lineJoin, pen.lineWidth] = ["center", "bottom", "round", 4];
        [pen.strokeStyle, pen.fillStyle] = [getComputedStyle(this.canvas.parentElement).backgroundColor, style.color];
        for (const { label, x, y } of this.middles) {
            if (!on[label] || !this.found[label]) continue;
            const name = this.names[label].length > 24 ? this.names[label].slice(0, 23) + "…" : this.names[label];
            const at = [left + x * scale, Math.max(18, top + y * scale)], half = pen.measureText(name).width / 2 + 3;
            if (taken.some((t) => Math.abs(t.x - at[0]) < t.half + half && Math.abs(t.y - at[1]) < 17)) continue;
            taken.push({ x: at[0], y: at[1], half });
            pen.strokeText(name, ...at);
            pen.fillText(name, ...at);
        }
        this.canvas.dataset.named = taken.length;
    }

    // One path per class: filling once for each of ten thousand points takes several times as long.
    paintPoints(pen, inside, radius) {
        const paths = new Map();
        for (const [i, x, y] of inside) {
            const label = this.labels[i];
            if (!paths.has(label)) paths.set(label, new Path2D());
            PointMap.addMarker(paths.get(label), this.shapes[label], x, y, radius);
        }
        for (const [label, path] of paths) {
            pen.globalAlpha = this.found[label] ? 0.8 : 0.08;
            pen.fillStyle = this.colours[label] || "#808080";
            pen.fill(path);
        }
        pen.globalAlpha = 1;
    }

    // Corners of the shapes after the disc, those of .shape-N in the style, in radii.
    static shapes = [[], [-0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9], [0, -1.3, 1.2, 0.8, -1.2, 0.8],
        [0, -1.35, 1.35, 0, 0, 1.35, -1.35, 0], [0, 1.3, 1.2, -0.8, -1.2, -0.8],
        [-0.45, -1.3, 0.45, -1.3, 0.45, -0.45, 1.3, -0.45, 1.3, 0.45, 0.45, 0.45, 0.45, 1.3, -0.45, 1.3, -0.45, 0.45, -1.3, 0.45, -1.3, -0.45, -0.45, -0.45],
        [0, -1.5, 0.45, -0.45, 1.5, -0.45, 0.66, 0.24, 0.96, 1.5, 0, 0.75, -0.96, 1.5, -0.66, 0.24, -1.5, -0.45, -0.45, -0.45]];

    static addMarker(path, shape, x, y, radius) {
        const corners = PointMap.shapes[shape] || [];
        path.moveTo(x + radius * (corners[0] ?? 1), y + radius * (corners[1] ?? 0));
        if (corners.length === 0) path.arc(x, y, radius, 0, 7);
        for (let k = 2; k < corners.length; k += 2) path.lineTo(x + radius * corners[k], y + radius * corners[k + 1]);
        path.closePath();
    }

    paintPicture(pen, i, x, y) {
        const [w, h, columns] = this.tile, side = 30, scale = side / Math.max(w, h);
        pen.imageSmoothingEnabled = false;
        pen.fillStyle = this.colours[this.labels[i]] || "#808080";
        pen.fillRect(x - w * scale / 2 - 2, y - h * scale / 2 - 2, w * scale + 4, h * scale + 4);
        pen.drawImage(this.sprite, (i % columns) * w, Math.floor(i / columns) * h, w, h,
            x - w * scale / 2, y - h * scale / 2, w * scale, h * scale);
    }

    paintRing(pen, radius) {
        const [x, y] = this.place(this.shown);
        pen.strokeStyle = getComputedStyle(this.canvas).color;
        pen.lineWidth = 2;
        pen.beginPath();
        pen.arc(x, y, radius + 4, 0, 7);
        pen.stroke();
    }

    // ---- The point that is shown ---------------------------------------------------------------

    show(i, speak) {
        if (i === this.shown && !speak) return;
        this.shown = i;
        this.tip.hidden = i < 0;
        this.canvas.dataset.shown = i;
        if (i >= 0) this.fillTip(i, speak);
        this.draw();
    }

    fillTip(i, speak) {
        const name = this.names[this.labels[i]] || "?";
        this.tip.querySelector("b").textContent = name;
        this.tip.querySelector("small").textContent = `sample ${i}`;
        if (speak) this.spoken.textContent = `${name}, sample ${i}`;
        if (this.sprite && this.sprite.complete) {
            const [w, h, columns] = this.tile;
            [this.picture.width, this.picture.height] = [w, h];
            this.picture.getContext("2d").drawImage(this.sprite, (i % columns) * w, Math.floor(i / columns) * h, w, h, 0, 0, w, h);
        }
        const [x, y] = this.place(i), box = this.tip.getBoundingClientRect();
        const { clientWidth: width, clientHeight: height } = this.canvas;
        const left = x + 16 + box.width > width ? x - 16 - box.width : x + 16;
        this.tip.style.left = `${Math.max(4, Math.min(left, width - box.width - 4))}px`;
        this.tip.style.top = `${Math.max(4, Math.min(y - box.height / 2, height - box.height - 4))}px`;
    }

    // The next visible point of the same kind, in the order of the samples.
    step(by) {
        for (let tried = 0, i = this.shown; tried < this.count; tried++) {
            i = (i + by + this.count) % this.count;
            if (!this.visible(i)) continue;
            [this.view.x, this.view.y] = this.view.zoom > 1 ? [this.at[2 * i] / 65535, 1 - this.at[2 * i + 1] / 65535] : [0.5, 0.5];
            this.show(i, true);
            return;
        }
    }

    // ---- Moving --------------------------------------------------------------------------------

    zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
        const before = this.scale();
        this.view.zoom = Math.max(0.8, Math.min(80, this.view.zoom * factor));
        const after = this.scale(), dx = x - this.canvas.clientWidth / 2, dy = y - this.canvas.clientHeight / 2;
        this.move(dx / before - dx / after, dy / before - dy / after);
    }

    move(dx, dy) {
        this.view.x = Math.max(-0.2, Math.min(1.2, this.view.x + dx));
        this.view.y = Math.max(-0.2, Math.min(1.2, this.view.y + dy));
        if (this.shown >= 0) this.fillTip(this.shown, false);
        this.draw();
    }

    reset() {
        this.view = { zoom: 1, x: 0.5, y: 0.5 };
        this.show(-1);
        this.draw();
    }

    listen(figure) {
        for (const box of this.boxes) box.addEventListener("change", () => this.filter());
        const actions = { in: () => this.zoom(1.5), out: () => this.zoom(1 / 1.5), reset: () => this.reset(),
            all: () => this.check(true), none: () => this.check(false),
            names: (event) => {
                this.named = !this.named;
                event.target.setAttribute("aria-pressed", this.named);
                this.draw();
            } };
        for (const button of figure.querySelectorAll("button[data-do]"))
            button.addEventListener("click", actions[button.dataset.do]);
        figure.querySelector("input[type=search]").addEventListener("input", (event) => this.search(event.target.value));
        this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
        for (const name of ["touchstart", "touchmove"]) // else two fingers scroll the page as well
            this.canvas.addEventListener(name, (event) => {
                if (event.touches.length > 1 && event.cancelable) event.preventDefault();
            }, { passive: false });
        this.canvas.addEventListener("pointerdown", (event) => this.press(event));
        this.canvas.addEventListener("pointermove", (event) => this.drag(event));
        for (const name of ["pointerup", "pointercancel"])
            this.canvas.addEventListener(name, (event) => this.release(event));
        this.canvas.addEventListener("pointerleave", () => {
            this.clicked = false;
            if (this.pointers.size === 0) this.show(-1);
        });
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        document.addEventListener("themechange", () => {
            this.takeColours();
            this.draw();
        });
    }

    wheel(event) {
        if (!event.ctrlKey && !event.metaKey && !this.clicked) {
            const key = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";
            this.advise(`${key} + scroll zooms, or click the map first`);
            return;
        }
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }

    advise(text) {
        this.advice.textContent = text;
        this.advice.hidden = false;
        clearTimeout(this.advised);
        this.advised = setTimeout(() => { this.advice.hidden = true; }, 1500);
    }

    press(event) {
        if (event.pointerType !== "touch") this.clicked = true;
        this.advice.hidden = true;
        this.canvas.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
        this.canvas.classList.add("dragging");
    }

    drag(event) {
        const { offsetX: x, offsetY: y } = event, before = this.pointers.get(event.pointerId);
        if (!before) {
            this.show(this.nearest(x, y));
            return;
        }
        const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
        this.pointers.set(event.pointerId, [x, y]);
        if (others.length === 1) { // two fingers
            const [, [ox, oy]] = others[0];
            const spread = Math.hypot(before[0] - ox, before[1] - oy) || 1;
            this.zoom(Math.hypot(x - ox, y - oy) / spread, (x + ox) / 2, (y + oy) / 2);
            this.move((before[0] - x) / 2 / this.scale(), (before[1] - y) / 2 / this.scale());
        } else if (event.pointerType !== "touch") {
            this.move((before[0] - x) / this.scale(), (before[1] - y) / this.scale());
        }
    }

    release(event) {
        this.pointers.delete(event.pointerId);
        this.canvas.classList.remove("dragging");
        if (event.type === "pointercancel") this.advise("Two fingers move and zoom the map"); // the page scrolls
        else if (event.pointerType === "touch") this.show(this.nearest(event.offsetX, event.offsetY));
    }

    key(event) {
        const far = 60 / this.scale();
        const keys = { ArrowLeft: () => this.move(-far, 0), ArrowRight: () => this.move(far, 0),
            ArrowUp: () => this.move(0, -far), ArrowDown: () => this.move(0, far),
            "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5),
            0: () => this.reset(), n: () => this.step(1), p: () => this.step(-1), Escape: () => { this.clicked = false; this.show(-1); } };
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
    }

    // The boxes that the search lists.
    check(all) {
        for (const [label, box] of this.boxes.entries()) if (this.found[label]) box.checked = all;
        this.filter();
    }

    // Lists and shows the classes whose names hold the text; the others fade.
    search(text) {
        const wanted = text.trim().toLowerCase();
        this.found = this.names.map((name) => name.toLowerCase().includes(wanted));
        for (const [label, box] of this.boxes.entries()) box.parentElement.hidden = !this.found[label];
        this.spoken.textContent = `${this.found.filter(Boolean).length} of ${this.names.length} classes found`;
        this.draw();
    }

    filter() {
        if (this.shown >= 0 && !this.visible(this.shown)) this.show(-1);
        let count = 0;
        for (let i = 0; i < this.count; i++) count += this.visible(i);
        this.canvas.dataset.visible = count;
        this.spoken.textContent = `${count} of ${this.count} points shown`;
        this.draw();
    }
}

// Points in space: the drawing, seen from (1, 1, 1), can be turned by dragging and by the arrow keys,
// 0 turns it back. The script moves the parts of the drawing; legend and colours stay.
class SpaceView {
    constructor(figure) {
        this.drawing = figure.querySelector("svg.figure");
        const plot = this.drawing.querySelector("svg"), parts = [...plot.querySelectorAll("path")];
        const counts = figure.dataset.counts.split(" ").map(Number);
        this.at = Int16Array.from(PointMap.numbers(figure.dataset.space));
        this.groups = parts.slice(0, counts.length);
        this.ends = counts.map((sum => (count) => sum += count)(0));
        this.axes = parts.slice(counts.length);
        this.names = [...plot.querySelectorAll("text")];
        this.radius = Number(/a([\d.]+)/.exec(this.groups[0].getAttribute("d"))?.[1]) || 2;
        const { x, y, width, height } = plot.viewBox.baseVal;
        this.middle = [x + width / 2, y + height / 2];
        const low = [0, 0, 0], high = [32767, 32767, 32767]; // of the axes and all points
        for (const [i, value] of this.at.entries()) low[i % 3] = Math.min(low[i % 3], value);
        this.pivot = low.map((value, k) => (value + high[k]) / 2);
        this.unit = (Math.min(width, height) / 2 - 14) / Math.hypot(...low.map((value, k) => (high[k] - value) / 2));
        this.note = document.createElement("p");
        this.note.className = "turn";
        this.note.textContent = "Drag or use the arrow keys to turn it; 0 turns it back.";
        this.drawing.after(this.note);
        this.drawing.tabIndex = 0;
        this.listen();
        this.reset();
    }

    listen() {
        let from = null;
        const step = Math.PI / 36;
        this.drawing.addEventListener("pointerdown", (event) => {
            from = [event.clientX, event.clientY];
            this.drawing.setPointerCapture(event.pointerId);
        });
        this.drawing.addEventListener("pointermove", (event) => {
            if (!from) return;
            this.turn((event.clientX - from[0]) / 120, (event.clientY - from[1]) / 120);
            from = [event.clientX, event.clientY];
        });
        for (const name of ["pointerup", "pointercancel"]) this.drawing.addEventListener(name, () => { from = null; });
        this.drawing.addEventListener("keydown", (event) => {
            const keys = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
            if (event.ctrlKey || event.metaKey || event.altKey || (!keys[event.key] && event.key !== "0")) return;
            event.preventDefault();
            if (keys[event.key]) this.turn(...keys[event.key]);
            else this.reset();
        });
    }

    reset() { // rows: to the right, up, to the reader
        const [a, b, c] = [Math.sqrt(1 / 2), Math.sqrt(1 / 6), Math.sqrt(1 / 3)];
        this.view = [[-a, a, 0], [-b, -b, 2 * b], [c, c, c]];
        this.paint();
    }

    turn(right, down) {
        const mix = (p, q, angle) => [p.map((v, k) => v * Math.cos(angle) + q[k] * Math.sin(angle)),
            q.map((v, k) => v * Math.cos(angle) - p[k] * Math.sin(angle))];
        const view = this.view;
        [view[0], view[2]] = mix(view[0], view[2], right);
        [view[2], view[1]] = mix(view[2], view[1], down);
        this.paint();
    }

    place(...at) {
        const [u, v, depth] = this.view.map((row) => this.unit * row.reduce((sum, r, k) => sum + r * (at[k] - this.pivot[k]), 0));
        return [this.middle[0] + u, this.middle[1] - v, depth];
    }

    paint() { // what is nearer is larger
        const far = this.unit * 32767;
        for (const [g, path] of this.groups.entries()) {
            const d = [];
            for (let i = 3 * (this.ends[g - 1] || 0); i < 3 * this.ends[g]; i += 3) {
                const [x, y, depth] = this.place(this.at[i], this.at[i + 1], this.at[i + 2]);
                const r = this.radius * (1 + 0.35 * depth / far), side = (2 * r).toFixed(2);
                d.push(`M${(x - r).toFixed(2)} ${y.toFixed(2)}a${r.toFixed(2)} ${r.toFixed(2)} 0 1 0 ${side} 0a${r.toFixed(2)} ${r.toFixed(2)} 0 1 0 -${side} 0`);
            }
            path.setAttribute("d", d.join(""));
        }
        for (const [k, axis] of this.axes.entries()) {
            const [x, y] = this.place(...[0, 1, 2].map((i) => i === k ? 32767 : 0)), origin = this.place(0, 0, 0);
            const left = x < origin[0] - 1;
            axis.setAttribute("d", `M${origin[0]} ${origin[1]}L${x} ${y}`);
            this.names[k].setAttribute("x", x + (left ? -4 : 4));
            this.names[k].setAttribute("y", y + 4);
            this.names[k].setAttribute("text-anchor", left ? "end" : "start");
        }
    }
}

// Values under the pointer: of lines and histograms at the nearest x, of heat maps the cell; all are
// read from the figure's table of numbers.
class Values {
    constructor(figure) {
        this.figure = figure;
        this.drawing = figure.querySelector("svg.figure");
        this.rows = [...figure.querySelectorAll("details tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
        this.heads = [...figure.querySelectorAll("details thead th")].map((cell) => cell.textContent);
        this.cells = [...this.drawing.querySelectorAll("path:not([class])")].slice(0, this.rows.length * (this.heads.length - 1));
        this.tip = document.createElement("div");
        this.tip.className = "value-tip";
        this.tip.hidden = true;
        this.tip.setAttribute("aria-hidden", "true"); // the numbers are in the table
        figure.append(this.tip);
        this.drawing.addEventListener("pointermove", (event) => this.show(event));
        this.drawing.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    }

    static number(text) { return Number(text.replace("\u2212", "-")); }

    // Shares of the plot's box, from the left and from above; null outside it.
    within(part, margin, event) {
        const box = part.getBoundingClientRect(), far = margin * this.drawing.getBoundingClientRect().width / this.drawing.viewBox.baseVal.width;
        const at = [(event.clientX - box.x - far) / (box.width - 2 * far), (event.clientY - box.y - far) / (box.height - 2 * far)];
        return at.every((share) => share >= 0 && share <= 1) ? at : null;
    }

    cell(event) { // cells are drawn row by row, or as one image
        const columns = this.heads.length - 1, image = this.drawing.querySelector("image");
        let [row, column] = [-1, 0];
        if (image) {
            const at = this.within(image, 0, event);
            if (at) [row, column] = [Math.floor(at[1] * this.rows.length), Math.floor(at[0] * columns)];
        } else {
            const i = this.cells.indexOf(event.target);
            [row, column] = [Math.floor(i / columns), i % columns];
        }
        return this.rows[row] ? `${this.rows[row][0]}, ${this.heads[column + 1]}: ${this.rows[row][column + 1]}` : "";
    }

    line(event) {
        const [kind, ...ends] = this.figure.dataset.x.split(" "), at = this.within(this.drawing.querySelector("svg"), 3, event);
        if (!at) return "";
        const scale = kind === "log" ? Math.log : (x) => x, [from, to] = ends.map(Number).map(scale);
        const apart = this.heads[0] === "series", bars = this.heads[apart ? 1 : 0] === "from", first = apart ? 1 : 0;
        const nearest = new Map(); // of each series, or of all of them
        for (const row of this.rows) {
            const x = Values.number(row[first]), middle = bars ? (x + Values.number(row[first + 1])) / 2 : x;
            const distance = Math.abs((scale(middle) - from) / (to - from) - at[0]), key = apart ? row[0] : "";
            if (!(distance >= (nearest.get(key)?.distance ?? 1))) nearest.set(key, { row, distance });
        }
        const lines = [], values = first + (bars ? 2 : 1);
        for (const { row } of nearest.values()) {
            const x = bars ? `${row[first]} to ${row[first + 1]}` : `${this.heads[first]} ${row[first]}`;
            if (apart) lines.push(`${row[0]}, ${x}: ${row[values]}`);
            else lines.push(x, ...row.slice(values).flatMap((value, k) => this.heads[values + k] === "±" ? []
                : [`${this.heads[values + k]}: ${value}${this.heads[values + k + 1] === "±" ? ` ± ${row[values + k + 1]}` : ""}`]));
        }
        return lines.join("\n");
    }

    show(event) {
        const text = this.figure.dataset.x ? this.line(event) : this.cell(event);
        this.tip.hidden = !text;
        this.tip.textContent = text;
        const box = this.figure.getBoundingClientRect(), wide = this.tip.offsetWidth, x = event.clientX - box.x;
        this.tip.style.left = `${x + 14 + wide > box.width ? Math.max(4, x - 14 - wide) : x + 14}px`;
        this.tip.style.top = `${event.clientY - box.y + 12}px`;
    }
}

for (const figure of document.querySelectorAll("figure:has(details)")) // means of blocks are not cells
    if (figure.dataset.x || (!figure.matches(".space") && figure.querySelector("thead th:empty") && !figure.querySelector(".more")))
        figure.values = new Values(figure);
for (const figure of document.querySelectorAll("figure.space")) figure.spaceView = new SpaceView(figure);
for (const figure of document.querySelectorAll("figure.map")) figure.pointMap = new PointMap(figure);
