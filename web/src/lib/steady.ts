/**
 * Keeps a press meant for one thing from deciding another. What decides is marked `data-decides`. A press
 * counts there only if it began on this very card, the card had been on show for a moment, and it is not the
 * second half of a double click. Plain Enter never decides.
 */

const A_MOMENT = 450;

export function steady(card: HTMLElement): () => void {
  const since = performance.now();
  let began: EventTarget | null = null;
  const decides = (event: Event): Element | null =>
    event.target instanceof Element ? event.target.closest('[data-decides]') : null;
  const refuse = (event: Event): void => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  const down = (event: PointerEvent): void => {
    began = performance.now() - since < A_MOMENT ? null : decides(event);
  };
  const click = (event: MouseEvent): void => {
    const target = decides(event);
    if (!target) return;
    const byPointer = event.detail > 0;
    const early = performance.now() - since < A_MOMENT;
    if (early || event.detail > 1 || (byPointer && began !== target)) refuse(event);
    began = null;
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && !event.ctrlKey && !event.metaKey && decides(event)) refuse(event);
  };
  card.addEventListener('pointerdown', down, true);
  card.addEventListener('click', click, true);
  card.addEventListener('keydown', key, true);
  return () => {
    card.removeEventListener('pointerdown', down, true);
    card.removeEventListener('click', click, true);
    card.removeEventListener('keydown', key, true);
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
