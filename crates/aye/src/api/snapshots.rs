//! The snapshot everybody begins with. It is made once for all who want the same: after a restart every
//! client is back at the same moment.

use crate::hub::{Hub, Problem};
use crate::protocol::{self, Frame};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

pub struct SnapshotText {
    pub seq: u64,
    pub text: Utf8Bytes,
    /// When reading it began.
    begun: Instant,
}

/// The last one made; the text of what was open then is kept until the next is made.
#[derive(Default)]
pub struct Snapshots {
    last: Mutex<Option<Arc<SnapshotText>>>,
}

impl Snapshots {
    /// A snapshot that was begun after this call, or an earlier one if nothing has changed since.
    pub async fn take(&self, hub: &Hub) -> Result<Arc<SnapshotText>, Problem> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(last) = &*last
            && (last.begun >= asked || last.seq == hub.last_seq().await?)
        {
            return Ok(last.clone());
        }
        let begun = Instant::now();
        let snapshot = hub.snapshot().await?;
        let seq = snapshot.seq;
        let frame = Frame::<_, _, ()>::Snapshot(protocol::Snapshot {
            seq,
            asks: snapshot.asks,
            next: snapshot.next,
            agents: snapshot.agents,
            notices: hub.notices(),
        });
        let text =
            serde_json::to_string(&frame).map_err(|_| Problem::Fault("the snapshot cannot be written"))?;
        let snapshot = Arc::new(SnapshotText { seq, text: text.into(), begun });
        *last = Some(snapshot.clone());
        Ok(snapshot)
    }
}
