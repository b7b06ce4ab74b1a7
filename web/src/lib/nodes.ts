/**
 * Inline Markdown as nodes. They are made by hand and put into place at once: a talkative agent fills the screen
 * several times a second, and none of it changes afterwards.
 */

import type { Inline } from './markdown';
import { HIDDEN_CHARACTER, piecesAs } from './visible';

/** Fills an element with what it says. */
export const says =
  (inside: Inline[]) =>
  (element: HTMLElement): void => {
    const all = document.createDocumentFragment();
    putWords(all, inside);
    element.replaceChildren(all);
  };

function putWords(into: Node, inside: Inline[]): void {
  for (const node of inside) {
    switch (node.is) {
      case 'text':
        putText(into, node.text, { prose: true });
        break;
      case 'code':
        putText(put(into, 'code'), node.text, {});
        break;
      case 'link': {
        const link = put(into, 'span', 'link');
        putWords(link, node.inside);
        link.append(' ');
        const target = put(link, 'span', 'target');
        target.append('(');
        putText(target, node.target, { line: true });
        target.append(')');
        break;
      }
      case 'break':
        put(into, 'br');
        break;
      default:
        putWords(put(into, node.is), node.inside);
    }
  }
}

/** As Text.svelte shows it. */
function putText(into: Node, text: string, as: { line?: boolean; prose?: boolean }): void {
  const parts = piecesAs(text, as);
  if (!parts) {
    into.appendChild(document.createTextNode(text));
    return;
  }
  for (const part of parts) {
    if (!part.escape) {
      into.appendChild(document.createTextNode(part.text));
      continue;
    }
    const escape = put(into, 'span', 'esc');
    escape.title = HIDDEN_CHARACTER;
    escape.textContent = part.text;
  }
}

function put(into: Node, name: string, look = ''): HTMLElement {
  const element = document.createElement(name);
  if (look) element.className = look;
  into.appendChild(element);
  return element;
}
