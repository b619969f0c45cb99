//! A person sets a value in a run's state.

use loopforge_core::id::{RecordId, RunId, Seq};
use loopforge_core::json::{self, Json};
use loopforge_core::payload::Payload;
use loopforge_core::record::{Event, Record, StateSaved};
use loopforge_core::task::SaveTo;
use loopforge_store::{Append, Appended, Durability, Lease, StoreError};
use uuid::Uuid;

use crate::clock;
use crate::engine::Engine;
use crate::error::EngineError;

impl Engine {
    /// Sets a value in the state of a run that nobody works on, in the name of `by`, and returns the record that says so. Without `member` the key as a
    /// whole is replaced.
    ///
    /// After `Ok` it survives a loss of power; [`Self::resume`] goes on with it. The versions before it stay in the archive.
    ///
    /// # Errors
    /// [`EngineError::Ended`]: an ended run is not changed any more. [`EngineError::Invalid`]: expressions can't name such a key.
    /// [`StoreError::Held`] while somebody works on the run. Nothing was changed in any of these.
    pub async fn set_state(
        &self,
        id: RunId,
        key: &str,
        member: Option<&str>,
        value: Json,
        by: &str,
    ) -> Result<Seq, EngineError> {
        // The same names that a task can save to, so that its expressions can read them.
        match SaveTo::parse(key) {
            Ok(place) if place.member.is_none() && place.name == key => {}
            Ok(_) => {
                return Err(EngineError::Invalid(format!("`{key}` is not the name of a key: a member is given apart")));
            }
            Err(problem) => return Err(EngineError::Invalid(problem)),
        }
        let lease = self.claim(id).await?;
        let set = self.append_value(id, &lease, key, member, value, by).await;
        // What went wrong before says more; a lease that can't be given up lapses by itself.
        let _ = self.store.release_lease(&lease).await;
        set
    }

    async fn append_value(
        &self,
        id: RunId,
        lease: &Lease,
        key: &str,
        member: Option<&str>,
        mut value: Json,
        by: &str,
    ) -> Result<Seq, EngineError> {
        let info = self.store.run(id).await?;
        if info.status.is_final() {
            return Err(EngineError::Ended { run: id, status: info.status });
        }
        // The clock may step back; the archive's times don't.
        let last = self.store.records(id, Seq(lease.head.0.saturating_sub(1)), 1).await?;
        let last_at = last.first().map_or(info.created_at, |record| record.at);
        json::clean(&mut value);
        let mut blobs = Vec::new();
        let value = Payload::stow(value, &mut blobs);
        let (key, member) = (key.to_owned(), member.map(|member| json::clean_text(member.to_owned()).0));
        let by = Some(by.to_owned());
        let event = Event::StateSaved(StateSaved { branch: None, step: None, entry: None, key, member, value, by });
        let seq = lease.head.next();
        let record = Record { seq, id: RecordId(Uuid::now_v7()), at: last_at.max(clock::now()), event };
        let append = Append {
            expected_head: lease.head,
            records: vec![record],
            blobs,
            // Whatever it waits for, it waits for still.
            status: info.status,
            wake_at: info.wake_at,
            steps: info.steps,
            durability: Durability::Hard,
            checkpoint: None,
        };
        match self.store.append(lease, append).await.map_err(EngineError::Store)? {
            Appended::Written | Appended::AlreadyMine => Ok(seq),
            Appended::Fenced => Err(StoreError::LeaseLost(id).into()),
        }
    }
}
