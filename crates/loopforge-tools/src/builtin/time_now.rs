//! `time_now`.

use async_trait::async_trait;
use jiff::tz::TimeZone;
use loopforge_core::json::Json;
use loopforge_core::tool::{Contract, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, invalid};
use crate::{CallContext, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The time zone by its IANA name: `Asia/Shanghai`. UTC unless set.
    #[serde(default)]
    zone: Option<String>,
}

/// Tells the time.
#[derive(Debug)]
pub(super) struct TimeNow {
    contract: Contract,
}

impl TimeNow {
    pub(super) fn new() -> Self {
        let mut contract = Contract::read("Tells date and time in a time zone.", arguments::schema::<Arguments>());
        contract.key_fields = vec!["/date".to_owned()];
        contract.volatile = ["/utc", "/local", "/time", "/unix_ms"].map(str::to_owned).to_vec();
        Self { contract }
    }
}

#[async_trait]
impl Tool for TimeNow {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, _: &CallContext) -> ToolResult {
        tell(arguments, jiff::Timestamp::now()).unwrap_or_else(|failure| failure)
    }
}

fn tell(arguments: Json, now: jiff::Timestamp) -> Result<ToolResult, ToolResult> {
    let arguments: Arguments = arguments::read(arguments)?;
    let name = arguments.zone.as_deref().unwrap_or("UTC");
    let zone = TimeZone::get(name).map_err(|_| {
        invalid(format!("`zone` is `{name}`, which is no time zone: give an IANA name, as in `Europe/Berlin`"))
    })?;
    let local = now.to_zoned(zone);
    Ok(ToolResult::success(json!({
        "utc": format!("{now:.3}"),
        "local": local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "date": local.date().to_string(),
        "time": local.strftime("%H:%M:%S").to_string(),
        "weekday": local.strftime("%A").to_string(),
        "zone": name,
        "unix_ms": now.as_millisecond(),
    })))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_same_instant_is_another_day_elsewhere() {
        let now = "2026-11-30T23:30:00Z".parse().unwrap();
        let told = tell(json!({ "zone": "Asia/Shanghai" }), now).unwrap().data;
        assert_eq!(
            told,
            json!({ "utc": "2026-11-30T23:30:00.000Z", "local": "2026-12-01T07:30:00+08:00", "date": "2026-12-01",
                    "time": "07:30:00", "weekday": "Tuesday", "zone": "Asia/Shanghai", "unix_ms": 1_796_081_400_000_i64 })
        );
        assert_eq!(tell(json!({}), now).unwrap().data["date"], "2026-11-30");
        assert!(tell(json!({ "zone": "Mars/Base" }), now).unwrap_err().error.unwrap().contains("IANA name"));
    }
}
