// Values under the pointer: of lines and histograms at the nearest x, of heat maps the cell, of scatter
// plots the point. Numbers are read from the figure's table, points from the drawing.

// Text beside the pointer, while it is over `drawing` and `say(event)` has something to say; a finger's
// stays until the next touch elsewhere.
class Tip {
    constructor(figure, drawing, say) {
        this.figure = figure;
        this.element = document.createElement("div");
        this.element.className = "value-tip";
        this.element.hidden = true;
        this.element.setAttribute("aria-hidden", "true"); // the numbers are in the table
        figure.append(this.element);
        for (const name of ["pointerdown", "pointermove"])
            drawing.addEventListener(name, (event) => this.show(say(event), event));
        drawing.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.show(""); });
        document.addEventListener("pointerdown", (event) => { if (!drawing.contains(event.target)) this.show(""); });
    }

    show(text, event) {
        this.element.hidden = !text;
        this.element.textContent = text;
        if (!text) return;
        const box = this.figure.getBoundingClientRect(), wide = this.element.offsetWidth, x = event.clientX - box.x;
        this.element.style.left = `${x + 14 + wide > box.width ? Math.max(4, x - 14 - wide) : x + 14}px`;
        this.element.style.top = `${event.clientY - box.y + 12}px`;
    }
}

class Values {
    constructor(figure, drawing) {
        this.figure = figure;
        this.drawing = drawing;
        this.plot = this.drawing.querySelector("svg"); // of lines, bars and points
        this.rows = [...figure.querySelectorAll("details tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
        this.heads = [...figure.querySelectorAll("details thead th")].map((cell) => cell.textContent);
        this.cells = [...this.drawing.querySelectorAll("path:not([class])")].slice(0, this.rows.length * (this.heads.length - 1));
        this.kind = figure.dataset.y ? "point" : figure.dataset.x ? "line" : "cell";
        if (this.kind === "line") this.guide = this.makeGuide();
        if (this.kind === "point") this.points = this.readPoints();
        this.tip = new Tip(figure, this.drawing, (event) => this[this.kind](event));
        this.drawing.addEventListener("pointerleave", () => this.guide?.setAttribute("visibility", "hidden"));
    }

    static number(text) { return Number(text.replace("\u2212", "-")); }

    // The scale of an axis and its ends on it.
    axis(name) {
        const [kind, ...ends] = this.figure.dataset[name].split(" "), scale = kind === "log" ? Math.log10 : (x) => x;
        const [from, to] = ends.map(Number).map(scale);
        return { scale, from, to, value: (share) => kind === "log" ? 10 ** (from + share * (to - from)) : from + share * (to - from) };
    }

    // The pointer in the drawing's own units.
    static place(drawing, event) {
        const box = drawing.getBoundingClientRect(), scale = drawing.viewBox.baseVal.width / box.width;
        return [(event.clientX - box.x) * scale, (event.clientY - box.y) * scale];
    }

    // Shares of a box less a margin, from the left and from above; null outside it.
    within({ x, y, width, height }, margin, event) {
        const [px, py] = Values.place(this.drawing, event);
        const at = [(px - x - margin) / (width - 2 * margin), (py - y - margin) / (height - 2 * margin)];
        return at.every((share) => share >= 0 && share <= 1) ? at : null;
    }

    // ---- Heat maps ------------------------------------------------------------------------------

    // Cells are drawn row by row, or all as one image, of which the table may have the means of blocks.
    cell(event) {
        const columns = this.heads.length - 1, image = this.drawing.querySelector("image");
        let row = -1, column = 0;
        if (image) {
            const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => image[name].baseVal.value);
            const at = this.within({ x, y, width, height }, 0, event);
            if (at) [column, row] = at.map((share, k) => this.block(share, k === 0 ? columns : this.rows.length));
        } else {
            const i = this.cells.indexOf(event.target);
            [row, column] = [Math.floor(i / columns), i % columns];
        }
        if (!this.rows[row]) return "";
        const mean = this.figure.querySelector(".more") ? "mean " : "";
        return `${this.rows[row][0]}, ${this.heads[column + 1]}: ${mean}${this.rows[row][column + 1]}`;
    }

    block(share, count) {
        const ends = this.figure.dataset.blocks?.split(" ").map(Number);
        if (!ends) return Math.min(count - 1, Math.floor(share * count));
        return ends.findLastIndex((end) => end <= share * ends.at(-1) && end < ends.at(-1));
    }

    // ---- Lines and bars -------------------------------------------------------------------------

    makeGuide() {
        const guide = document.createElementNS("http://www.w3.org/2000/svg", "line"), { y, height } = this.plot.viewBox.baseVal;
        for (const [name, value] of Object.entries({ y1: y, y2: y + height, class: "stroke-axis", "stroke-dasharray": 2, visibility: "hidden" }))
            guide.setAttribute(name, value);
        this.plot.append(guide);
        return guide;
    }

    line(event) {
        const at = this.within(this.plot.viewBox.baseVal, 3, event);
        this.guide.setAttribute("visibility", at ? "visible" : "hidden");
        if (!at) return "";
        const { scale, from, to } = this.axis("x");
        const apart = this.heads[0] === "series", bars = this.heads[apart ? 1 : 0] === "from", first = apart ? 1 : 0;
        const nearest = new Map(); // of each series, or of all of them
        for (const row of this.rows) {
            const x = Values.number(row[first]), middle = bars ? (x + Values.number(row[first + 1])) / 2 : x;
            const share = (scale(middle) - from) / (to - from), distance = Math.abs(share - at[0]), key = apart ? row[0] : "";
            if (!(distance >= (nearest.get(key)?.distance ?? 1))) nearest.set(key, { row, distance, share });
        }
        const best = [...nearest.values()].reduce((a, b) => a && a.distance <= b.distance ? a : b, null);
        const { x, width } = this.plot.viewBox.baseVal, place = x + 3 + (best?.share ?? 0) * (width - 6);
        for (const name of ["x1", "x2"]) this.guide.setAttribute(name, place);
        return this.describe([...nearest.values()].map(({ row }) => row), apart, bars);
    }

    describe(rows, apart, bars) {
        const lines = [], first = apart ? 1 : 0, values = first + (bars ? 2 : 1);
        const value = (row, k) => `${row[k]}${this.heads[k + 1] === "±" && row[k + 1] ? ` ± ${row[k + 1]}` : ""}`;
        for (const row of rows) {
            const x = bars ? `${row[first]} to ${row[first + 1]}` : `${this.heads[first]} ${row[first]}`;
            if (apart) lines.push(`${row[0] ? `${row[0]}, ` : ""}${x}: ${value(row, values)}`);
            else lines.push(x);
            for (let k = values; !apart && k < row.length; k++)
                if (this.heads[k] !== "±" && row[k]) lines.push(`${this.heads[k]}: ${value(row, k)}`);
        }
        return lines.join("\n");
    }

    // ---- Points ---------------------------------------------------------------------------------

    // The middles of the markers, a path for each series: discs, or polygons.
    readPoints() {
        const names = (this.figure.dataset.series || "").split("\n");
        return [...this.plot.querySelectorAll("path[class*=-s]")].flatMap((path, series) =>
            path.getAttribute("d").split("M").slice(1).map((part) => {
                const n = part.match(/-?[\d.]+/g).map(Number), corners = n.length / 2;
                const middle = part.includes("a") ? [n[0] + n[2], n[1]]
                    : [0, 1].map((k) => n.reduce((sum, v, i) => sum + (i % 2 === k ? v : 0), 0) / corners);
                return { name: names[series] || "", x: middle[0], y: middle[1] };
            }));
    }

    point(event) {
        const { x, y, width, height } = this.plot.viewBox.baseVal, [mx, my] = Values.place(this.drawing, event);
        let best = null, least = 12 ** 2;
        for (const point of this.points) {
            const distance = (point.x - mx) ** 2 + (point.y - my) ** 2;
            if (distance < least) [best, least] = [point, distance];
        }
        if (!best) return "";
        const across = this.axis("x").value((best.x - x - 3) / (width - 6)), up = this.axis("y").value(1 - (best.y - y - 3) / (height - 6));
        return `${best.name ? `${best.name}: ` : ""}${Number(across.toPrecision(3))}, ${Number(up.toPrecision(3))}`;
    }
}

// Of each figure, the wide and the narrow drawing.
for (const drawing of document.querySelectorAll("figure:has(details):not(.space) svg.figure"))
    new Values(drawing.closest("figure"), drawing);
