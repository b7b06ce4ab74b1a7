//! Follows what other hubs write: woken by their commits, and once a second in case that a notification was lost.

use super::super::following::Shared;
use super::super::{Reader, StoreError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How soon it ends when it is told to.
const SLICE: Duration = Duration::from_millis(100);

pub struct Listener {
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    pub fn start(reader: Reader, shared: Arc<Shared>) -> Result<Self, std::io::Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let listen = move || listen(&reader, &shared, &until);
        let thread = std::thread::Builder::new().name("aye-listener".into()).spawn(listen)?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    pub async fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && tokio::task::spawn_blocking(move || thread.join()).await.is_err()
        {
            tracing::error!("the listener did not end as it should");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn listen(reader: &Reader, shared: &Shared, stop: &AtomicBool) {
    let mut looked = Instant::now();
    // So that the same trouble is not logged every second.
    let mut said = None;
    while !stop.load(Ordering::Relaxed) {
        let news = reader.connection.wait_for_news(SLICE);
        let is_news = match &news {
            Ok(Some(group)) => shared.following.is_behind(*group),
            Ok(None) => false,
            Err(_) => {
                std::thread::sleep(SLICE);
                false
            }
        };
        if !is_news && looked.elapsed() < LOOKS_EVERY {
            continue;
        }
        looked = Instant::now();
        let followed = reader.at_one_moment(|_| Ok::<_, StoreError>(()));
        match followed.err().map(|error| error.to_string()) {
            Some(why) if said.as_ref() != Some(&why) => {
                tracing::error!(why, "what other hubs write cannot be followed; it is tried again");
                said = Some(why);
            }
            Some(_) => {}
            None if said.take().is_some() => tracing::info!("what other hubs write is followed again"),
            None => {}
        }
    }
}
