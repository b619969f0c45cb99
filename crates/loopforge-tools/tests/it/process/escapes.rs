//! The table of escapes: what a hostile command tries, and that it gets nowhere.
//!
//! Where the host allows, each attempt is made without the sandbox too: one that fails there as well would prove nothing.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use loopforge_core::json::Json;
use loopforge_core::task::{Grants, Net};
use loopforge_core::tool::Code;
use loopforge_tools::Tool;
use serde_json::json;

use super::{Bench, off, processes_with, text, tool};

/// What each attempt is met with: `ok`, or the name of an error.
const HARNESS: &str = r#"
import ctypes, errno, json, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return result
def read(path):
    with open(path, 'rb') as file: file.read(1)
def write(path, mode='wb'):
    with open(path, mode) as file: file.write(b'x')
given = json.load(sys.stdin)
results = {}
for name, attempt in given['attempts'].items():
    try:
        exec(attempt)
        results[name] = 'ok'
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno, str(error))
    except MemoryError:
        results[name] = 'MemoryError'
print(json.dumps(results))
"#;

impl Bench {
    /// Makes each attempt; `None` is without a sandbox.
    async fn attempt(&self, attempts: &[(&str, String)], grants: Option<Grants>) -> BTreeMap<String, String> {
        let script = HARNESS.replace('{', "{{").replace('}', "}}");
        let sandbox = grants.map_or(off(), |grants| Some(loopforge_core::task::Sandbox::Grants(grants)));
        let tool = tool(&["/usr/bin/python3", "-c", &script], sandbox);
        let attempts: Json = attempts.iter().map(|(name, code)| ((*name).to_owned(), json!(code))).collect();
        let result = tool.call(json!({ "attempts": attempts }), &self.context()).await;
        assert_eq!(result.code, Code::Success, "{result:?}");
        serde_json::from_value(result.data).unwrap()
    }

    /// All attempts are refused in the sandbox, and all succeed without.
    async fn assert_refused(&self, attempts: &[(&str, String)], grants: Grants) {
        let inside = self.attempt(attempts, Some(grants)).await;
        assert_eq!(inside.len(), attempts.len());
        for (name, result) in &inside {
            assert!(["EACCES", "EPERM"].contains(&result.as_str()), "{name}: {result}");
        }
        for (name, result) in self.attempt(attempts, None).await {
            assert_eq!(result, "ok", "{name} fails without the sandbox too");
        }
    }

    async fn assert_allowed(&self, attempts: &[(&str, String)], grants: Grants) {
        for (name, result) in self.attempt(attempts, Some(grants)).await {
            assert_eq!(result, "ok", "{name}");
        }
    }
}

fn grants(read: &[&str], write: &[&str]) -> Grants {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Grants { read: owned(read), write: owned(write), ..Grants::default() }
}

#[tokio::test]
async fn files_outside_are_not_read() {
    let bench = Bench::new();
    bench.file("data/public.txt", "open");
    bench.file("secret.txt", "hidden");
    bench.file("data-secret/x", "hidden");
    let base = bench.base();
    let base = base.display();
    std::os::unix::fs::symlink(bench.base().join("secret.txt"), bench.workspace().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", bench.base().join("data/etc")).unwrap();
    let attempts = [
        ("beside the granted folder", "read('secret.txt')".to_owned()),
        ("a folder that begins with its name", "read('data-secret/x')".to_owned()),
        ("up and around", "read('data/../secret.txt')".to_owned()),
        ("absolute", format!("read('{base}/secret.txt')")),
        ("a link in the workspace", "read(os.environ['HOME'] + '/link')".to_owned()),
        ("a link in the granted folder", "read('data/etc/hostname')".to_owned()),
        (
            "a new link",
            "os.symlink('/etc/hostname', os.environ['TMPDIR'] + '/l'); read(os.environ['TMPDIR'] + '/l')".to_owned(),
        ),
        ("a hard link", format!("os.link('{base}/secret.txt', os.environ['HOME'] + f'/{{os.getpid()}}')")),
        ("listing", "os.listdir('.')".to_owned()),
        ("listing the root", "os.listdir('/')".to_owned()),
        ("the host's configuration", "read('/etc/hostname')".to_owned()),
        ("other processes", "os.listdir('/proc')".to_owned()),
    ];
    let grant = grants(&["data"], &[]);
    let inside = bench.attempt(&attempts, Some(grant.clone())).await;
    for (name, result) in &inside {
        // A hard link into another folder is refused as a move across.
        assert!(["EACCES", "EPERM", "EXDEV"].contains(&result.as_str()), "{name}: {result}");
    }
    std::fs::remove_file(bench.workspace().join("tmp/l")).unwrap();
    for (name, result) in bench.attempt(&attempts, None).await {
        assert_eq!(result, "ok", "{name} fails without the sandbox too");
    }
    bench.assert_allowed(&[("granted", "read('data/public.txt')".to_owned())], grant).await;
    // Readable for root only; the sandbox refuses root as well.
    let shadow = [("shadow", "read('/etc/shadow')".to_owned())];
    assert_eq!(bench.attempt(&shadow, Some(Grants::default())).await["shadow"], "EACCES");
}

#[tokio::test]
async fn files_outside_are_not_changed() {
    let bench = Bench::new();
    for name in ["data/a", "victim", "victim2", "victim3", "out/x"] {
        bench.file(name, "before");
    }
    let elsewhere = tempfile::TempDir::new().unwrap();
    let elsewhere = elsewhere.path().display().to_string();
    let attempts = [
        ("a new file", "write('new')".to_owned()),
        ("in a folder that may be read", "write('data/a')".to_owned()),
        ("appending", "write('victim', 'ab')".to_owned()),
        ("truncating", "os.truncate('victim2', 0)".to_owned()),
        ("in another folder", format!("write('{elsewhere}/x')")),
        ("a folder", format!("os.mkdir('{elsewhere}/folder')")),
        ("a link", format!("os.symlink('/', '{elsewhere}/link')")),
        ("a pipe", format!("os.mkfifo('{elsewhere}/pipe')")),
        ("deleting", "os.remove('victim3')".to_owned()),
        ("renaming", "os.rename('victim', 'renamed')".to_owned()),
    ];
    bench.assert_refused(&attempts, grants(&["data"], &["out"])).await;
    let allowed = [
        ("in the granted folder", "write('out/y'); os.remove('out/x'); os.mkdir('out/z')".to_owned()),
        ("in the workspace", "write(os.environ['HOME'] + '/y'); read(os.environ['HOME'] + '/y')".to_owned()),
        ("in the temporary folder", "import tempfile; tempfile.TemporaryFile()".to_owned()),
        ("the sink", "write('/dev/null')".to_owned()),
        ("a folder that was not there", "write('made/x')".to_owned()),
    ];
    bench.assert_allowed(&allowed, grants(&[], &["out", "made"])).await;
}

/// A path below a folder that can be written could be a link by the next call.
#[tokio::test]
async fn a_grant_cannot_be_redirected() {
    let bench = Bench::new();
    bench.file("work/data/x", "fine");
    bench.file("work/tool.py", "print('fine')");
    bench.file("private/x", "secret");
    let grant = || grants(&["work/data"], &["work/more", "work"]);
    let redirect = "rm -rf work/data work/tool.py work/more && ln -s ../private work/data && ln -s ../private work/more && ln -s ../private/x work/tool.py";
    assert_eq!(bench.shell(redirect, grant()).await.error, None);
    let result = bench.shell("cat work/data/x work/more/x private/x", grant()).await;
    assert_eq!((result.code, &result.data), (Code::Permanent, &Json::Null), "{result:?}");
    // Nor by the file that the command names.
    let result = bench.call(&["cat", "work/tool.py"], grant()).await;
    assert_eq!((result.code, &result.data), (Code::Permanent, &Json::Null), "{result:?}");
}

#[tokio::test]
async fn the_network_is_closed_unless_granted() {
    let bench = Bench::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let unix = bench.workspace().join("socket");
    let _unix = std::os::unix::net::UnixListener::bind(&unix).unwrap();
    let internet = [
        ("tcp", format!("socket.create_connection(('127.0.0.1', {port}))")),
        ("udp", format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))")),
        ("listening", "socket.socket().bind(('127.0.0.1', 0))".to_owned()),
        ("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)".to_owned()),
    ];
    bench.assert_refused(&internet, Grants::default()).await;
    let local = [("a service of the host", format!("socket.socket(socket.AF_UNIX).connect('{}')", unix.display()))];
    bench.assert_refused(&local, Grants::default()).await;

    let any = || Grants { net: Net::Any, ..Grants::default() };
    bench.assert_allowed(&internet, any()).await;
    // Docker, the SSH agent and the session's manager are no network.
    bench.assert_refused(&local, any()).await;
    bench.assert_allowed(&[("a pair", "socket.socketpair()".to_owned())], Grants::default()).await;
    if cfg!(target_arch = "x86_64") {
        // io_uring can make sockets by itself; the numbers with bit 30 are the x32 names of `socket` and `ptrace`.
        let around = [
            ("io_uring", "call(425, 1, ctypes.create_string_buffer(256))".to_owned()),
            ("x32 socket", "call(0x40000000 | 41, 2, 1, 0)".to_owned()),
            ("x32 ptrace", "call(0x40000000 | 521, 0, 0, 0, 0)".to_owned()),
        ];
        for (name, result) in bench.attempt(&around, Some(Grants::default())).await {
            assert_eq!(result, "EPERM", "{name}");
        }
    }
}

#[tokio::test]
async fn other_processes_are_out_of_reach() {
    let bench = Bench::new();
    let me = std::process::id();
    let refused = [
        ("environment of the caller", format!("read('/proc/{me}/environ')")),
        ("command line of the caller", format!("read('/proc/{me}/cmdline')")),
        ("signal to the caller", format!("os.kill({me}, 0)")),
        ("signal to the helper", "os.kill(os.getppid(), 0)".to_owned()),
    ];
    bench.assert_refused(&refused, Grants::default()).await;
    // A process may trace its own child where the host allows nothing else; the sandbox refuses this too.
    let trace = "
child = os.fork()
if child == 0:
    import time; time.sleep(30); os._exit(0)
try: call({'x86_64': 101}.get(os.uname().machine, 117), 0x4206, child, 0, 0)
finally: os.kill(child, 9)";
    bench.assert_refused(&[("trace a child", trace.to_owned())], Grants::default()).await;
    let always = [
        ("trace the caller", format!("call({{'x86_64': 101}}.get(os.uname().machine, 117), 0x4206, {me}, 0, 0)")),
        (
            "trace the helper",
            "call({'x86_64': 101}.get(os.uname().machine, 117), 0x4206, os.getppid(), 0, 0)".to_owned(),
        ),
    ];
    for (name, result) in bench.attempt(&always, Some(Grants::default())).await {
        assert_eq!(result, "EPERM", "{name}");
    }
}

#[tokio::test]
async fn the_kernel_is_out_of_reach() {
    let bench = Bench::new();
    // What an unprivileged user could not do anyway is asserted for root, as whom this may run as well.
    let script = "
        unshare -U true 2>/dev/null && echo user-namespace
        unshare -m true 2>/dev/null && echo mount-namespace
        mount -t tmpfs x $HOME/tmp 2>/dev/null && echo mount
        chroot / true 2>/dev/null && echo chroot
        mknod $HOME/device b 7 0 2>/dev/null && echo device
        grep NoNewPrivs: /proc/self/status /dev/null
        true";
    let result = bench.shell(script, Grants::default()).await;
    assert_eq!(result.data, Json::Null, "{result:?}");
    let status = bench.python("print(open('/proc/self/status').read())", Grants::default()).await;
    assert!(text(&status).contains("NoNewPrivs:\t1"), "{}", text(&status));
    assert!(text(&status).contains("Seccomp:\t2"), "{}", text(&status));
}

#[tokio::test]
async fn nothing_of_ours_is_inherited() {
    let bench = Bench::new();
    // The reader itself has one more open while it looks.
    let script = "import json, os\nprint(json.dumps(sorted(os.listdir('/proc/self/fd'))))";
    let result = bench.python(script, Grants::default()).await;
    assert_eq!(result.data, json!(["0", "1", "2", "3"]));
    let terminal = bench.python("open('/dev/tty')", Grants::default()).await;
    assert_eq!(terminal.code, Code::Permanent);
}

#[tokio::test]
async fn memory_is_bounded() {
    let bench = Bench::new();
    let grant = Grants { memory_mb: Some(256), ..Grants::default() };
    let attempts = [("within", "bytearray(50_000_000)".to_owned()), ("beyond", "bytearray(1_000_000_000)".to_owned())];
    let results = bench.attempt(&attempts, Some(grant)).await;
    assert_eq!((results["within"].as_str(), results["beyond"].as_str()), ("ok", "MemoryError"));
}

#[tokio::test]
async fn files_are_bounded() {
    let bench = Bench::new();
    let path = "path = os.environ['HOME'] + '/large'; file = open(path, 'wb'); ";
    let attempts = [
        ("within", format!("{path} file.truncate(1000 << 20)")),
        ("beyond", format!("{path} file.truncate(1025 << 20)")),
        ("writing beyond", format!("{path} file.seek(1024 << 20); file.write(b'x'); file.flush()")),
        ("open files", "files = [open('/dev/null') for _ in range(2000)]".to_owned()),
    ];
    let results = bench.attempt(&attempts, Some(Grants::default())).await;
    let expected = [("beyond", "EFBIG"), ("open files", "EMFILE"), ("within", "ok"), ("writing beyond", "EFBIG")];
    assert_eq!(results, expected.map(|(name, result)| (name.to_owned(), result.to_owned())).into());
}

#[tokio::test]
async fn processor_time_is_bounded() {
    let bench = Bench::new();
    let grant = Grants { cpu_s: Some(1), ..Grants::default() };
    let result = bench.shell("while :; do :; done", grant).await;
    assert_eq!(result.code, Code::Internal);
    assert!(result.error.unwrap().contains("processor time"));
    // Without a bound of its own the time limit of the call holds.
    let mut context = bench.context();
    context.timeout = Duration::from_secs(1);
    let result = tool(&["sh", "-c", "while :; do :; done"], None).call(json!({}), &context).await;
    assert_eq!(result.code, Code::Timeout);
}

/// Grows to 4,096 processes where nothing stops it, so that a failure of this test does no harm.
#[tokio::test]
async fn a_fork_bomb_is_stopped_and_the_host_goes_on() {
    let bench = Bench::new();
    let script = "
import os, time
for _ in range(12):
    try: os.fork()
    except OSError: pass
time.sleep(100)";
    let result = tool(&["/usr/bin/python3", "-c", script, "61.8107"], None).call(json!({}), &bench.context()).await;
    assert_eq!(result.code, Code::Internal, "{result:?}");
    assert!(result.error.unwrap().contains("more than 256 processes"));
    assert_eq!(processes_with("61.8107"), 0);
    // A crowd within the bound is fine.
    let result = bench.shell("for n in $(seq 100); do sleep 0.5 & done; wait; echo done", Grants::default()).await;
    assert_eq!(text(&result), "done\n");
}

/// What the documentation says isn't protected. If this fails, the documentation has to change.
#[tokio::test]
async fn the_limits_are_as_documented() {
    let bench = Bench::new();
    bench.file("outside", "x").metadata().unwrap();
    std::fs::File::options().append(true).open(bench.base().join("outside")).unwrap().write_all(b"y").unwrap();
    let attempts = [
        ("existence and size", "assert os.stat('outside').st_size == 2".to_owned()),
        ("permissions", "os.chmod('outside', 0o600)".to_owned()),
        ("times", "os.utime('outside', (0, 0))".to_owned()),
    ];
    bench.assert_allowed(&attempts, Grants::default()).await;
}
