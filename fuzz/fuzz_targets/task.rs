//! Any bytes give a task or problems with places; a task that was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopforge_core::task::{Catalog, read, read_bytes};

fuzz_target!(|bytes: &[u8]| {
    let catalog = Catalog::default();
    match read_bytes(bytes, "task.yaml", &catalog) {
        Ok(task) => {
            let json = serde_json::to_string(&task).expect("a task can be written");
            assert_eq!(read(&json, "task.json", &catalog).as_ref(), Ok(&task));
        }
        Err(problems) => assert!(problems.all().iter().all(|problem| problem.line >= 1 && problem.column >= 1)),
    }
});
