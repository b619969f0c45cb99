//! Files, TCP and signals by Landlock.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::process::wire::Confinement;

/// What programs need to start at all. What a host doesn't have is left out.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    // Its own process only: the folder that this link names now stays the same through exec.
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
];

/// Devices that swallow what is written.
const SINKS: &[&str] = &["/dev/null", "/dev/full"];

/// The versions of Landlock that are asked for, newest first.
const VERSIONS: &[ABI] = &[ABI::V7, ABI::V6, ABI::V5, ABI::V4, ABI::V3, ABI::V2, ABI::V1];

/// The newest version of Landlock that this kernel has, or `None`.
pub(super) fn version() -> Option<ABI> {
    VERSIONS.iter().copied().find(|version| ruleset(*version, false).is_ok())
}

/// Restricts this process and all that it will start.
pub(super) fn restrict(confinement: &Confinement) -> Result<(), String> {
    let version = version().ok_or("this kernel has no Landlock (Linux 5.13 and newer have it)")?;
    let explain = |error: landlock::RulesetError| format!("cannot set up Landlock: {error}");
    let mut rules = ruleset(version, confinement.network).map_err(explain)?;
    let read = AccessFs::from_read(version);
    for path in SYSTEM {
        rules = allow_if_there(rules, Path::new(path), read)?;
    }
    for path in SINKS {
        rules = allow_if_there(rules, Path::new(path), read | AccessFs::WriteFile)?;
    }
    for path in &confinement.read {
        rules = allow(rules, path, read)?;
    }
    for path in &confinement.write {
        rules = allow(rules, path, write_access(version))?;
    }
    let status = rules.restrict_self().map_err(explain)?;
    if status.ruleset == RulesetStatus::FullyEnforced {
        Ok(())
    } else {
        Err(format!("Landlock enforces only a part of the rules: {:?}", status.ruleset))
    }
}

/// An empty set of rules, under which everything of this version is refused. An error means that the kernel lacks it.
fn ruleset(version: ABI, network: bool) -> Result<RulesetCreated, landlock::RulesetError> {
    // Hard: a restriction that the kernel doesn't know must fail, and not be left out.
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(version))?;
    if version >= ABI::V4 && !network {
        rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    if version >= ABI::V6 {
        rules = rules.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    }
    rules.create()
}

/// All but making device files and sending them commands.
fn write_access(version: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(version) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn allow_if_there(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    if path.exists() { allow(rules, path, access) } else { Ok(rules) }
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let explain = |error: &dyn std::fmt::Display| format!("cannot grant `{}`: {error}", path.display());
    let folder = path.metadata().map_err(|error| explain(&error))?.is_dir();
    let access = if folder { access } else { access & AccessFs::from_file(ABI::V7) };
    let place = PathFd::new(path).map_err(|error| explain(&error))?;
    rules.add_rule(PathBeneath::new(place, access)).map_err(|error| explain(&error))
}
