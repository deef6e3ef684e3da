// Pictures in a message: read, turned as the camera was held, made small enough, and shown.

import { h } from "./dom.js";
import { Refused } from "./api.js";

// Models scale pictures down themselves: more would only take longer to send.
const LONGEST_SIDE = 2048;
const SHOWN_SIDE = 160;
// A drawing or a screenshot stays as it is, unless that takes more.
const MOST_PNG_CHARACTERS = 2_000_000;

export function isPicture(file) {
  return file.type.startsWith("image/") && file.type !== "image/svg+xml";
}

/** Files on the clipboard. */
export function pasted(event) {
  return [...(event.clipboardData?.files ?? [])];
}

/** The picture in a file, as `{name, url, shown}`: what is sent, and a small one to show. Raises Refused. */
export async function readPicture(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Refused(`${file.name}: this browser can't read the picture. Save it as PNG or JPEG.`, 0, "invalid_picture");
  }
  const drawn = scaled(bitmap, LONGEST_SIDE);
  let url = file.type === "image/jpeg" ? "" : drawn.toDataURL("image/png");
  if (!url || url.length > MOST_PNG_CHARACTERS) url = drawn.toDataURL("image/jpeg", 0.9);
  const shown = scaled(bitmap, SHOWN_SIDE);
  bitmap.close();
  return { name: file.name, url, shown };
}

/** The picture, no longer than that on any side, on white where it is transparent. */
function scaled(source, side) {
  const scale = Math.min(1, side / Math.max(source.width, source.height));
  const canvas = h("canvas", { width: Math.max(1, Math.round(source.width * scale)), height: Math.max(1, Math.round(source.height * scale)) });
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** The picture to look at. A canvas needs no address, so the page's policy allows none for pictures. */
export function thumbnail({ name, shown }) {
  const canvas = scaled(shown, SHOWN_SIDE);
  canvas.setAttribute("class", "thumbnail");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", name);
  return canvas;
}

/** A message's content: its text, behind its pictures if it has any. */
export function contentOf(pictures, text) {
  if (!pictures.length) return text;
  const seen = pictures.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  return text ? [...seen, { type: "text", text }] : seen;
}
