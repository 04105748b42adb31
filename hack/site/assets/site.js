// What the site does in the browser: light or dark, the menu on a phone, copying of commands, pictures, search.
"use strict";

const root = document.documentElement;
const site = document.querySelector("header .logo").href;

document.querySelector(".theme-button").addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  draw();
});

document.querySelector(".pages-button")?.addEventListener("click", (event) => {
  const open = document.getElementById("pages").classList.toggle("open");
  event.currentTarget.setAttribute("aria-expanded", open);
});
document.querySelector(".pages [aria-current]")?.scrollIntoView({ block: "nearest" });

for (const block of document.querySelectorAll("pre:not(.mermaid)")) {
  const frame = document.createElement("div");
  const button = document.createElement("button");
  frame.className = "code";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent.replace(/\n$/, ""));
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.replaceWith(frame);
  frame.append(block, button);
}

// Mermaid replaces the text of a picture, so the text is kept for when the theme changes.
async function draw() {
  const pictures = document.querySelectorAll("pre.mermaid");
  if (pictures.length === 0) return;
  const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  mermaid.initialize({
    startOnLoad: false, theme: "base",
    flowchart: { nodeSpacing: 16, rankSpacing: 40, padding: 10, wrappingWidth: 140 }, // narrow, so that the text is large
    themeVariables: {
      darkMode: root.dataset.theme === "dark", background: color("raised"), primaryColor: color("mark"),
      primaryBorderColor: color("accent"), primaryTextColor: color("text"), lineColor: color("soft"), textColor: color("text"),
      secondaryColor: color("code"), tertiaryColor: color("raised"), edgeLabelBackground: color("raised"),
      noteBkgColor: color("code"), noteTextColor: color("text"), noteBorderColor: color("line"),
    },
  });
  for (const [number, picture] of pictures.entries()) {
    picture.dataset.text ??= picture.textContent;
    const isTall = innerWidth < 640 && !picture.dataset.text.includes("subgraph"); // on a phone
    const text = isTall ? picture.dataset.text.replace("flowchart LR", "flowchart TD") : picture.dataset.text;
    const { svg } = await mermaid.render(`picture-${number}`, text);
    picture.innerHTML = svg;
    const drawing = picture.querySelector("svg");
    drawing.style.minWidth = `calc(0.51 * ${drawing.style.maxWidth})`; // text of 8 pixels; if the picture is still too wide, it scrolls
    picture.dataset.drawn = "";
  }
}
addEventListener("load", draw);

const input = document.querySelector(".search input");
const results = document.querySelector(".search ol");
let index;

input.addEventListener("focus", () => { index ??= fetch(new URL("search.json", site)).then((answer) => answer.json()); }, { once: true });
input.addEventListener("input", search);
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter") results.querySelector("a")?.click();
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") results.hidden = true;
  if (event.key === "/" && document.activeElement === document.body) {
    event.preventDefault();
    input.focus();
  }
});
addEventListener("click", (event) => {
  if (!event.target.closest(".search")) results.hidden = true;
});

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const pages = await index;
  const found = words.length === 0 ? [] : pages.flatMap((page) => hits(page, words));
  found.sort((a, b) => b.score - a.score);
  results.replaceChildren(...found.slice(0, 12).map(result));
  if (words.length > 0 && found.length === 0) {
    results.append(Object.assign(document.createElement("li"), { className: "none", textContent: "Nothing found" }));
  }
  results.hidden = words.length === 0;
}

// hits are a page and its headings that have all words; a page also where its text has them.
function hits(page, words) {
  const all = (text) => words.every((word) => text.toLowerCase().includes(word));
  const list = page.headings.filter((heading) => all(heading.title)).map((heading) => ({
    title: heading.title, about: page.title, url: `${page.url}#${heading.id}`,
    score: heading.title.toLowerCase() === words.join(" ") ? 20 : 6,
  }));
  if (all(page.title)) {
    list.push({ title: page.title, about: page.text.slice(0, 120), url: page.url, score: 10 });
  } else if (list.length === 0 && all(`${page.title} ${page.text}`)) {
    const at = page.text.toLowerCase().indexOf(words[0]);
    list.push({ title: page.title, about: `…${page.text.slice(Math.max(0, at - 50), at + 90)}…`, url: page.url, score: 2 });
  }
  return list;
}

function result(hit) {
  const link = Object.assign(document.createElement("a"), { href: new URL(hit.url, site), textContent: hit.title });
  link.append(Object.assign(document.createElement("small"), { textContent: hit.about }));
  const item = document.createElement("li");
  item.append(link);
  return item;
}
