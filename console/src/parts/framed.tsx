/** A foreign HTML document in a frame: its looks are shown, and nothing in it runs.

The frame is sandboxed without scripts, forms and windows. It inherits this page's policy, which
takes no styles from markup either; so they are read out of the text, and put on what comes of it
by the one way that can do nothing but style. Handlers are taken out of the text too: the policy
would stop them, but a browser complains of each that it has to stop. */

import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { look } from "../state/look";

const DROPPED = "script, link, meta, base, iframe, frame, object, embed, form, template";
const SHEET = /<style\b[^>]*>([\s\S]*?)<\/style>/gi;
const TAG = /<[a-z][^>]*>/gi;
const MOVED = /[\s/](style|on[a-z]+)\s*=/gi;
const ASIDE = "data-aside-";
const STYLE = `${ASIDE}style`;

export function Framed({ html, title }: { html: string; title: string }): VNode {
  const ref = useRef<HTMLIFrameElement>(null);
  const scheme = look.value;
  useEffect(() => {
    const frame = ref.current;
    if (frame === null) return undefined;
    const put = (): void => fill(frame, html, scheme);
    if (frame.contentDocument?.readyState === "complete") put();
    frame.addEventListener("load", put);
    return () => frame.removeEventListener("load", put);
  }, [html, scheme]);
  return <iframe ref={ref} class="framed" title={title} sandbox="allow-same-origin" />;
}

function fill(frame: HTMLIFrameElement, html: string, scheme: string): void {
  const inside = frame.contentDocument;
  const view = frame.contentWindow as (Window & typeof globalThis) | null;
  if (inside === null || view === null) return;
  const sheets = [...html.matchAll(SHEET)].map(([, text = ""]) => {
    const sheet = new view.CSSStyleSheet();
    sheet.replaceSync(text);
    return sheet;
  });
  const plain = html.replace(SHEET, "").replace(TAG, aside);
  const given = new DOMParser().parseFromString(plain, "text/html");
  for (const element of given.querySelectorAll(DROPPED)) element.remove();
  for (const element of given.querySelectorAll("*")) strip(element);
  const body = inside.importNode(given.body, true);
  for (const element of body.querySelectorAll<HTMLElement>(`[${STYLE}]`)) {
    element.style.cssText = element.getAttribute(STYLE) ?? "";
    element.removeAttribute(STYLE);
  }
  inside.documentElement.lang = given.documentElement.lang;
  inside.documentElement.style.colorScheme = scheme === "system" ? "light dark" : scheme;
  inside.adoptedStyleSheets = sheets;
  inside.body.replaceWith(body);
}

function aside(tag: string): string {
  return tag.replace(MOVED, ` ${ASIDE}$1=`);
}

/** Takes away what would run or load. */
function strip(element: Element): void {
  for (const { name, value } of [...element.attributes]) {
    const leads = name === "href" || name === "xlink:href";
    const outside = leads && !value.trim().startsWith("#");
    const loads = ["src", "srcset", "action", "formaction", "poster", "data"].includes(name);
    const runs = name.startsWith("on") || name.startsWith(`${ASIDE}on`);
    if (name === "style" || runs || outside || loads) {
      element.removeAttribute(name);
    }
  }
}
