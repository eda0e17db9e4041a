/**
 * A drawing as a PNG. The page's policy lets no picture be made of a blob, so the drawing is painted: every shape of
 * the SVG with the style that the browser gave it. Knows what Plot draws: paths, lines, rectangles, circles, text.
 */

const SCALE = 2;

/** The PNG of an SVG element that stands on the page, on a ground of its own. */
export function paint(svg, ground) {
  const { width, height } = svg.viewBox.baseVal;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [SCALE * width, SCALE * height];
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = ground;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (const shape of svg.querySelectorAll("path, line, rect, circle, text")) {
    if (!shape.closest("clipPath, defs")) draw(pen, svg, shape);
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function draw(pen, svg, shape) {
  const style = getComputedStyle(shape);
  if (style.display === "none" || style.visibility === "hidden") return;
  pen.save();
  pen.scale(SCALE, SCALE);
  clip(pen, svg, shape);
  const { a, b, c, d, e, f } = toSvg(svg, shape);
  pen.transform(a, b, c, d, e, f);
  const opacity = opacityOf(svg, shape);
  pen.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat));
  pen.lineWidth = parseFloat(style.strokeWidth) || 0;
  pen.lineCap = /** @type {CanvasLineCap} */ (style.strokeLinecap);
  pen.lineJoin = "round";
  if (shape.tagName === "text") write(pen, shape, style, opacity);
  else outline(pen, outlineOf(shape), style, opacity);
  pen.restore();
}

/** From a shape's own place to the drawing's: the matrix of its element, without that of the page. */
function toSvg(svg, shape) {
  const root = svg.getScreenCTM();
  return root.inverse().multiply(shape.getScreenCTM());
}

function opacityOf(svg, shape) {
  let opacity = 1;
  for (let each = shape; each && each !== svg; each = each.parentElement) {
    opacity *= Number(getComputedStyle(each).opacity);
  }
  return opacity;
}

/** What Plot cuts off lies outside of one rectangle. */
function clip(pen, svg, shape) {
  const cut = shape.closest("[clip-path]");
  const id = cut && /#([\w-]+)/.exec(cut.getAttribute("clip-path"))?.[1];
  const bounds = id && svg.querySelector(`#${id} rect`);
  if (!bounds) return;
  const path = new Path2D();
  path.addPath(outlineOf(bounds), toSvg(svg, cut));
  pen.clip(path);
}

function outlineOf(shape) {
  const number = (name) => Number(shape.getAttribute(name) ?? 0);
  if (shape.tagName === "path") return new Path2D(shape.getAttribute("d") ?? "");
  const path = new Path2D();
  if (shape.tagName === "line") {
    path.moveTo(number("x1"), number("y1"));
    path.lineTo(number("x2"), number("y2"));
  } else if (shape.tagName === "circle") path.arc(number("cx"), number("cy"), number("r"), 0, 2 * Math.PI);
  else path.rect(number("x"), number("y"), number("width"), number("height"));
  return path;
}

function outline(pen, path, style, opacity) {
  if (style.fill !== "none") {
    pen.globalAlpha = opacity * Number(style.fillOpacity);
    pen.fillStyle = style.fill;
    pen.fill(path);
  }
  if (style.stroke !== "none" && pen.lineWidth > 0) {
    pen.globalAlpha = opacity * Number(style.strokeOpacity);
    pen.strokeStyle = style.stroke;
    pen.stroke(path);
  }
}

/** Each line of a text from where its first letter stands. */
function write(pen, text, style, opacity) {
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const lines = text.querySelectorAll("tspan").length ? text.querySelectorAll("tspan") : [text];
  for (const line of lines) {
    if (!line.textContent || !line.getNumberOfChars()) continue;
    const { x, y } = line.getStartPositionOfChar(0);
    if (style.stroke !== "none" && pen.lineWidth > 0) {
      pen.globalAlpha = opacity;
      pen.strokeStyle = style.stroke;
      pen.strokeText(line.textContent, x, y);
    }
    pen.globalAlpha = opacity * Number(style.fillOpacity);
    pen.fillStyle = style.fill;
    pen.fillText(line.textContent, x, y);
  }
}
