import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { dropOldDrafts } from './lib/drafts';
import { hub } from './lib/hub.svelte';
import { notify } from './lib/notify.svelte';
import { hands } from './lib/reading.svelte';
import { place } from './lib/route.svelte';
import { settings } from './lib/settings.svelte';
import { clock } from './lib/time.svelte';

dropOldDrafts(Date.now());
settings.start();
clock.start();
hands.start();
place.start();
notify.start();
hub.start();

const target = document.getElementById('app');
if (target) mount(App, { target });
