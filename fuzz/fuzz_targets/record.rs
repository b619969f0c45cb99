//! A record that can be decoded is the same record after it was encoded and decoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopforge_core::record::Record;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = serde_json::from_slice::<Record>(bytes) {
        let again = serde_json::to_vec(&record).expect("a record can be written");
        assert_eq!(serde_json::from_slice::<Record>(&again).expect("what was written can be read"), record);
    }
});
