//! A host with one recorded body, asked over a real socket.

use pantler_control::client::{Client, open_to_name};
use pantler_control::server::{Host, Server};
use pantler_control::wire::{Answer, Request};
use pantler_control::{
    Body, BodyInfo, BodyKind, BodyStat, ControlError, FileExplanation, FileNumber, Hint, HintAnswer,
    OwnerSelector, PolicyName, RunId, RunSpec, Speaker,
};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Answers everything and reports what it heard.
struct Recorder {
    heard: Mutex<Sender<String>>,
}

impl Recorder {
    fn hear(&self, text: String) {
        self.heard.lock().unwrap().send(text).unwrap();
    }
}

impl Body for Recorder {
    fn describe(&self) -> BodyInfo {
        BodyInfo {
            name: "/mnt/x".into(),
            kind: BodyKind::Mount,
            mount_point: Some("/mnt/x".into()),
            origin: Some("/x".into()),
            uid: 0,
            pid: std::process::id(),
            capacity_blocks: 8,
            block_bytes: 4096,
            allocation: "lru-sp".into(),
            ..BodyInfo::default()
        }
    }

    fn hint(
        &self,
        speaker: &Speaker,
        owner: &OwnerSelector,
        hint: &Hint,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<HintAnswer, ControlError> {
        let inode = file.map(|file| rustix::fs::fstat(file).unwrap().st_ino);
        self.hear(format!("{} {owner} {hint:?} {inode:?}", speaker.uid));
        Ok(HintAnswer::Done)
    }

    fn stat(&self, _: &Speaker) -> Result<BodyStat, ControlError> {
        Ok(BodyStat { body: self.describe(), ..BodyStat::default() })
    }

    fn explain(&self, _: &Speaker, _: &Path, _: BorrowedFd<'_>) -> Result<FileExplanation, ControlError> {
        Err(ControlError::unsupported("explaining"))
    }

    fn begin_run(&self, speaker: &Speaker, run: &RunSpec) -> Result<Option<RunId>, ControlError> {
        self.hear(format!("begin {} {} {}", run.name, run.leader == speaker.pid, run.uid));
        Ok(Some(RunId(7)))
    }

    fn take_in(&self, _: &Speaker, run: RunId, pid: u32) -> Result<usize, ControlError> {
        self.hear(format!("take in {} {pid}", run.0));
        Ok(1)
    }

    fn end_run(&self, run: RunId) {
        self.hear(format!("end {}", run.0));
    }

    fn stop(&self, _: &Speaker) -> Result<(), ControlError> {
        self.hear("stop".into());
        Ok(())
    }
}

struct Scene {
    folder: tempfile::TempDir,
    heard: Receiver<String>,
    server: Server,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        // Other users must be able to reach the socket for the tests that speak as them.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (sender, heard) = channel();
        let host = Arc::new(Host::default());
        host.add(Arc::new(Recorder { heard: Mutex::new(sender) })).unwrap();
        let server = Server::bind(&folder.path().join("control.sock"), host).unwrap();
        Scene { folder, heard, server }
    }

    fn client(&self) -> Client {
        Client::connect(self.server.path()).unwrap()
    }

    fn heard(&self) -> String {
        self.heard.recv_timeout(Duration::from_secs(10)).unwrap()
    }
}

fn stat_request() -> Request {
    Request::Stat { on: "/mnt/x".into() }
}

#[test]
fn a_hint_arrives_with_its_file_and_its_speaker() {
    let scene = Scene::new();
    let path = scene.folder.path().join("file");
    std::fs::write(&path, "x").unwrap();
    let file = open_to_name(&path).unwrap();
    let hint = Hint::SetPriority { path: path.clone(), priority: 1 };
    let request = Request::Hint {
        on: "/mnt/x".into(),
        owner: OwnerSelector::Name("job".into()),
        hint: hint.clone(),
        number: None,
    };
    let answer = scene.client().ask(&request, Some(file.as_fd())).unwrap();
    assert_eq!(answer, Answer::Hint(HintAnswer::Done));
    let uid = rustix::process::geteuid().as_raw();
    let inode = path.metadata().unwrap().ino();
    assert_eq!(scene.heard(), format!("{uid} owner \"job\" {hint:?} Some({inode})"));
}

/// Protects hints of programs that have lost their ring meanwhile.
#[test]
fn a_hint_is_carried_out_without_a_ring_that_numbers_its_file() {
    let scene = Scene::new();
    let path = scene.folder.path().join("file");
    std::fs::write(&path, "x").unwrap();
    let hint = Hint::SetPriority { path: path.clone(), priority: 1 };
    let number = Some(FileNumber { ring: 1, number: 0 });
    let request = Request::Hint { on: "/mnt/x".into(), owner: OwnerSelector::Caller, hint, number };
    let file = open_to_name(&path).unwrap();
    let answer = scene.client().ask(&request, Some(file.as_fd())).unwrap();
    assert_eq!(answer, Answer::NotNumbered(HintAnswer::Done));
    assert!(scene.heard().contains("SetPriority"));
}

#[test]
fn senseless_requests_are_refused_before_a_body_hears_them() {
    let scene = Scene::new();
    let hint =
        |hint| Request::Hint { on: "/mnt/x".into(), owner: OwnerSelector::UserDefault, hint, number: None };
    let nameless = hint(Hint::SetPriority { path: "f".into(), priority: 1 });
    let far = hint(Hint::SetPolicy { priority: 5000, policy: PolicyName::Mru });
    let nowhere = Request::Stat { on: "/mnt/y".into() };
    let launch = Request::Launch { launch: serde_json::json!({}) };
    for (request, status) in [(nameless, 2), (far, 2), (nowhere, 1), (launch, 1)] {
        let error = scene.client().ask(&request, None).unwrap_err();
        assert_eq!(error.exit_status(), status, "{request:?}: {error}");
    }
    assert!(scene.heard.try_recv().is_err());
}

#[test]
fn nonsense_on_the_socket_is_answered_and_harms_nobody() {
    let scene = Scene::new();
    let mut stream = UnixStream::connect(scene.server.path()).unwrap();
    stream.write_all(b"\0\xff nonsense\n{\"version\":9}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("\"kind\":\"invalid\"")).count(), 2, "{text}");
    assert!(matches!(scene.client().ask(&stat_request(), None).unwrap(), Answer::Stat(_)));
}

#[test]
fn a_run_lasts_as_long_as_its_connection() {
    let scene = Scene::new();
    let uid = rustix::process::geteuid().as_raw();
    let run = RunSpec { name: "job".into(), keep: true, leader: 1, uid, profile: None, is_steered: false };
    let mut client = scene.client();
    assert_eq!(client.begin_run(&run).unwrap().len(), 1);
    // The leader is the speaker, whatever the request said.
    assert_eq!(scene.heard(), format!("begin job true {uid}"));
    assert!(scene.heard.try_recv().is_err());
    let error = client.begin_run(&run).unwrap_err();
    assert!(error.to_string().contains("1 run on a connection"), "{error}");
    // A connection without a run takes no process in.
    assert_eq!(scene.client().take_in(9), Ok(0));
    assert_eq!(client.take_in(8), Ok(1));
    assert_eq!(scene.heard(), "take in 7 8");
    drop(client);
    assert_eq!(scene.heard(), "end 7");
}

#[test]
fn the_socket_is_for_owner_and_group_and_goes_with_its_server() {
    let scene = Scene::new();
    let path = scene.server.path().to_owned();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    let second = Server::bind(&path, Arc::new(Host::default()));
    assert_eq!(second.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    drop(scene.server);
    assert!(!path.exists());
    // The recorder is let go of, and with it the only sender.
    let gone = scene.heard.recv_timeout(Duration::from_secs(10));
    assert_eq!(gone, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn connections_of_one_user_are_bounded() {
    let scene = Scene::new();
    let mut clients: Vec<Client> = (0..64).map(|_| scene.client()).collect();
    for client in &mut clients {
        client.ask(&stat_request(), None).unwrap();
    }
    let error = scene.client().ask(&stat_request(), None).unwrap_err();
    assert!(error.to_string().contains("64 connections") || error.exit_status() == 1, "{error}");
    drop(clients);
}

#[test]
fn a_host_that_says_nothing_is_named_soon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let _stopped = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let start = std::time::Instant::now();
    let error = Client::connect(&path).unwrap().ask(&stat_request(), None).unwrap_err().to_string();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let expected =
        format!("no answer within 2 s from process {} at {}: ", std::process::id(), path.display());
    assert!(error.starts_with(&expected), "{error}");
}

/// Speaking as another user needs root; without it the test says so.
fn as_user<T: Send>(uid: u32, call: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "speaking as another user needs root");
        eprintln!("skipped: speaking as another user needs root");
        return None;
    }
    // Credentials belong to a thread on Linux: the raw call changes only the one that ends here.
    Some(std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let user = rustix::fs::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            call()
        });
        thread.join().unwrap()
    }))
}

#[test]
fn another_user_can_neither_stop_a_body_nor_declare_a_run_for_root() {
    let scene = Scene::new();
    std::fs::set_permissions(scene.server.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let path = scene.server.path().to_owned();
    let refused = as_user(4711, || {
        let mut client = Client::connect(&path).unwrap();
        let stop = client.ask(&Request::Stop { on: "/mnt/x".into() }, None).unwrap_err();
        let run =
            RunSpec { name: "job".into(), keep: true, leader: 1, uid: 0, profile: None, is_steered: false };
        (stop, client.begin_run(&run).unwrap_err())
    });
    if let Some((stop, run)) = refused {
        assert_eq!((stop.exit_status(), run.exit_status()), (3, 3));
    }
    assert!(scene.heard.try_recv().is_err());
}
