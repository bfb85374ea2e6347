// A map of points: drag, two fingers or arrow keys move it, + and - zoom, 0 shows all of it, the
// pointer or n and p show a point, a click or Enter keeps it. It leaves the page its scrolling: the
// wheel zooms with Ctrl or Cmd, or after a click into the map and until the pointer leaves; one finger
// scrolls, two pinch.
//
// Maps of the same samples are linked: a point that is shown or kept in one is in the others too. Maps
// of the same classes share what is filtered, searched and pointed at in the list of classes.
class PointMap {
    constructor(figure) {
        this.canvas = figure.querySelector(".map-stage > canvas");
        this.tip = figure.querySelector(".map-tip");
        this.picture = this.tip.querySelector("canvas");
        this.hint = figure.querySelector(".hint");
        this.advice = figure.querySelector(".map-advice");
        this.spoken = figure.querySelector("[aria-live]");
        this.boxes = [...figure.querySelectorAll("fieldset.classes input")];
        this.names = this.boxes.map((box) => box.parentElement.textContent.trim());
        this.takeColours();
        this.shapes = this.boxes.map((box) => Number(box.dataset.shape));
        this.found = this.boxes.map(() => true); // by the search
        this.lit = -1; // the class pointed at in the list
        this.named = true;
        this.at = PointMap.numbers(this.canvas.dataset.at); // x, y in 0 .. 65535, y upwards
        this.labels = PointMap.numbers(this.canvas.dataset.labels);
        this.count = this.labels.length;
        this.sprite = document.getElementById(this.canvas.dataset.sprite);
        this.tile = (this.canvas.dataset.tile || "").split(" ").map(Number); // width, height, columns
        this.files = this.canvas.dataset.files?.split("\n");
        this.shown = this.kept = -1;
        this.twins = []; // other maps of the same samples
        this.kin = []; // ... of the same classes
        this.pointers = new Map();
        this.view = { zoom: 1, x: 0.5, y: 0.5 }; // what lies in the middle
        this.grid = this.makeGrid();
        this.middles = this.findMiddles();
        this.listen(figure);
        new ResizeObserver(() => this.draw()).observe(this.canvas);
        if (this.sprite && !this.sprite.complete) this.sprite.addEventListener("load", () => this.draw());
        this.draw();
    }

    static link(maps) {
        const samples = ({ canvas }) => `${canvas.dataset.labels} ${canvas.dataset.sprite || ""}`;
        for (const map of maps) {
            const others = maps.filter((other) => other !== map);
            map.twins = others.filter((other) => samples(other) === samples(map));
            if (map.twins.length > 0) map.hint.append(" A sample or class chosen in one map shows in the other.");
            map.kin = others.filter((other) => other.names.join("\n") === map.names.join("\n"));
        }
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
        for (const i of new Set([this.shown, this.kept])) if (i >= 0) this.paintRing(pen, i, radius);
    }

    // Whether a class is not faded: found by the search, and the one pointed at if there is one.
    stands(label) { return this.found[label] && (this.lit < 0 || this.lit === label); }

    // The names of classes above where they are densest; one that would cover another is left out.
    paintNames(pen, left, top, scale, on) {
        const style = getComputedStyle(this.canvas), taken = [];
        pen.font = `600 13px ${style.fontFamily}`;
        [pen.textAlign, pen.textBaseline, pen.lineJoin, pen.lineWidth] = ["center", "bottom", "round", 4];
        [pen.strokeStyle, pen.fillStyle] = [getComputedStyle(this.canvas.parentElement).backgroundColor, style.color];
        for (const { label, x, y } of this.middles) {
            if (!on[label] || !this.stands(label)) continue;
            const name = this.names[label].length > 24 ? this.names[label].slice(0, 23) + "…" : this.names[label];
            const half = pen.measureText(name).width / 2 + 3, right = this.canvas.clientWidth - half;
            const at = [Math.max(half, Math.min(right, left + x * scale)), Math.max(18, top + y * scale)];
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
        for (const [label, path] of [...paths].sort(([a], [b]) => (a === this.lit) - (b === this.lit))) {
            pen.globalAlpha = this.stands(label) ? 0.8 : 0.08;
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

    paintRing(pen, i, radius) {
        const [x, y] = this.place(i);
        pen.strokeStyle = getComputedStyle(this.canvas).color;
        pen.lineWidth = i === this.kept ? 3 : 2;
        pen.beginPath();
        pen.arc(x, y, radius + 4, 0, 7);
        pen.stroke();
    }

    // ---- The point that is shown ---------------------------------------------------------------

    // A point, or -1 for none, here and in the linked maps.
    show(i, speak) {
        if (i === this.shown && !speak) return;
        for (const map of [this, ...this.twins]) {
            const there = i >= 0 && map.visible(i);
            map.shown = there ? i : -1;
            map.tip.hidden = !there;
            map.canvas.dataset.shown = map.shown;
            if (there) map.fillTip(i, speak && map === this);
            map.draw();
        }
    }

    // Keeps a point while the pointer goes elsewhere; the same again, or none, lets it go.
    keep(i) {
        const kept = i === this.kept ? -1 : i;
        for (const map of [this, ...this.twins]) map.kept = kept;
        this.show(kept, true);
        if (kept < 0) this.spoken.textContent = "no point selected";
    }

    // The class pointed at in the list, or -1, in all maps of these classes.
    light(label) {
        for (const map of [this, ...this.kin]) {
            map.lit = label;
            map.canvas.dataset.lit = label;
            map.draw();
        }
    }

    fillTip(i, speak) {
        const name = this.names[this.labels[i]] || "?", which = this.files?.[i] || `sample ${i}`;
        this.tip.querySelector("b").textContent = name;
        this.tip.querySelector("small").textContent = which;
        if (speak) this.spoken.textContent = `${name}, ${which}`;
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
        this.show(this.kept, true);
        this.draw();
    }

    listen(figure) {
        for (const [label, box] of this.boxes.entries()) {
            box.addEventListener("change", () => this.filter());
            for (const name of ["pointerenter", "pointerleave"])
                box.parentElement.addEventListener(name, () => this.light(name === "pointerenter" ? label : -1));
            box.addEventListener("focus", () => { if (box.matches(":focus-visible")) this.light(label); });
            box.addEventListener("blur", () => this.light(-1));
        }
        const actions = { in: () => this.zoom(1.5), out: () => this.zoom(1 / 1.5), reset: () => this.reset(),
            all: () => this.check(true), none: () => this.check(false),
            names: (event) => {
                this.named = !this.named;
                event.target.setAttribute("aria-pressed", this.named);
                this.draw();
            } };
        for (const button of figure.querySelectorAll("button[data-do]"))
            button.addEventListener("click", actions[button.dataset.do]);
        this.field = figure.querySelector("input[type=search]");
        this.field.addEventListener("input", () => this.search(this.field.value));
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
            if (this.pointers.size === 0) this.show(this.kept);
        });
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        document.addEventListener("themechange", () => {
            this.takeColours();
            this.draw();
        });
        addEventListener("beforeprint", () => { // after the look has become light; there is no next frame
            this.takeColours();
            this.paint();
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
        this.pressed = [event.offsetX, event.offsetY];
        this.canvas.classList.add("dragging");
    }

    drag(event) {
        const { offsetX: x, offsetY: y } = event, before = this.pointers.get(event.pointerId);
        if (!before) {
            const near = this.nearest(x, y);
            this.show(near < 0 ? this.kept : near);
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
        else if (Math.hypot(event.offsetX - this.pressed[0], event.offsetY - this.pressed[1]) < 5)
            this.keep(this.nearest(event.offsetX, event.offsetY));
    }

    key(event) {
        const far = 60 / this.scale();
        const keys = { ArrowLeft: () => this.move(-far, 0), ArrowRight: () => this.move(far, 0),
            ArrowUp: () => this.move(0, -far), ArrowDown: () => this.move(0, far),
            "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5),
            0: () => this.reset(), n: () => this.step(1), p: () => this.step(-1), Enter: () => this.keep(this.shown), Escape: () => { this.clicked = false; this.keep(-1); } };
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
        for (const map of [this, ...this.kin]) {
            if (map !== this) map.field.value = text;
            map.found = map.names.map((name) => name.toLowerCase().includes(wanted));
            for (const [label, box] of map.boxes.entries()) box.parentElement.hidden = !map.found[label];
            map.draw();
        }
        this.spoken.textContent = `${this.found.filter(Boolean).length} of ${this.names.length} classes found`;
    }

    filter() {
        for (const map of this.kin) {
            for (const [label, box] of this.boxes.entries()) map.boxes[label].checked = box.checked;
            map.recount();
        }
        this.spoken.textContent = `${this.recount()} of ${this.count} points shown`;
    }

    recount() {
        if (this.kept >= 0 && !this.visible(this.kept)) this.keep(-1);
        if (this.shown >= 0 && !this.visible(this.shown)) this.show(this.kept);
        let count = 0;
        for (let i = 0; i < this.count; i++) count += this.visible(i);
        this.canvas.dataset.visible = count;
        this.draw();
        return count;
    }
}

const maps = [...document.querySelectorAll("figure.map")].map((figure) => figure.pointMap = new PointMap(figure));
PointMap.link(maps);
