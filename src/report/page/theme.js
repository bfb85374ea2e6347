// What a report does beyond being read. This file: the switch between light and dark. map.js, space.js
// and values.js follow it in one script.
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
        button.setAttribute("aria-label", `Switch to ${dark() ? "light" : "dark"} mode`);
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
    let before; // paper is light
    addEventListener("beforeprint", () => {
        before = root.dataset.theme;
        root.dataset.theme = "light";
    });
    addEventListener("afterprint", () => {
        if (before) root.dataset.theme = before;
        else delete root.dataset.theme;
        label();
    });
    label();
})();
