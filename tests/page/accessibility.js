// Checks of a page in the browser, as a list of what is wrong: names, roles, headings, landmarks,
// labels, contrast, sizes of targets, the keyboard. Run by browser.py, which prints the list.
(() => {
    const problems = [];
    const all = (selector, root = document) => [...root.querySelectorAll(selector)];
    const show = (element) => element.outerHTML.replace(/\s+/g, " ").slice(0, 90);
    const visible = (element) => element.checkVisibility({ visibilityProperty: true });
    const expect = (good, what, element) => {
        if (!good) problems.push(element ? `${what}: ${show(element)}` : what);
    };

    // ---- The document, landmarks, headings -----------------------------------------------------

    expect(document.documentElement.lang, "the language is not given");
    expect(document.title.trim(), "no title");
    for (const [selector, name] of [["main", "main"], ["body > header", "header"], ["body > footer", "footer"], ["nav", "nav"]])
        expect(all(selector).length === 1, `${all(selector).length} landmarks ${name}`);
    expect(all("h1").length === 1, "not one h1");
    let level = 0;
    for (const heading of all("h1, h2, h3, h4, h5, h6")) {
        const own = Number(heading.tagName[1]);
        expect(own <= level + 1, "a heading skips a level", heading);
        expect(heading.textContent.trim(), "an empty heading", heading);
        level = own;
    }
    const ids = all("[id]").map((element) => element.id);
    expect(new Set(ids).size === ids.length, "two elements have one id");
    for (const link of all("a[href^='#']"))
        expect(document.getElementById(link.hash.slice(1)), "a link leads nowhere", link);

    // ---- Names and roles -----------------------------------------------------------------------

    const nameOf = (element) => (element.getAttribute("aria-label")
        || (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ")
        || element.labels?.[0]?.textContent || element.alt || element.textContent || "").trim();
    for (const element of all("button, a[href], input, summary, canvas[tabindex], [role=region], nav"))
        if (visible(element)) expect(nameOf(element), "no name", element);
    for (const image of all("img")) expect(image.hasAttribute("alt"), "an image without alt", image);
    for (const image of all("img:not([hidden])")) expect(image.alt.trim(), "an empty alt", image);
    for (const drawing of all("svg.figure"))
        expect(drawing.getAttribute("role") === "img" && nameOf(drawing), "a figure without a name", drawing);
    for (const input of all("input")) expect(input.labels.length === 1, "an input without a label", input);
    for (const group of all("fieldset")) expect(group.querySelector("legend"), "a fieldset without legend", group);
    for (const list of all("ul")) expect([...list.children].every((item) => item.tagName === "LI"), "a list of something else", list);
    for (const table of all("table")) {
        expect(table.querySelector("thead th[scope=col]"), "a table without headings", table);
        expect(all("thead th", table).length === all("tbody tr:first-child > *", table).length, "headings and cells differ", table);
    }

    // ---- Figures -------------------------------------------------------------------------------

    for (const drawing of all("svg.figure").filter(visible)) {
        const frame = drawing.getBoundingClientRect(), scale = frame.width / drawing.viewBox.baseVal.width;
        for (const text of all("text", drawing)) {
            const box = text.getBoundingClientRect(), size = scale * Number(text.getAttribute("font-size"));
            // Numbers on cells are smaller, and are in the table too.
            expect(size >= 10 || !text.classList.contains("fill-ink"), `a text of ${size.toFixed(1)} pixels`, text);
            expect(box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1
                && box.bottom <= frame.bottom + 1, "a text runs off its figure", text);
        }
    }

    // ---- The keyboard --------------------------------------------------------------------------

    for (const element of all("[tabindex]")) expect(element.tabIndex <= 0, "the order of tabs is forced", element);
    for (const scroller of all("*").filter((e) => visible(e) && e.scrollHeight > e.clientHeight + 2
        && ["auto", "scroll"].includes(getComputedStyle(e).overflowY) && e !== document.documentElement))
        expect(scroller.tabIndex >= 0 || scroller.querySelector("a, button, input, [tabindex]"), "cannot be scrolled by keys", scroller);
    for (const target of all("button, summary, input")) {
        const box = target.getBoundingClientRect(), label = target.closest("label")?.getBoundingClientRect();
        if (visible(target)) expect(Math.max(box.height, label?.height || 0) >= 24, "a target lower than 24 pixels", target);
    }

    // ---- Contrast ------------------------------------------------------------------------------

    const parse = (colour) => {
        const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
        return { r, g, b, a };
    };
    const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a),
        b: top.b * top.a + under.b * (1 - top.a), a: 1 });
    const background = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
        return layers.reverse().reduce((under, top) => over(top, under), { r: 255, g: 255, b: 255, a: 1 });
    };
    const luminance = ({ r, g, b }) => {
        const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const contrast = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
        return (high + 0.05) / (low + 0.05);
    };
    const seen = new Set();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
        const element = node.parentElement;
        if (!node.data.trim() || !visible(element) || element.closest("script, style, .silent")) continue;
        const drawn = element.closest("svg");
        if (drawn && !element.classList.contains("fill-ink")) continue; // numbers on cells: palette.c
        const style = getComputedStyle(element), under = background(element);
        const ratio = contrast(over(parse(drawn ? style.fill : style.color), under), under);
        const key = `${element.tagName}.${element.className} ${style.color}`;
        if (ratio < 4.5 && !seen.has(key)) problems.push(`contrast ${ratio.toFixed(2)}: ${show(element)}`);
        seen.add(key);
    }
    return problems;
})()
