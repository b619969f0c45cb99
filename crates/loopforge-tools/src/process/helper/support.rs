//! What this kernel can enforce, for `loopforge doctor` and for a refusal that says why.

use std::path::Path;

use landlock::ABI;
use serde::Serialize;

use super::landlock_rules;

/// What the sandbox does on this host, and what it can't do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxSupport {
    /// The version of Landlock that is used; `None` when the kernel has none.
    pub landlock: Option<u32>,
    /// Whether the kernel has seccomp filters.
    pub seccomp: bool,
    /// What is enforced.
    pub enforced: Vec<String>,
    /// What is not enforced here although it is on newer kernels.
    pub gaps: Vec<String>,
}

impl SandboxSupport {
    /// Whether sandboxed processes can run. If not, a process runs only with `sandbox: off`.
    #[must_use]
    pub fn is_sufficient(&self) -> bool {
        self.landlock.is_some() && self.seccomp
    }
}

/// Asks the kernel what it can enforce. Changes nothing.
#[must_use]
pub fn sandbox_support() -> SandboxSupport {
    let version = landlock_rules::version().unwrap_or(ABI::Unsupported);
    let seccomp = Path::new("/proc/sys/kernel/seccomp/actions_avail").exists();
    describe(version, seccomp, rustix::process::getuid().is_root())
}

fn describe(version: ABI, seccomp: bool, root: bool) -> SandboxSupport {
    let mut enforced = Vec::new();
    let mut gaps = Vec::new();
    let mut tell = |holds: bool, what: &str, gap: &str| {
        if holds { enforced.push(what.to_owned()) } else { gaps.push(gap.to_owned()) }
    };
    tell(version >= ABI::V1, "files: only granted paths", "files are not protected: the kernel lacks Landlock (5.13)");
    tell(
        seccomp,
        "no sockets without a grant; no ptrace, mounts, kernel modules, namespaces",
        "system calls are not filtered: the kernel lacks seccomp filters",
    );
    tell(version >= ABI::V3, "truncating files", "files outside can be truncated (Linux 6.2 closes this)");
    tell(
        version >= ABI::V5,
        "device commands",
        "commands can be sent to devices that are granted (Linux 6.10 closes this)",
    );
    tell(
        version >= ABI::V6,
        "signals: only to its own processes",
        "signals can be sent to other processes of the same user (Linux 6.12 closes this)",
    );
    tell(
        !root,
        "number of processes, by the kernel",
        "for root the number of processes is only watched, 20 times a second",
    );
    enforced.push("address space, file size, open files, no core dumps".to_owned());
    let landlock = VERSION_NUMBERS.iter().find(|(known, _)| *known == version).map(|(_, number)| *number);
    SandboxSupport { landlock, seccomp, enforced, gaps }
}

const VERSION_NUMBERS: [(ABI, u32); 7] =
    [(ABI::V1, 1), (ABI::V2, 2), (ABI::V3, 3), (ABI::V4, 4), (ABI::V5, 5), (ABI::V6, 6), (ABI::V7, 7)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_names_its_gaps() {
        let old = describe(ABI::V1, true, false);
        assert!(old.is_sufficient());
        assert_eq!(old.landlock, Some(1));
        assert_eq!(old.gaps.len(), 3, "{:?}", old.gaps);
        assert!(old.gaps.iter().any(|gap| gap.contains("truncated")));
        assert!(old.gaps.iter().any(|gap| gap.contains("signals")));
    }

    #[test]
    fn without_landlock_or_seccomp_there_is_no_sandbox() {
        assert!(!describe(ABI::Unsupported, true, false).is_sufficient());
        assert_eq!(describe(ABI::Unsupported, true, false).landlock, None);
        assert!(!describe(ABI::V7, false, false).is_sufficient());
        assert!(describe(ABI::V7, true, false).gaps.is_empty());
    }
}
