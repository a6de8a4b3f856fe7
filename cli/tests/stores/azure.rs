//! Azure Blob Storage: against Azurite, which looks at signatures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pantler_rig::{Ready, Server};

use crate::place::{Place, can_mount, cannot, secret_file};
use crate::shop::{Shop, is_refused};

const ACCOUNT: &str = "pantler";
/// Base64 of something, with [`SECRET`](crate::place::SECRET) in it.
const KEY: &str = "s3cretAccessKeyOfNobody0";
const PACKAGE: &str = "cargo xtask servers";

/// Stores every file below a folder, signed as Azure wants it: `KEY=... node upload.js PORT ACCOUNT
/// CONTAINER FOLDER`.
const UPLOAD: &str = r"
const crypto = require('crypto'), fs = require('fs'), path = require('path');
const [port, account, container, folder] = process.argv.slice(2), key = process.env.KEY;
async function put(resource, query, headers, body) {
  const all = {'x-ms-date': new Date().toUTCString(), 'x-ms-version': '2021-12-02', ...headers};
  const named = Object.keys(all).sort().map(name => `${name}:${all[name]}\n`).join('');
  const what = Object.keys(query).sort().map(name => `\n${name}:${query[name]}`).join('');
  const target = `/${account}${resource}`;
  const text = `PUT\n\n\n${body.length || ''}\n\n\n\n\n\n\n\n\n${named}/${account}${target}${what}`;
  const signature = crypto.createHmac('sha256', Buffer.from(key, 'base64')).update(text, 'utf8').digest('base64');
  const url = `http://127.0.0.1:${port}${target}?${new URLSearchParams(query)}`;
  const answer = await fetch(url, {method: 'PUT', body, headers: {...all, Authorization: `SharedKey ${account}:${signature}`}});
  if (answer.status !== 201 && answer.status !== 409) throw new Error(`${resource}: ${answer.status} ${await answer.text()}`);
}
async function main() {
  await put(`/${container}`, {restype: 'container'}, {}, Buffer.alloc(0));
  const files = fs.readdirSync(folder, {recursive: true}).filter(name => fs.statSync(path.join(folder, name)).isFile());
  const one = async () => {
    for (let name; (name = files.pop()) !== undefined;) {
      const resource = `/${container}/` + name.split('/').map(encodeURIComponent).join('/');
      await put(resource, {}, {'x-ms-blob-type': 'BlockBlob'}, fs.readFileSync(path.join(folder, name)));
    }
  };
  await Promise.all([one(), one(), one(), one()]);
}
main().catch(error => { console.error(error); process.exit(1); });
";

/// Where `cargo xtask servers` installs it.
fn program() -> Option<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers/node_modules");
    let program = modules.join("azurite/dist/src/blob/main.js");
    program.exists().then_some(program)
}

struct Azurite(Server);

impl Azurite {
    fn start(program: &Path) -> Option<Self> {
        let words = |port: u16, folder: &Path| {
            let (port, folder, script) = (port.to_string(), folder.display(), program.display());
            // Accounts and keys are in its environment. It tells its makers of its use unless it is
            // told not to.
            let words = format!(
                "AZURITE_ACCOUNTS={ACCOUNT}:{KEY} node {script} --blobHost 127.0.0.1 --blobPort {port} \
                 --location {folder} --silent --disableTelemetry --skipApiVersionCheck"
            );
            words.split(' ').map(str::to_owned).collect()
        };
        Server::start("env", PACKAGE, Ready::Listens, words).map(Self)
    }

    fn put(&self, objects: &[(String, Vec<u8>)]) {
        let folder = tempfile::tempdir().unwrap();
        let (script, files) = (folder.path().join("upload.js"), folder.path().join("files"));
        fs::write(&script, UPLOAD).unwrap();
        for (key, bytes) in objects {
            let path = files.join(key);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let port = self.0.port().to_string();
        let output = Command::new("node")
            .arg(&script)
            .args([&port, ACCOUNT, "box"])
            .arg(&files)
            .env("KEY", KEY)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_container_is_mounted_with_a_key_that_nobody_sees() {
    let Some(program) = program() else { return cannot("needs azurite: cargo xtask servers") };
    if !can_mount() {
        return;
    }
    let Some(azurite) = Azurite::start(&program) else { return };
    let place = Place::new();
    let endpoint = format!("http://{}/{ACCOUNT}", azurite.0.address());
    let account = ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT);
    let key = ("AZURE_STORAGE_ACCOUNT_KEY", KEY);
    let text = format!("{}={ACCOUNT}\n{}={KEY}\nAZURE_STORAGE_ENDPOINT={endpoint}\n", account.0, key.0);
    let file = secret_file(&place, "credentials", &text);
    let named = [account, key, ("AZURE_STORAGE_ENDPOINT", &endpoint)];
    let shop = Shop {
        origin: "az://box/data",
        many: 300,
        ways: &[(&[], &named), (&["--origin-credentials", &file], &[])],
        put: &|objects| azurite.put(objects),
    };
    shop.is_like_files(&place);
    let wrong = [account, (key.0, "YW5vdGhlciBrZXk="), named[2]];
    is_refused(&place, shop.origin, &[], &wrong, "refused");
    is_refused(
        &place,
        shop.origin,
        &[],
        &[account, (key.0, "no base 64"), named[2]],
        "AZURE_STORAGE_ACCOUNT_KEY",
    );
    is_refused(&place, "az://nobox", &[], &named, "there is no such container");
    is_refused(&place, "az://box/absent", &[], &named, "there is nothing below that path");
}
