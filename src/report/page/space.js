// Points in space: the drawing, seen from (1, 1, 1), can be turned by dragging and by the arrow keys,
// 0 turns it back. The script moves the parts of the drawing; legend and colours stay.
class SpaceView {
    constructor(figure, drawing) {
        this.drawing = drawing;
        const plot = this.drawing.querySelector("svg"), parts = [...plot.querySelectorAll("path")];
        const counts = figure.dataset.counts.split(" ").map(Number);
        this.at = Int16Array.from(PointMap.numbers(figure.dataset.space));
        this.series = (figure.dataset.series || "").split("\n");
        this.tip = new Tip(figure, this.drawing, (event) => this.name(event));
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
        const note = document.createElement("p");
        note.className = "turn";
        note.textContent = "Drag or use the arrow keys to turn the points; press 0 to turn them back.";
        this.drawing.after(note);
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

    name(event) { // of the group of the nearest point
        const [mx, my] = Values.place(this.drawing, event);
        let best = -1, least = 12 ** 2;
        for (let i = 0; i < this.at.length; i += 3) {
            const [x, y] = this.place(this.at[i], this.at[i + 1], this.at[i + 2]), distance = (x - mx) ** 2 + (y - my) ** 2;
            if (distance < least) [best, least] = [i / 3, distance];
        }
        return best < 0 ? "" : this.series[this.ends.findIndex((end) => best < end)] || "";
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

for (const drawing of document.querySelectorAll("figure.space svg.figure")) // the wide and the narrow one
    new SpaceView(drawing.closest("figure"), drawing);
