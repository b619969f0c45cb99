//! System calls that a sandboxed process is refused, by seccomp.
//!
//! Landlock guards paths and TCP; this closes what goes around it: other sockets, other processes' memory, namespaces,
//! mounts, the kernel's own state. A refused call fails with EPERM, so that a program can tell and go on.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// Calls that are refused whatever their arguments are.
const REFUSED: &[i64] = &[
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    // Rings make sockets and open files out of this filter's sight.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_fanotify_init,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // Not a socket of the kernel's own making, but it opens files by another way.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// The kinds of namespaces that `clone` can make.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Restricts this process and all that it will start.
pub(super) fn restrict(network: bool) -> Result<(), String> {
    let explain = |error: &dyn std::fmt::Display| format!("cannot set up seccomp: {error}");
    for program in [refusals(network), no_clone3()] {
        let program = program.map_err(|error| explain(&error))?;
        apply_filter(&program).map_err(|error| explain(&error))?;
    }
    Ok(())
}

fn refusals(network: bool) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets(network)?);
    let mut clone = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        let flag_set = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
        clone.push(SeccompRule::new(vec![flag_set])?);
    }
    rules.insert(libc::SYS_clone, clone);
    // TIOCSTI types into the terminal on behalf of its user, TIOCLINUX does by another way.
    let mut ioctl = Vec::new();
    for request in [0x5412, 0x541c] {
        ioctl.push(SeccompRule::new(vec![SeccompCondition::new(
            1,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Eq,
            request,
        )?])?);
    }
    rules.insert(libc::SYS_ioctl, ioctl);
    #[cfg(target_arch = "x86_64")]
    add_x32(&mut rules);
    filter(rules, libc::EPERM)
}

/// Which sockets are refused: all without the network, else all but the internet's and those that name resolution uses.
///
/// Unix sockets are always refused, for behind them stand programs that act for whoever asks: Docker, the session's
/// service manager, the SSH agent. Pairs of connected sockets (`socketpair`) stay allowed.
fn sockets(network: bool) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    if !network {
        return Ok(Vec::new());
    }
    let mut conditions = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK] {
        let family = u64::from(family.unsigned_abs());
        conditions.push(SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)?);
    }
    Ok(vec![SeccompRule::new(conditions)?])
}

/// `clone3` hides its flags in memory, where a filter can't look. "Not there" makes C libraries use `clone`.
fn no_clone3() -> Result<BpfProgram, seccompiler::BackendError> {
    filter(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

/// Adds the same calls by their x32 numbers, under which some kernels take them too.
#[cfg(target_arch = "x86_64")]
fn add_x32(rules: &mut BTreeMap<i64, Vec<SeccompRule>>) {
    const X32: i64 = 0x4000_0000;
    // Calls whose x32 number differs: ptrace, kexec_load, process_vm_readv, process_vm_writev.
    let own = [521, 528, 539, 540].map(|call| (X32 | call, Vec::new()));
    let same: Vec<_> = rules.iter().map(|(call, rule)| (X32 | *call, rule.clone())).collect();
    rules.extend(same);
    rules.extend(own);
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), arch)?.try_into()
}
