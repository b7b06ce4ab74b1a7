/**
 * Keeps a press meant for one thing from deciding another. What decides is marked `data-decides`. A press
 * counts there only if it began on this very card, the card had been on show and in its place for a moment, no
 * other card was decided on just now, and it is not the second half of a double click. Plain Enter never decides.
 */

const A_MOMENT = 450;
const SHIFT = 4;

let decided: { at: number; on: HTMLElement } | null = null;

export function steady(card: HTMLElement): () => void {
  let began: Element | null = null;
  let place: number | null = null;
  const decides = (event: Event): Element | null =>
    event.target instanceof Element ? event.target.closest('[data-decides]') : null;
  const refuse = (event: Event): void => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  /** Where the card was when the person last moved something; if it is elsewhere, it moved by itself. */
  const look = (): void => {
    place = card.getBoundingClientRect().top;
  };
  const soon = (): boolean => {
    const now = performance.now();
    return !('armed' in card.dataset) || (decided !== null && decided.on !== card && now - decided.at < A_MOMENT);
  };
  const down = (event: PointerEvent): void => {
    const moved = event.pointerType === 'mouse' && place !== null && Math.abs(card.getBoundingClientRect().top - place) > SHIFT;
    began = soon() || moved ? null : decides(event);
    look();
  };
  const click = (event: MouseEvent): void => {
    const target = decides(event);
    if (!target) return;
    const byPointer = event.detail > 0;
    if (soon() || event.detail > 1 || (byPointer && began !== target)) refuse(event);
    else decided = { at: performance.now(), on: card };
    began = null;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey && decides(event)) refuse(event);
  };
  const armed = setTimeout(() => (card.dataset['armed'] = ''), A_MOMENT);
  card.addEventListener('pointerdown', down, true);
  card.addEventListener('click', click, true);
  card.addEventListener('keydown', key, true);
  document.addEventListener('pointermove', look, { capture: true, passive: true });
  document.addEventListener('scroll', look, { capture: true, passive: true });
  return () => {
    clearTimeout(armed);
    card.removeEventListener('pointerdown', down, true);
    card.removeEventListener('click', click, true);
    card.removeEventListener('keydown', key, true);
    document.removeEventListener('pointermove', look, true);
    document.removeEventListener('scroll', look, true);
  };
}

/** Whether a key belongs to a field that is being typed in. */
export function typing(event: KeyboardEvent): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.tagName === 'TEXTAREA' || target.tagName === 'SELECT') return true;
  return target.tagName === 'INPUT' && !['radio', 'checkbox'].includes((target as HTMLInputElement).type);
}

export const submits = (event: KeyboardEvent): boolean => event.key === 'Enter' && (event.ctrlKey || event.metaKey);

/** Gives keys to what scrolls when it comes or its content changes, unless a person is typing somewhere. */
export function takesFocus(_content: unknown = null): (element: HTMLElement) => void {
  return (element) => {
    const at = document.activeElement;
    const busy = at instanceof HTMLElement && at.matches('input, textarea, select, [contenteditable]');
    if (!busy) element.focus({ preventScroll: true });
  };
}
