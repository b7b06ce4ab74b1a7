/** Comments on the lines of a plan, as the feedback that the agent reads. */

export function feedbackOf(plan: string, comments: Record<number, string>, general: string): string {
  const lines = plan.split('\n');
  const each = Object.entries(comments)
    .filter(([, comment]) => comment.trim() !== '')
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([n, comment]) => `Line ${Number(n) + 1} (${(lines[Number(n)] ?? '').trim()}): ${comment.trim()}`);
  return [general.trim(), ...each].filter(Boolean).join('\n\n');
}
