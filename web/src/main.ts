import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { dropOldDrafts } from './lib/drafts';
import { hub } from './lib/hub.svelte';
import { notify } from './lib/notify.svelte';
import { place } from './lib/route.svelte';
import { clock } from './lib/time.svelte';

dropOldDrafts(Date.now());
clock.start();
place.start();
notify.start();
hub.start();

const target = document.getElementById('app');
if (target) mount(App, { target });
