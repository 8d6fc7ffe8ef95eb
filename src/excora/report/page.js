"use strict";
(() => {
  const root = document.documentElement;
  const narrow = matchMedia("(max-width: 40rem)");
  const touch = matchMedia("(pointer: coarse)").matches;
  const plots = JSON.parse(document.getElementById("plots").textContent).map(({ name, views }) => {
    const figure = document.getElementById(name);
    return { figure, views, view: 0, hidden: new Set(), box: figure.querySelector(".plot"), legend: figure.querySelector(".legend") };
  });

  // "@name" stands for a colour of page.css, and only where plotly expects a colour: a user's text may begin with @ too.
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  const resolve = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const paint = (value) => {
    if (Array.isArray(value) || value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => {
      if ((key === "color" || key === "fillcolor") && typeof item === "string" && item[0] === "@") return [key, resolve(item.slice(1))];
      if (key === "shapes" || key === "annotations") return [key, item.map(paint)];
      return [key, paint(item)];
    }));
  };

  const dress = (layout) => {
    const axis = { gridcolor: resolve("grid"), linecolor: resolve("line"), zerolinecolor: resolve("line"), tickcolor: resolve("line"),
      zeroline: false, automargin: true, fixedrange: touch, ticks: "outside", ticklen: 4, title: { standoff: 10 } };
    const merge = (own) => ({ ...axis, ...own, title: { ...axis.title, ...own.title } });
    return {
      ...layout, ...Object.fromEntries(Object.keys(layout).filter((key) => /^[xy]axis/.test(key)).map((key) => [key, merge(layout[key])])),
      autosize: true, showlegend: false,
      margin: { l: 8, r: 12, t: 26, b: 8, ...layout.margin }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 12 : 13, color: resolve("text") },
      hoverlabel: { bgcolor: resolve("surface"), bordercolor: resolve("line"), font: { color: resolve("text") }, align: "left" },
      dragmode: touch ? false : "zoom",
    };
  };

  // Text in the hidden set follows the trace's place, not its name: two groups may be called alike after a cut.
  const draw = (plot) => {
    const { traces, layout } = plot.views[plot.view];
    const painted = traces.map((trace, place) => ({ ...paint(trace), visible: !plot.hidden.has(place) }));
    const options = { displayModeBar: false, displaylogo: false, typesetMath: false, showLink: false, doubleClick: "reset" };
    return Plotly.react(plot.box, painted, dress(paint(layout)), options);
  };

  const legend = (plot) => {
    const { traces } = plot.views[plot.view];
    plot.legend.replaceChildren();
    if (traces.length < 2 || traces.some(({ marker }) => Array.isArray(marker?.color))) return;
    traces.forEach((trace, place) => {
      const button = document.createElement("button");
      const swatch = document.createElement("span");
      const color = trace.marker?.color ?? trace.line.color;
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      swatch.className = `swatch ${trace.line?.dash ?? ""} ${trace.marker?.symbol ?? ""}`;
      swatch.style.setProperty("--swatch", `var(--${color.slice(1)})`);
      button.append(swatch, trace.name);
      button.addEventListener("click", () => {
        plot.hidden.has(place) ? plot.hidden.delete(place) : plot.hidden.add(place);
        button.setAttribute("aria-pressed", String(!plot.hidden.has(place)));
        draw(plot);
      });
      plot.legend.append(button);
    });
  };

  const drawAll = () => Promise.all(plots.map(draw));
  const toggle = document.getElementById("theme");
  const wear = (theme) => {
    root.dataset.theme = theme;
    toggle.textContent = theme === "dark" ? "Light theme" : "Dark theme";
    return drawAll();
  };

  for (const plot of plots) {
    legend(plot);
    plot.figure.querySelector("select")?.addEventListener("change", (event) => {
      plot.view = Number(event.target.value);
      plot.hidden.clear();
      legend(plot);
      draw(plot);
    });
  }
  toggle.hidden = false;
  toggle.addEventListener("click", () => wear(root.dataset.theme === "dark" ? "light" : "dark"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => wear(event.matches ? "dark" : "light"));
  narrow.addEventListener("change", drawAll);
  wear(root.dataset.theme).then(() => { root.dataset.ready = "yes"; });

  // A window may pass through a width of nothing, which plotly cannot draw in.
  const fit = () => plots.filter(({ box }) => box.clientWidth > 80).forEach(({ box }) => Plotly.Plots.resize(box));
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(fit);
  });

  // Paper is white and narrower than the screen.
  let before = null;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.classList.add("paper");
    wear("light");
    fit();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("paper");
    wear(before);
    fit();
  });

  const compare = (a, b) => {
    if (a.number && b.number) return a.key === "" || b.key === "" ? 0 : Number(a.key) - Number(b.key);
    return a.key.localeCompare(b.key, undefined, { numeric: true });
  };
  for (const head of document.querySelectorAll("table.sortable th[aria-sort] button")) {
    head.addEventListener("click", () => {
      const cell = head.parentElement;
      const body = cell.closest("table").tBodies[0];
      const down = cell.getAttribute("aria-sort") === "ascending";
      for (const other of cell.parentElement.cells) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => {
        const own = row.cells[cell.cellIndex];
        const number = own.dataset.value !== undefined;
        const key = number ? own.dataset.value : own.textContent;
        return { row, number, key, empty: key === "" };
      });
      // What is undefined stays at the end, whichever way one sorts.
      rows.sort((a, b) => a.empty - b.empty || (down ? compare(b, a) : compare(a, b)));
      body.append(...rows.map(({ row }) => row));
    });
  }
})();
