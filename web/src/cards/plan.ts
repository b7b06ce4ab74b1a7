/** Comments on the lines of a plan, as the feedback that the agent reads. */

export function feedbackOf(plan: string, comments: Record<number, string>, general: string): string {
  const lines = plan.split('\n');
  const each = Object.entries(comments)
    .filter(([, comment]) => comment.trim() !== '')
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([n, comment]) => `Line ${Number(n) + 1} (${(lines[Number(n)] ?? '').trim()}): ${comment.trim()}`);
  return [general.trim(), ...each].filter(Boolean).join('\n\n');
}

/** The plan with what was said about it below, for an agent that takes an edited plan and nothing beside it. */
export const withNotes = (plan: string, feedback: string): string => `${plan.trimEnd()}\n\n## Notes from the reviewer\n\n${feedback}\n`;
