//! Claiming what is due: where to look, and how often everywhere.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use loopforge_core::id::RunId;
use uuid::Uuid;

use super::PostgresStore;
use super::lease::{self, Due};
use crate::dispatch::jittered;
use crate::{Lease, StoreError, Worker};

/// How far claims look behind the newest run that they have seen: a transaction that made a run ready may have begun before,
/// and ended later. What comes later still is found by a claim that looks at everything.
const LOOK_BEHIND: Duration = Duration::from_secs(10);
/// How often a claim looks at everything.
const LOOK_EVERYWHERE: Duration = Duration::from_secs(3);
/// How often a process looks for dead workers.
const SWEEP: Duration = Duration::from_secs(1);

/// What claims remember.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Runs that became ready before were all seen.
    mark: Option<i64>,
    looked_everywhere: Option<Instant>,
    swept: Option<Instant>,
    /// Leases that may have been given out by claims whose answer was lost.
    doubtful: Vec<Uuid>,
}

impl PostgresStore {
    fn claims(&self) -> std::sync::MutexGuard<'_, Claims> {
        self.0.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims runs that are due; takes those of dead workers back now and then.
    pub(super) async fn claim_those_due(
        &self,
        worker: &Worker,
        limit: usize,
        except: &[RunId],
    ) -> Result<Vec<Lease>, StoreError> {
        let doubtful = std::mem::take(&mut self.claims().doubtful);
        if !doubtful.is_empty() {
            let (ids, owner) = (doubtful.clone(), worker.clone());
            let found = self
                .write(move |client, _| {
                    let (ids, owner) = (ids.clone(), owner.clone());
                    Box::pin(async move { lease::given_out(client, &owner, &ids).await })
                })
                .await;
            match found {
                Ok(leases) if leases.is_empty() => {}
                Ok(leases) => return Ok(leases),
                Err(error) => {
                    self.claims().doubtful = doubtful;
                    return Err(error);
                }
            }
        }
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut leases = self.look_for_due(worker, limit, except).await?;
        let sweeps = {
            let mut claims = self.claims();
            let due = claims.swept.is_none_or(|at| at.elapsed() >= jittered(SWEEP));
            // A test's clock jumps over the time between two sweeps.
            let sweeps = due || self.0.core.options.clock.is_some();
            if sweeps {
                claims.swept = Some(Instant::now());
            }
            sweeps
        };
        if sweeps {
            let swept = self.write(|client, now| Box::pin(async move { lease::sweep(client, now).await })).await?;
            if swept > 0 && leases.len() < limit {
                leases.extend(self.look_for_due(worker, limit - leases.len(), except).await?);
            }
        }
        Ok(leases)
    }

    /// One look for due runs: what a claim remembers decides where.
    async fn look_for_due(&self, worker: &Worker, limit: usize, except: &[RunId]) -> Result<Vec<Lease>, StoreError> {
        let everywhere = {
            let mut claims = self.claims();
            let everywhere = claims.looked_everywhere.is_none_or(|at| at.elapsed() >= LOOK_EVERYWHERE);
            if everywhere {
                claims.looked_everywhere = Some(Instant::now());
            }
            everywhere
        };
        let due = Due {
            worker: worker.clone(),
            ids: (0..limit).map(|_| Uuid::new_v4()).collect(),
            except: except.iter().map(|run| run.0).collect(),
            mark: self.claims().mark.filter(|_| !everywhere).unwrap_or(i64::MIN),
            now: None,
        };
        let ids = due.ids.clone();
        let claimed = self
            .write(move |client, now| {
                let due = Due { now, ..due.clone() };
                Box::pin(async move {
                    // An earlier try of this claim may have gone through.
                    let given_out = lease::given_out(client, &due.worker, &due.ids).await?;
                    if given_out.is_empty() { lease::claim_due(client, &due).await } else { Ok((given_out, due.mark)) }
                })
            })
            .await;
        match claimed {
            Ok((leases, youngest)) => {
                let mut claims = self.claims();
                if !leases.is_empty() {
                    let mark = youngest.saturating_sub(lease::micros(LOOK_BEHIND));
                    claims.mark = Some(claims.mark.map_or(mark, |before| before.max(mark)));
                }
                Ok(leases)
            }
            Err(error) => {
                self.claims().doubtful.extend(ids);
                Err(error)
            }
        }
    }
}
