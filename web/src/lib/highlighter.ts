/** The languages that are coloured, in a file of their own that is loaded when there is code to show. */

import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import csharp from 'highlight.js/lib/languages/csharp';
import css from 'highlight.js/lib/languages/css';
import dockerfile from 'highlight.js/lib/languages/dockerfile';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import makefile from 'highlight.js/lib/languages/makefile';
import php from 'highlight.js/lib/languages/php';
import python from 'highlight.js/lib/languages/python';
import ruby from 'highlight.js/lib/languages/ruby';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';
import type { Span } from './segments';

const lowlight = createLowlight({
  bash, c, cpp, csharp, css, dockerfile, go, ini, java, javascript, json, makefile, php, python, ruby, rust, sql, typescript, xml, yaml,
});

interface Node {
  type: string;
  value?: string;
  properties?: { className?: unknown };
  children?: Node[];
}

const LOOKS: [RegExp, string][] = [
  [/^hljs-(comment|quote|meta)$/, 'tok-c'],
  [/^hljs-(string|regexp|symbol|char|link|addition)/, 'tok-s'],
  [/^hljs-(number|literal|variable|template-variable|params|attr|attribute|property)$/, 'tok-n'],
  [/^hljs-(title|type|class|name|section|function|built_in|selector)/, 'tok-t'],
  [/^hljs-(keyword|operator|tag|doctag)/, 'tok-k'],
];

/** Spans in order that do not overlap; none if what was coloured is not the text. */
export function spansOf(text: string, language: string): Span[] {
  if (!lowlight.registered(language)) return [];
  const spans: Span[] = [];
  let whole = '';
  const walk = (node: Node, look: string): void => {
    if (node.type === 'text') {
      const value = node.value ?? '';
      if (look && value) spans.push({ from: whole.length, to: whole.length + value.length, look });
      whole += value;
      return;
    }
    const names = Array.isArray(node.properties?.className) ? (node.properties.className as string[]) : [];
    const own = LOOKS.find(([sign]) => names.some((name) => sign.test(name)))?.[1];
    for (const child of node.children ?? []) walk(child, own ?? look);
  };
  walk(lowlight.highlight(language, text) as Node, '');
  return whole === text ? spans : [];
}
