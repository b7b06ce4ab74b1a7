import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

/** The hub serves what is compressed here, once. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    writeBundle({ dir }) {
      if (!dir) return;
      for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || entry.name.endsWith('.gz')) continue;
        const path = join(entry.parentPath, entry.name);
        writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  plugins: [svelte(), compressed()],
  build: {
    // Themes are written with light-dark(), which must reach the browser as it is.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    target: 'es2022',
    // One script and one style: the whole page is smaller than the round trips that parts would cost.
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    // What the page is made of travels with it, as its licences ask for.
    license: { fileName: 'assets/licenses.txt' },
  },
});
