//! docs/SEMANTICS.md, sentence by sentence: the mount adds no rights.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_program_s_own_rights() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let mnt = fixture.mnt.display();

    quote("The daemon acts with the user, the group and the supplementary groups of the program that asks.");
    let output =
        as_user(NOBODY, "", &format!("echo mine > {mnt}/n; mkdir {mnt}/d; ln -s x {mnt}/l; mkfifo {mnt}/p"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["n", "d", "l", "p"] {
        let meta = fs::symlink_metadata(fixture.origin.join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (NOBODY, NOBODY), "{name}");
    }
    fs::write(fixture.origin.join("team"), "for group 4242").unwrap();
    std::os::unix::fs::chown(fixture.origin.join("team"), Some(0), Some(4242)).unwrap();
    fs::set_permissions(fixture.origin.join("team"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(as_user(NOBODY, "4242", &format!("cat {mnt}/team")).status.success());
    assert!(refused(&as_user(NOBODY, "", &format!("cat {mnt}/team"))).contains("Permission denied"));
    // A group that the file may be given to is one that the program has.
    let give = format!("touch {mnt}/given; chgrp 4242 {mnt}/given");
    assert!(as_user(NOBODY, "4242", &give).status.success());
    refused(&as_user(NOBODY, "", &give.replace("given", "kept")));

    quote(
        "What a program may not read, write or list in the origin it may not here, access control lists included.",
    );
    fs::write(fixture.origin.join("secret"), "cached, and still secret").unwrap();
    fs::set_permissions(fixture.origin.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(fixture.origin.join("closed")).unwrap();
    fs::write(fixture.origin.join("closed/f"), "x").unwrap();
    fs::set_permissions(fixture.origin.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::read(fixture.mnt.join("secret")).unwrap();
    fs::read(fixture.mnt.join("closed/f")).unwrap();
    let mut commands = vec![
        format!("cat {mnt}/secret"),
        format!("echo x >> {mnt}/secret"),
        format!("ls {mnt}/closed"),
        format!("cat {mnt}/closed/f"),
        format!("rm {mnt}/secret"),
        format!("mv {mnt}/secret {mnt}/closed"),
        format!("chmod 777 {mnt}/secret"),
        format!("chown {NOBODY} {mnt}/secret"),
        format!("truncate -s 0 {mnt}/secret"),
        format!("touch -d 2001-01-01 {mnt}/secret"),
        format!("setfattr -n user.x -v y {mnt}/secret"),
        format!("getfattr -n user.x {mnt}/secret"),
    ];
    must(&format!(
        "setfacl -m u:{NOBODY}:--- {0}/acl-denied 2>/dev/null || (echo x > {0}/acl-denied; chmod 644 {0}/acl-denied; setfacl -m u:{NOBODY}:--- {0}/acl-denied)",
        fixture.origin.display()
    ));
    commands.push(format!("cat {mnt}/acl-denied"));
    for command in commands {
        refused(&as_user(NOBODY, "", &command));
    }
    must(&format!(
        "cd {}; echo y > acl-granted; chmod 600 acl-granted; setfacl -m u:{NOBODY}:r acl-granted",
        fixture.origin.display()
    ));
    assert_eq!(as_user(NOBODY, "", &format!("cat {mnt}/acl-granted")).stdout, b"y\n");
    assert_eq!(fs::read_to_string(fixture.origin.join("secret")).unwrap(), "cached, and still secret");
    // Attributes of root's are not even listed for others.
    must(&format!(
        "setfattr -n trusted.x -v y {0}/n; setfattr -n user.y -v z {0}/n",
        fixture.origin.display()
    ));
    let list = format!("getfattr --absolute-names -m - {mnt}/n");
    let listed = as_user(NOBODY, "", &list).stdout;
    let listed = String::from_utf8_lossy(&listed);
    assert!(listed.contains("user.y") && !listed.contains("trusted.x"), "{listed}");
    assert!(must(&list).contains("trusted.x"));

    quote("The file mode mask and default access control lists apply to new files as in the origin.");
    must(&format!("umask 027; echo > {mnt}/masked; mkdir {mnt}/masked-dir"));
    assert_eq!(
        (mode(&fixture.origin.join("masked")), mode(&fixture.origin.join("masked-dir"))),
        (0o640, 0o750)
    );
    must(&format!("mkdir {mnt}/default; setfacl -d -m u::rw,g::r,o::r,u:{NOBODY}:rw {mnt}/default"));
    must(&format!(
        "umask 077; echo > {mnt}/default/f; mkdir {0}/default2; setfacl -d -m u::rw,g::r,o::r,u:{NOBODY}:rw {0}/default2; echo > {0}/default2/f",
        fixture.origin.display()
    ));
    assert_eq!(mode(&fixture.origin.join("default/f")), mode(&fixture.origin.join("default2/f")));
    assert!(must(&format!("getfacl -n {mnt}/default/f 2>/dev/null")).contains(&format!("user:{NOBODY}:rw")));
}

#[test]
fn set_id_bits() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    quote(
        "Set-user-id and set-group-id bits are cleared when an unprivileged user writes to a \
            file, cuts it, or gives it another owner.",
    );
    let changes =
        ["echo x >> F", "truncate -s 3 F", "chgrp 4242 F", "dd if=/dev/zero of=F conv=notrunc bs=10 count=1"];
    for (number, change) in changes.iter().enumerate() {
        let name = format!("suid{number}");
        let path = fixture.origin.join(&name);
        fs::write(&path, "program").unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        let command = change.replace('F', &fixture.mnt.join(&name).display().to_string());
        let output = as_user(NOBODY, "4242", &command);
        assert!(output.status.success(), "{change}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(mode(&path), 0o755, "after {change}");
        assert_eq!(mode(&fixture.mnt.join(&name)), 0o755, "after {change}");
    }

    // `stat -c %a` asks for the mode alone, which the kernel answers from what it remembers.
    let fixture = Fixture::with(|options| options.refresh = Duration::from_secs(600));
    for (number, change) in changes.iter().chain(&[": > F", "fallocate -l 100000 F"]).enumerate() {
        let (name, path) = (format!("suid{number}"), fixture.origin.join(format!("suid{number}")));
        fs::write(&path, "program").unwrap();
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        let command = format!("stat -c %a F && {change} && stat -c %a F");
        let command = command.replace('F', &fixture.mnt.join(&name).display().to_string());
        let output = as_user(NOBODY, "4242", &command);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "6755\n755\n", "{change}");
    }

    quote("Set-id programs and device files on a mount have no effect.");
    fs::copy("/usr/bin/id", fixture.origin.join("id")).unwrap();
    fs::set_permissions(fixture.origin.join("id"), fs::Permissions::from_mode(0o4755)).unwrap();
    let output = as_user(NOBODY, "", &format!("{} -u", fixture.mnt.join("id").display()));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), NOBODY.to_string());
    must(&format!("mknod -m 666 {} c 1 3", fixture.origin.join("null").display()));
    assert_eq!(File::open(fixture.mnt.join("null")).unwrap_err().raw_os_error(), Some(libc::EACCES));
}

#[test]
fn programs_that_may_be_run_but_not_read() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let mnt = fixture.mnt.display();
    quote("A program that the caller may run but not read runs, and is not read by other calls.");
    let program = |name: &str, mode: u32| {
        fs::copy("/usr/bin/id", fixture.origin.join(name)).unwrap();
        fs::set_permissions(fixture.origin.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    program("run", 0o111);
    program("acl", 0o700);
    must(&format!("setfacl -m u:{NOBODY}:x {}", fixture.origin.join("acl").display()));
    for name in ["run", "acl"] {
        let output = as_user(NOBODY, "", &format!("{mnt}/{name} -u"));
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), NOBODY.to_string());
        // Its bytes are in the cache by now, and still not for the caller.
        let refusal = refused(&as_user(NOBODY, "", &format!("cat {mnt}/{name}")));
        assert!(refusal.contains("Permission denied"), "{refusal}");
    }
    // A script is read by its interpreter, which is a call like any other.
    fs::write(fixture.origin.join("script"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(fixture.origin.join("script"), fs::Permissions::from_mode(0o111)).unwrap();
    refused(&as_user(NOBODY, "", &format!("{mnt}/script")));
    for (name, mode) in [("read", 0o644), ("owner", 0o700), ("group", 0o710)] {
        program(name, mode);
        refused(&as_user(NOBODY, "", &format!("{mnt}/{name} -u")));
    }
}

#[test]
fn links_that_lead_elsewhere() {
    if cannot_mount() {
        return;
    }
    let fixture = Fixture::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "outside").unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let secret = outside.path().join("secret");

    quote("A symbolic link is followed by the kernel with the program's rights, never by the daemon.");
    symlink(&secret, fixture.origin.join("out")).unwrap();
    symlink("../../../../../../../../../../../../etc/shadow", fixture.origin.join("up")).unwrap();
    symlink("/proc/self/root", fixture.origin.join("root")).unwrap();
    let mnt = fixture.mnt.display();
    for command in [
        format!("cat {mnt}/out"),
        format!("cat {mnt}/up"),
        format!("cat {mnt}/root/etc/shadow"),
        format!("echo x > {mnt}/out"),
        format!("ln {mnt}/out {mnt}/hard && cat {mnt}/hard"),
    ] {
        refused(&as_user(NOBODY, "", &command));
    }
    // A user that may follow it, follows it, to the program's root and not the daemon's.
    assert_eq!(fs::read_to_string(fixture.mnt.join("out")).unwrap(), "outside");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "outside");

    quote("A directory that is replaced by a symbolic link during a walk does not lead out of the origin.");
    fs::create_dir(fixture.origin.join("inside")).unwrap();
    fs::write(fixture.origin.join("inside/secret"), "within").unwrap();
    symlink(outside.path(), fixture.origin.join("trap")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (a, b) = (fixture.origin.join("inside"), fixture.origin.join("trap"));
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, a, rustix::fs::CWD, b, flags).unwrap();
            }
        });
        let walk = format!(
            "for i in $(seq 500); do cat {mnt}/inside/secret {mnt}/trap/secret 2>/dev/null; done; true"
        );
        let output = as_user(NOBODY, "", &walk);
        stop.store(true, Ordering::Relaxed);
        assert!(!String::from_utf8_lossy(&output.stdout).contains("outside"));
    });
}

#[test]
fn a_descriptor_keeps_what_it_was_opened_with() {
    if cannot_mount() {
        return;
    }
    // Opened while it was allowed, a file stays readable and writable, as everywhere.
    let fixture = Fixture::new();
    fs::write(fixture.mnt.join("f"), "before").unwrap();
    let file = fs::OpenOptions::new().read(true).write(true).open(fixture.mnt.join("f")).unwrap();
    fs::set_permissions(fixture.mnt.join("f"), fs::Permissions::from_mode(0o0)).unwrap();
    file.write_all_at(b"after!", 0).unwrap();
    let mut bytes = [0; 6];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"after!");
}
